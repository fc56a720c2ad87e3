#include "coord/etcd_call.h"

#include "coord/err.h"
#include "coord/etcd_json.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALL_BUDGET_MS = 3000, /* in which an election of etcd's is over */
    CALL_LOGIN_MS = 5000,  /* without a byte, while etcd checks a password */
    CALL_PAUSE_MS = 50,    /* between two rounds through the endpoints */
};

enum { /* of gRPC */
       GRPC_INVALID_ARGUMENT = 3,
       GRPC_NOT_FOUND = 5,
       GRPC_PERMISSION_DENIED = 7,
       GRPC_RESOURCE_EXHAUSTED = 8,
       GRPC_FAILED_PRECONDITION = 9,
       GRPC_OUT_OF_RANGE = 11,
       GRPC_UNAUTHENTICATED = 16,
};

struct etcd_call {
    struct etcd_http *http;        /* [const] */
    char *user, *password;         /* [const] */
    const struct clock *clock;     /* [const] */
    etcd_call_changed_fn *changed; /* [const] */
    void *arg;                     /* [const] */

    /* One asks for a token, the others wait for it: a password costs etcd a tenth of a
     * second of processor time, and who gave up asking is served nevertheless. */
    pthread_mutex_t token_lock; /* before `lock`; held during I/O */

    pthread_mutex_t lock;
    char *token;         /* [lock] */
    bool reachable;      /* [lock] */
    int64_t answered_ms; /* [lock] wall clock of the last answer */
    char why[256];       /* [lock] the last failure */
};

/* What to do after one attempt. */
enum verdict {
    CALL_DONE,  /* answered, well or not: the result is final */
    CALL_NEXT,  /* not done; another endpoint may do it */
    CALL_TOKEN, /* not done; with a new token it may be */
    CALL_LOST,  /* may have been done */
};

static bool contains(const struct etcd_failure *failure, const char *words)
{
    return strstr(failure->text, words) != NULL;
}

/* etcd refused before it did anything. */
static enum verdict judge_argument(const struct etcd_failure *failure, int *rc)
{
    if (contains(failure, "auth store is old") ||
        contains(failure, "user name is empty"))
        return CALL_TOKEN;
    if (contains(failure, "authentication failed"))
        *rc = -EACCES;
    else if (contains(failure, "too large") || contains(failure, "too many operations"))
        *rc = -E2BIG;
    else
        *rc = -EINVAL;
    return CALL_DONE;
}

/* The meaning of a reply that is no success. */
static enum verdict judge_failure(long status, const struct etcd_failure *failure,
                                  int *rc)
{
    switch (failure->code) {
    case GRPC_INVALID_ARGUMENT:
        return judge_argument(failure, rc);
    case GRPC_UNAUTHENTICATED:
        return CALL_TOKEN;
    case GRPC_NOT_FOUND:
        *rc = E_SESSION_LOST;
        return CALL_DONE;
    case GRPC_PERMISSION_DENIED:
        *rc = -EACCES;
        return CALL_DONE;
    case GRPC_FAILED_PRECONDITION:
        *rc = contains(failure, "lease already exists") ? -EEXIST : -EACCES;
        return CALL_DONE;
    case GRPC_OUT_OF_RANGE:
        *rc = -ESTALE;
        return CALL_DONE;
    case GRPC_RESOURCE_EXHAUSTED:
        if (contains(failure, "too many requests"))
            return CALL_NEXT;
        *rc = contains(failure, "space") ? -ENOSPC : -E2BIG;
        return CALL_DONE;
    default:
        break;
    }
    if (contains(failure, "etcdserver: no leader"))
        return CALL_NEXT; /* said before anything is proposed */
    if (failure->code == -1 && (status == 400 || status == 401 || status == 403)) {
        *rc = -EACCES;
        return CALL_DONE;
    }
    return failure->code == -1 && status == 404 ? CALL_NEXT : CALL_LOST;
}

static enum verdict judge(struct etcd_http *http, struct etcd_http_reply *reply,
                          struct etcd_answer *answer, int *rc)
{
    struct etcd_failure failure;

