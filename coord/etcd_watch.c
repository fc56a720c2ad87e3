#include "coord/etcd_watch.h"

#include "coord/diag.h"
#include "coord/err.h"
#include "coord/etcd_json.h"
#include "coord/etcd_known.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WATCH_CREATED_MS = 1000, /* in which a new stream is confirmed */
    WATCH_STEP_MS = 200,     /* until then: how often that is looked at */
    WATCH_IDLE_MS = 10000,   /* then; whatever happens ends the wait */
    WATCH_PAUSE_MS = 100,
    WATCH_BODY_MAX = 64 * 1024,
};

struct etcd_watch {
    struct etcd_watch_params params; /* [const] */
    store_watch_fn *fn;              /* [const once started] */
    void *arg;                       /* [const once started] */
    pthread_t thread;

    pthread_mutex_t lock;
    bool started;      /* [lock] */
    int64_t delivered; /* [lock] written by the watch thread once started */

    struct etcd_known *known; /* [lock; watch thread alone once started] */
    int64_t known_revision;   /* [lock; likewise] */

    /* [watch thread] */
    bool relist; /* the stream can't go on where it ended */
    struct buf in;
    struct store_kv *events; /* of fragments whose rest is to come */
    size_t event_count;

    /* [checking thread] */
    int64_t checked_at; /* `delivered` as of a check that found it behind */
};

static void drop_events(struct etcd_watch *watch)
{
    for (size_t i = 0; i < watch->event_count; i++) {
        free(watch->events[i].key);
        free(watch->events[i].value);
    }
    free(watch->events);
    watch->events = NULL;
    watch->event_count = 0;
}

int64_t etcd_watch_revision(struct etcd_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    int64_t revision = watch->delivered;
    pthread_mutex_unlock(&watch->lock);
    return revision;
}

static void deliver(struct etcd_watch *watch, const struct store_kv *events,
                    size_t count, int64_t revision)
{
    watch->fn(watch->arg, events, count, revision);
    pthread_mutex_lock(&watch->lock);
    watch->delivered = revision;
    pthread_mutex_unlock(&watch->lock);
}

/* Delivers what has come, a call per revision, but for what was delivered before. */
static int deliver_events(struct etcd_watch *watch)
{
    int64_t last = etcd_watch_revision(watch);
    struct store_kv *events = watch->events;

    for (size_t i = 0, n; i < watch->event_count; i += n) {
        int64_t revision = events[i].mod_revision;
        for (n = 1; i + n < watch->event_count; n++) {
            if (events[i + n].mod_revision != revision)
                break;
        }
        if (i > 0 && revision < events[i - 1].mod_revision)
            return -EBADMSG;
        if (revision <= last)
            continue;
        for (size_t j = i; j < i + n; j++) {
            if (etcd_known_apply(watch->known, &events[j]) != 0)
                return -ENOMEM;
        }
        deliver(watch, &events[i], n, revision);
    }
    drop_events(watch);
    return 0;
}

/* Takes the reply's events over. */
static int gather(struct etcd_watch *watch, struct etcd_watch_reply *reply)
{
    size_t count = watch->event_count + reply->event_count;

    if (reply->event_count == 0)
        return 0;
    if (count > ETCD_BODY_MAX / sizeof(*watch->events))
        return -EMSGSIZE;
    struct store_kv *events = reallocarray(watch->events, count, sizeof(*events));
    if (!events)
        return -ENOMEM;
    memcpy(events + watch->event_count, reply->events,
           reply->event_count * sizeof(*events));
    watch->events = events;
    watch->event_count = count;
    reply->event_count = 0; /* they are ours now */
    return 0;
}

/* One line of the stream. Negative: the stream is to be closed. */
static int take_line(struct etcd_watch *watch, const char *line, size_t length,
                     bool *created)
{
    struct etcd_watch_reply reply;
    int rc = etcd_json_watch_reply(line, length, &reply);

    if (rc != 0) {
        diag(DIAG_WARNING, "etcd: malformed line of %zu bytes from the watch", length);
        watch->relist = true;
        return rc;
    }
    *created |= reply.created;
    if (reply.compact_revision > 0) {
        watch->relist = true;
        rc = -ESTALE;
    } else if (reply.failed || reply.canceled) {
        diag(DIAG_INFO, "etcd: the watch ended: %s", reply.failure.text);
        rc = strstr(reply.failure.text, "permission denied") ||
                     strstr(reply.failure.text, "auth")
                 ? -EACCES
                 : -ECONNRESET;
    } else {
        rc = gather(watch, &reply);
    }
    if (rc == 0 && !reply.fragment) {
        rc = deliver_events(watch);
        watch->relist |= rc != 0; /* what is known may have run ahead */
    }
    etcd_json_watch_free(&reply);
    return rc;
}

