#include "coord/etcd_session.h"

#include "coord/err.h"
#include "coord/etcd_json.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum {
    SESSION_PROBE_MS = 2000, /* between questions while there is no lease */
    SESSION_AGAIN_MS = 200,  /* after one that was not answered */
    SESSION_BODY_MAX = 64 * 1024,
};

struct etcd_session {
    struct etcd_session_params params; /* [const] */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool stop;                /* [lock] */
    bool woken;               /* [lock] look at the status now */
    bool hurry;               /* [lock] ask etcd now */
    int64_t lease;            /* [lock] 0: none */
    int64_t ttl_ms;           /* [lock] as granted */
    int64_t deadline_ns;      /* [lock] */
    bool lost;                /* [lock] */
    store_status_fn *fn;      /* [lock] */
    void *arg;                /* [lock] */
    bool reachable, was_lost; /* [session thread] as last told */
};

int etcd_session_lease(struct etcd_session *session, int64_t *lease)
{
    pthread_mutex_lock(&session->lock);
    *lease = session->lease;
    int rc = session->lease == 0 || session->lost ? E_SESSION_LOST : 0;
    pthread_mutex_unlock(&session->lock);
    return rc;
}

void etcd_session_lost(struct etcd_session *session, int64_t lease)
{
    pthread_mutex_lock(&session->lock);
    if (lease != 0 && session->lease == lease) {
        session->lost = true;
        session->woken = true;
        pthread_cond_signal(&session->cond);
    }
    pthread_mutex_unlock(&session->lock);
}

void etcd_session_wake(struct etcd_session *session)
{
    pthread_mutex_lock(&session->lock);
    session->woken = true;
    pthread_cond_signal(&session->cond);
    pthread_mutex_unlock(&session->lock);
}

/* An answer about `lease` to a question that was sent at `sent_ns`. */
static void renew(struct etcd_session *session, int64_t lease, int64_t ttl_s,
                  int64_t sent_ns)
{
    pthread_mutex_lock(&session->lock);
    if (session->lease == lease) {
        session->ttl_ms = ttl_s * 1000;
        int64_t deadline_ns = sent_ns + session->ttl_ms * 1000000;
        if (deadline_ns > session->deadline_ns)
            session->deadline_ns = deadline_ns;
    }
    pthread_mutex_unlock(&session->lock);
}

/* 0 and *ttl_s > 0; E_SESSION_LOST; or what the call returns. */
static int keep_alive(struct etcd_session *session, int64_t lease, int64_t *ttl_s,
                      int64_t *sent_ns)
{
    struct etcd_lease_reply reply;
    struct etcd_answer answer;
    struct buf body;

    buf_init(&body, SESSION_BODY_MAX);
    etcd_json_lease(&body, lease);
    int rc = etcd_call_run(session->params.call, ETCD_READ, "/v3/lease/keepalive",
                           &body, &answer);
    if (rc == 0)
        rc = etcd_json_lease_reply(answer.body.data, answer.body.length, &reply);
    if (rc == 0 && reply.ttl_s == 0)
        rc = E_SESSION_LOST;
    if (rc == 0) {
        *ttl_s = reply.ttl_s;
        *sent_ns = answer.sent_ns;
        session->params.heard(session->params.arg, reply.revision);
    }
    etcd_answer_free(&answer);
    buf_free(&body);
    return rc;
}

/* Asks for one key: whether etcd answers, and its revision. */
static int probe(struct etcd_session *session)
{
    struct etcd_answer answer;
    struct store_list list;
    struct buf body;

    buf_init(&body, SESSION_BODY_MAX);
    etcd_json_range(&body, session->params.probe_key,
                    &(struct etcd_range){.keys_only = true});
    int rc =
        etcd_call_run(session->params.call, ETCD_READ, "/v3/kv/range", &body, &answer);
    if (rc == 0)
        rc = etcd_json_list(answer.body.data, answer.body.length, &list);
    if (rc == 0) {
        session->params.heard(session->params.arg, list.revision);
        store_list_free(&list);
    }
    etcd_answer_free(&answer);
    buf_free(&body);
    return rc;
}