    answer->sent_ns = reply->sent_ns;
    answer->code = -1;
    *rc = 0;
    if (reply->result != 0) {
        snprintf(answer->text, sizeof(answer->text), "%s", reply->text);
        if (reply->result == -ECANCELED || reply->result == -ENOMEM) {
            *rc = reply->sent ? E_OUTCOME_UNKNOWN : reply->result;
            return CALL_DONE;
        }
        return reply->sent ? CALL_LOST : CALL_NEXT;
    }
    if (reply->status == 200)
        return CALL_DONE;
    etcd_json_failure(reply->body.data, reply->body.length, &failure);
    answer->code = failure.code;
    snprintf(answer->text, sizeof(answer->text), "%.60s: %.180s",
             etcd_http_name(http, reply->endpoint),
             failure.text[0] ? failure.text : "failed without a reason");
    return judge_failure(reply->status, &failure, rc);
}

static void note(struct etcd_call *call, bool reachable, const char *why)
{
    bool changed;

    pthread_mutex_lock(&call->lock);
    changed = call->reachable != reachable;
    call->reachable = reachable;
    if (reachable)
        call->answered_ms = call->clock->wall_ms(call->clock);
    else
        snprintf(call->why, sizeof(call->why), "%s", why);
    pthread_mutex_unlock(&call->lock);
    if (changed)
        call->changed(call->arg);
}

/* Asks the present endpoint for a token. *rc is set unless CALL_NEXT. */
static enum verdict authenticate(struct etcd_call *call, struct etcd_answer *answer,
                                 unsigned *endpoint, char **token, int *rc)
{
    struct etcd_http_reply reply;
    struct buf body;

    buf_init(&body, 64 * 1024);
    etcd_json_authenticate(&body, call->user, call->password ? call->password : "");
    etcd_http_post(call->http, "/v3/auth/authenticate", &body, NULL, CALL_LOGIN_MS,
                   &reply);
    *endpoint = reply.endpoint;
    enum verdict verdict = judge(call->http, &reply, answer, rc);
    if (verdict == CALL_DONE && *rc == E_OUTCOME_UNKNOWN)
        *rc = -ECANCELED; /* asking for a token changes nothing */
    if (verdict == CALL_LOST)
        verdict = CALL_NEXT;
    if (verdict == CALL_TOKEN) {
        verdict = CALL_DONE;
        *rc = -EACCES;
    }
    if (verdict == CALL_DONE && *rc == 0)
        *rc = etcd_json_token(reply.body.data, reply.body.length, token);
    if (verdict == CALL_DONE && *rc == 0) {
        pthread_mutex_lock(&call->lock);
        free(call->token);
        call->token = strdup(*token);
        pthread_mutex_unlock(&call->lock);
    }
    if (body.data)
        explicit_bzero(body.data, body.length);
    buf_free(&body);
    etcd_http_reply_free(&reply);
    return verdict;
}

/* A copy of the token at hand; false: there is none. */
static bool copy_token(struct etcd_call *call, char **token, int *rc)
{
    pthread_mutex_lock(&call->lock);
    bool have = call->token != NULL;
    *token = have ? strdup(call->token) : NULL;
    pthread_mutex_unlock(&call->lock);
    *rc = have && !*token ? -ENOMEM : 0;
    return have;
}

/* The token at hand, else a new one. CALL_DONE and *rc; or CALL_NEXT. */
static enum verdict get_token(struct etcd_call *call, struct etcd_answer *answer,
                              unsigned *endpoint, char **token, int *rc)
{
    *token = NULL;
    *rc = 0;
    if (!call->user)
        return CALL_DONE;
    if (copy_token(call, token, rc))
        return CALL_DONE;
    pthread_mutex_lock(&call->token_lock);
    enum verdict verdict = CALL_DONE;
    if (!copy_token(call, token, rc))
        verdict = authenticate(call, answer, endpoint, token, rc);
    pthread_mutex_unlock(&call->token_lock);
    return verdict;
}

void etcd_call_drop_token(struct etcd_call *call, const char *token)
{
    pthread_mutex_lock(&call->lock);
    if (call->token && token && strcmp(call->token, token) == 0) {
        free(call->token);
        call->token = NULL;
    }
    pthread_mutex_unlock(&call->lock);
}