/* Takes the complete lines out of what came. */
static int take_lines(struct etcd_watch *watch, size_t *searched, bool *created)
{
    size_t at = 0;
    int rc = 0;

    while (rc == 0 && *searched < watch->in.length) {
        const char *end =
            memchr(watch->in.data + *searched, '\n', watch->in.length - *searched);
        if (!end) {
            *searched = watch->in.length;
            break;
        }
        size_t next = (size_t)(end - watch->in.data) + 1;
        if (next - 1 > at)
            rc = take_line(watch, watch->in.data + at, next - 1 - at, created);
        at = *searched = next;
    }
    if (at > 0) {
        buf_consume(&watch->in, at);
        *searched -= at;
    }
    return rc;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Follows one stream until it ends. */
static int follow(struct etcd_watch *watch, struct etcd_stream *stream, bool *created)
{
    int64_t opened_ms = now_ms();
    size_t searched = 0;

    for (;;) {
        int wait_ms = *created ? WATCH_IDLE_MS : WATCH_STEP_MS;
        int rc = etcd_http_stream_wait(stream, wait_ms, &watch->in);
        if (rc == 0)
            rc = take_lines(watch, &searched, created);
        if (rc == -EMSGSIZE)
            watch->relist = true;
        if (rc != 0)
            return rc;
        if (!*created && now_ms() - opened_ms > WATCH_CREATED_MS)
            return -ETIMEDOUT;
    }
}

/* A stream from behind the last delivered revision. True: it was good for a while. */
static bool run_stream(struct etcd_watch *watch)
{
    struct etcd_stream *stream = NULL;
    char *token = NULL;
    bool created = false;
    struct buf body;

    buf_init(&body, WATCH_BODY_MAX);
    etcd_json_watch(&body, watch->params.prefix, etcd_watch_revision(watch) + 1);
    int rc = etcd_call_token(watch->params.call, &token);
    if (rc == 0)
        rc = etcd_http_stream_open(watch->params.http, "/v3/watch", &body, token,
                                   &stream);
    if (rc == 0)
        rc = follow(watch, stream, &created);
    if (rc == -EACCES)
        etcd_call_drop_token(watch->params.call, token);
    else if (stream && !created && rc != -ECANCELED)
        etcd_http_move(watch->params.http, etcd_http_stream_endpoint(stream));
    etcd_http_stream_close(stream);
    buf_free(&watch->in);
    drop_events(watch);
    buf_free(&body);
    free(token);
    return (created && rc != -EACCES) || rc == -ECANCELED;
}

static int list_all(struct etcd_watch *watch, const struct etcd_range *range,
                    struct store_list *list)
{
    struct etcd_answer answer;
    struct buf body;

    buf_init(&body, WATCH_BODY_MAX);
    etcd_json_range(&body, watch->params.prefix, range);
    int rc =
        etcd_call_run(watch->params.call, ETCD_READ, "/v3/kv/range", &body, &answer);
    if (rc == 0)
        rc = etcd_json_list(answer.body.data, answer.body.length, list);
    etcd_answer_free(&answer);
    buf_free(&body);
    return rc;
}

/* Delivers what a list has otherwise than what is known. */
static int catch_up(struct etcd_watch *watch)
{
    struct store_kv *events = NULL;
    struct store_list list;
    size_t count = 0;
    int rc = list_all(watch, &(struct etcd_range){.prefix = true}, &list);

    if (rc != 0)
        return rc;
    if (list.revision < etcd_watch_revision(watch)) {
        problems_set(
            watch->params.problems, "store", "etcd-revision",
            "etcd went back to an earlier revision: it was restored or emptied",
            "nothing that it says is used any more; stop all nodes, then start "
            "them again");
        store_list_free(&list);
        return -ESTALE;
    }
    rc = etcd_known_diff(watch->known, &list, &events, &count);
    if (rc == 0 && (count > 0 || list.revision > etcd_watch_revision(watch)))
        deliver(watch, events, count, list.revision);
    free(events);
    if (rc == 0)
        rc = etcd_known_set(watch->known, &list);
    store_list_free(&list);
    if (rc == 0)
        watch->relist = false;
    return rc;
}

static void *watch_main(void *arg)
{
    struct etcd_watch *watch = arg;

    while (!etcd_http_stopped(watch->params.http)) {
        bool good = watch->relist ? catch_up(watch) == 0 : run_stream(watch);
        if (!good && !watch->relist)
            etcd_http_pause(watch->params.http, WATCH_PAUSE_MS);
        else if (!good)
            etcd_http_pause(watch->params.http, WATCH_PAUSE_MS * 2);
    }
    return NULL;
}

struct etcd_watch *etcd_watch_new(const struct etcd_watch_params *params)
{
    struct etcd_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    watch->params = *params;
    watch->known = etcd_known_new();
    if (!watch->known) {
        free(watch);
        return NULL;
    }
    buf_init(&watch->in, ETCD_BODY_MAX);
    pthread_mutex_init(&watch->lock, NULL);
    return watch;
}

int etcd_watch_remember(struct etcd_watch *watch, const struct store_list *list)
{
    int rc = 0;

    pthread_mutex_lock(&watch->lock);
    if (!watch->started) {
        rc = etcd_known_set(watch->known, list);
        watch->known_revision = rc == 0 ? list->revision : 0;
        watch->delivered = watch->known_revision;
    }
    pthread_mutex_unlock(&watch->lock);
    return rc;
}

int etcd_watch_start(struct etcd_watch *watch, int64_t revision, store_watch_fn *fn,
                     void *arg)
{
    struct store_list list;
    int rc = 0;

    if (revision <= 0)
        return -EINVAL;
    pthread_mutex_lock(&watch->lock);
    bool known = watch->known_revision == revision;
    pthread_mutex_unlock(&watch->lock);
    if (!known) {
        const struct etcd_range range = {
            .prefix = true, .keys_only = true, .revision = revision};
        rc = list_all(watch, &range, &list);
        if (rc != 0)
            return rc;
        list.revision = revision; /* the header's is the present one */
        rc = etcd_watch_remember(watch, &list);
        store_list_free(&list);
        if (rc != 0)
            return rc;
    }
    pthread_mutex_lock(&watch->lock);
    if (watch->started || watch->known_revision != revision) {
        rc = -EBUSY;
    } else {
        watch->fn = fn;
        watch->arg = arg;
        rc = -pthread_create(&watch->thread, NULL, watch_main, watch);
        watch->started = rc == 0;
    }
    pthread_mutex_unlock(&watch->lock);
    return rc;
}

void etcd_watch_check(struct etcd_watch *watch, int64_t revision)
{
    struct store_list list;

    pthread_mutex_lock(&watch->lock);
    int64_t delivered = watch->delivered;
    bool started = watch->started;
    pthread_mutex_unlock(&watch->lock);
    bool suspicious = watch->checked_at == delivered;
    watch->checked_at = revision != delivered ? delivered : 0;
    if (!started || revision == delivered || !suspicious)
        return;
    watch->checked_at = 0;
    const struct etcd_range range = {.prefix = true,
                                     .keys_only = true,
                                     .limit = 1,
                                     .min_mod_revision = delivered + 1};
    if (list_all(watch, &range, &list) != 0)
        return;
    if ((list.count > 0 || list.revision < delivered) &&
        etcd_watch_revision(watch) == delivered) {
        diag(DIAG_WARNING, "etcd: the watch has been silent since revision %lld",
             (long long)delivered);
        etcd_http_kick(watch->params.http);
    }
    store_list_free(&list);
}

void etcd_watch_stop(struct etcd_watch *watch)
{
    if (!watch)
        return;
    if (watch->started)
        pthread_join(watch->thread, NULL);
    etcd_known_free(watch->known);
    drop_events(watch);
    buf_free(&watch->in);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