/* One question. Returns after how many milliseconds the next is due. */
static int64_t ask(struct etcd_session *session)
{
    int64_t ttl_s = 0, sent_ns = 0;

    pthread_mutex_lock(&session->lock);
    int64_t lease = session->lost ? 0 : session->lease;
    int64_t every_ms = lease != 0 ? session->ttl_ms / 3 : SESSION_PROBE_MS;
    pthread_mutex_unlock(&session->lock);
    int rc = lease != 0 ? keep_alive(session, lease, &ttl_s, &sent_ns) : probe(session);
    if (rc == E_SESSION_LOST) {
        etcd_session_lost(session, lease);
        return SESSION_PROBE_MS;
    }
    if (rc != 0)
        return SESSION_AGAIN_MS;
    if (lease != 0)
        renew(session, lease, ttl_s, sent_ns);
    return every_ms;
}

void etcd_session_status(struct etcd_session *session, struct store_status *out)
{
    int64_t since_ms = etcd_call_silent_since(session->params.call, NULL, 0);

    pthread_mutex_lock(&session->lock);
    *out = (struct store_status){
        .reachable = since_ms == 0,
        .silent_since_ms = since_ms,
        .session_deadline_ns = session->deadline_ns,
        .session_lost = session->lost,
    };
    pthread_mutex_unlock(&session->lock);
}

void etcd_session_listen(struct etcd_session *session, store_status_fn *fn, void *arg)
{
    pthread_mutex_lock(&session->lock);
    session->fn = fn;
    session->arg = arg;
    pthread_mutex_unlock(&session->lock);
}

static void tell_problem(struct etcd_session *session, bool reachable)
{
    char why[256];

    if (reachable) {
        problems_clear(session->params.problems, "store", "etcd");
        return;
    }
    (void)etcd_call_silent_since(session->params.call, why, sizeof(why));
    problems_set(session->params.problems, "store", "etcd", why,
                 "what cluster/ shows is as old as this; look at etcd and the network");
}

static void tell(struct etcd_session *session)
{
    struct store_status status;

    etcd_session_status(session, &status);
    pthread_mutex_lock(&session->lock);
    store_status_fn *fn = session->fn;
    void *arg = session->arg;
    pthread_mutex_unlock(&session->lock);
    bool moved = status.reachable != session->reachable;
    bool changed = moved || status.session_lost != session->was_lost;
    session->reachable = status.reachable;
    session->was_lost = status.session_lost;
    if (moved)
        tell_problem(session, status.reachable);
    if (changed && fn)
        fn(arg, &status);
}

/* Until the next question is due or there is something to tell. False: stop. */
static bool wait_until(struct etcd_session *session, int64_t due_ms)
{
    pthread_mutex_lock(&session->lock);
    while (!session->stop && !session->woken && !session->hurry) {
        int64_t left_ms = due_ms - clock_mono_ms(session->params.clock);
        struct timespec until;
        if (left_ms <= 0)
            break;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ns = until.tv_nsec + left_ms % 1000 * 1000000;
        until.tv_sec += left_ms / 1000 + ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        pthread_cond_timedwait(&session->cond, &session->lock, &until);
    }
    session->woken = false;
    bool go_on = !session->stop;
    pthread_mutex_unlock(&session->lock);
    return go_on;
}

static bool take_hurry(struct etcd_session *session)
{
    pthread_mutex_lock(&session->lock);
    bool hurry = session->hurry;
    session->hurry = false;
    pthread_mutex_unlock(&session->lock);
    return hurry;
}

static void *session_main(void *arg)
{
    struct etcd_session *session = arg;
    int64_t due_ms = clock_mono_ms(session->params.clock) + SESSION_PROBE_MS;

    while (wait_until(session, due_ms)) {
        tell(session);
        int64_t now_ms = clock_mono_ms(session->params.clock);
        if (!take_hurry(session) && now_ms < due_ms)
            continue;
        due_ms = now_ms + ask(session);
        tell(session);
    }
    return NULL;
}