static enum verdict attempt(struct etcd_call *call, const char *path,
                            const struct buf *body, struct etcd_answer *answer,
                            unsigned *endpoint, int *rc)
{
    struct etcd_http_reply reply;
    char *token = NULL;
    enum verdict verdict = get_token(call, answer, endpoint, &token, rc);

    if (verdict == CALL_DONE && *rc == 0) {
        etcd_http_post(call->http, path, body, token, 0, &reply);
        *endpoint = reply.endpoint;
        verdict = judge(call->http, &reply, answer, rc);
        if (verdict == CALL_DONE && *rc == 0) {
            answer->body = reply.body;
            buf_init(&reply.body, 0);
        }
        if (verdict == CALL_TOKEN)
            etcd_call_drop_token(call, token);
        etcd_http_reply_free(&reply);
    }
    free(token);
    return verdict;
}

int etcd_call_run(struct etcd_call *call, enum etcd_kind kind, const char *path,
                  const struct buf *body, struct etcd_answer *answer)
{
    int64_t begun_ms = clock_mono_ms(call->clock);
    unsigned failures = 0, refusals = 0, endpoint = 0;
    int rc;

    *answer = (struct etcd_answer){.code = -1};
    pthread_mutex_lock(&call->lock);
    int64_t budget_ms = call->reachable ? CALL_BUDGET_MS : 0;
    pthread_mutex_unlock(&call->lock);
    for (;;) {
        enum verdict verdict = attempt(call, path, body, answer, &endpoint, &rc);
        if (verdict == CALL_DONE) {
            if (kind == ETCD_READ && rc == E_OUTCOME_UNKNOWN)
                rc = -ECANCELED;
            if (rc != -ECANCELED && rc != -ENOMEM && rc != E_OUTCOME_UNKNOWN)
                note(call, true, "");
            return rc;
        }
        if (verdict == CALL_TOKEN && call->user && refusals++ < 2)
            continue;
        if (verdict == CALL_TOKEN)
            return -EACCES;
        etcd_http_move(call->http, endpoint);
        if (verdict == CALL_LOST && kind == ETCD_CHANGE)
            return E_OUTCOME_UNKNOWN;
        if (++failures % etcd_http_count(call->http) != 0)
            continue;
        if (clock_mono_ms(call->clock) - begun_ms >= budget_ms) {
            note(call, false, answer->text);
            return E_STORE_UNREACHABLE;
        }
        etcd_http_pause(call->http, CALL_PAUSE_MS);
    }
}

void etcd_answer_free(struct etcd_answer *answer)
{
    buf_free(&answer->body);
}

int etcd_call_token(struct etcd_call *call, char **token)
{
    struct etcd_answer answer = {.code = -1};
    unsigned endpoint = 0;
    int rc;

    enum verdict verdict = get_token(call, &answer, &endpoint, token, &rc);
    if (verdict == CALL_DONE)
        return rc;
    etcd_http_move(call->http, endpoint);
    return E_STORE_UNREACHABLE;
}

int64_t etcd_call_silent_since(struct etcd_call *call, char *why, size_t why_size)
{
    pthread_mutex_lock(&call->lock);
    int64_t since_ms = call->reachable ? 0 : call->answered_ms;
    if (why)
        snprintf(why, why_size, "%s", since_ms == 0 ? "" : call->why);
    pthread_mutex_unlock(&call->lock);
    return since_ms;
}

struct etcd_call *etcd_call_new(const struct etcd_call_params *params)
{
    struct etcd_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->http = params->http;
    call->clock = params->clock;
    call->changed = params->changed;
    call->arg = params->arg;
    call->reachable = true;
    call->answered_ms = params->clock->wall_ms(params->clock);
    pthread_mutex_init(&call->lock, NULL);
    pthread_mutex_init(&call->token_lock, NULL);
    if ((params->user && !(call->user = strdup(params->user))) ||
        (params->password && !(call->password = strdup(params->password)))) {
        etcd_call_free(call);
        return NULL;
    }
    return call;
}

void etcd_call_free(struct etcd_call *call)
{
    if (!call)
        return;
    free(call->user);
    if (call->password)
        explicit_bzero(call->password, strlen(call->password));
    free(call->password);
    free(call->token);
    pthread_mutex_destroy(&call->lock);
    pthread_mutex_destroy(&call->token_lock);
    free(call);
}