int etcd_session_start(const struct etcd_session_params *params,
                       struct etcd_session **out)
{
    struct etcd_session *session = calloc(1, sizeof(*session));
    pthread_condattr_t attr;

    *out = NULL;
    if (!session)
        return -ENOMEM;
    session->params = *params;
    session->reachable = true;
    pthread_mutex_init(&session->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&session->cond, &attr);
    pthread_condattr_destroy(&attr);
    *out = session; /* what the thread calls may already use it */
    int rc = pthread_create(&session->thread, NULL, session_main, session);
    if (rc == 0)
        return 0;
    *out = NULL;
    pthread_cond_destroy(&session->cond);
    pthread_mutex_destroy(&session->lock);
    free(session);
    return -rc;
}

void etcd_session_stop(struct etcd_session *session)
{
    if (!session)
        return;
    pthread_mutex_lock(&session->lock);
    session->stop = true;
    pthread_cond_signal(&session->cond);
    pthread_mutex_unlock(&session->lock);
    pthread_join(session->thread, NULL);
    pthread_cond_destroy(&session->cond);
    pthread_mutex_destroy(&session->lock);
    free(session);
}

/* Never 0, never negative: etcd takes 63 bits. */
static int random_lease(int64_t *out)
{
    uint64_t bits;

    if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return -errno;
    *out = (int64_t)(bits >> 1) | 1;
    return 0;
}

/* As the id is ours, a grant whose outcome is unknown can be asked for again. */
static int grant(struct etcd_session *session, int64_t lease, int64_t ttl_ms,
                 int64_t *ttl_s, int64_t *sent_ns)
{
    struct etcd_lease_reply reply = {0};
    struct etcd_answer answer;
    struct buf body;

    buf_init(&body, SESSION_BODY_MAX);
    etcd_json_grant(&body, lease, (ttl_ms + 999) / 1000);
    int rc = etcd_call_run(session->params.call, ETCD_READ, "/v3/lease/grant", &body,
                           &answer);
    if (rc == 0)
        rc = etcd_json_lease_reply(answer.body.data, answer.body.length, &reply);
    if (rc == 0 && reply.ttl_s == 0)
        rc = -EBADMSG;
    *ttl_s = reply.ttl_s;
    *sent_ns = answer.sent_ns;
    etcd_answer_free(&answer);
    buf_free(&body);
    /* An earlier try did it, at an unknown time: a keepalive tells the rest. */
    return rc == -EEXIST ? keep_alive(session, lease, ttl_s, sent_ns) : rc;
}

static void revoke(struct etcd_session *session, int64_t lease)
{
    struct etcd_answer answer;
    struct buf body;

    buf_init(&body, SESSION_BODY_MAX);
    etcd_json_lease(&body, lease);
    (void)etcd_call_run(session->params.call, ETCD_READ, "/v3/lease/revoke", &body,
                        &answer);
    etcd_answer_free(&answer);
    buf_free(&body);
}

int etcd_session_open(struct etcd_session *session, int64_t ttl_ms)
{
    int64_t lease = 0, ttl_s = 0, sent_ns = 0;

    if (ttl_ms <= 0)
        return -EINVAL;
    etcd_session_close(session);
    int rc = random_lease(&lease);
    if (rc == 0)
        rc = grant(session, lease, ttl_ms, &ttl_s, &sent_ns);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&session->lock);
    session->lease = lease;
    session->lost = false;
    session->ttl_ms = ttl_s * 1000;
    session->deadline_ns = sent_ns + session->ttl_ms * 1000000;
    session->woken = true;
    session->hurry = true; /* the thread's next question may be due too late */
    pthread_cond_signal(&session->cond);
    pthread_mutex_unlock(&session->lock);
    return 0;
}

void etcd_session_close(struct etcd_session *session)
{
    pthread_mutex_lock(&session->lock);
    int64_t lease = session->lost ? 0 : session->lease;
    session->lease = 0;
    session->deadline_ns = 0;
    pthread_mutex_unlock(&session->lock);
    if (lease != 0)
        revoke(session, lease);
}
