#include "replica/lookout.h"

#include "replica/peer_thread.h"
#include "replica/peer_wire.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINK_WAIT_MS = 10000,  /* how long the other keeps the call */
    CALL_MARGIN_MS = 5000, /* on top of that, for the answer to come through */
    LOOK_MS = 1000,        /* how often the snapshot is looked at unasked */
    HINT_MS = 3000,        /* how long a node is looked after for a hint */
    HINTS_MAX = 8,
    REPLY_MAX = 64 * 1024,
};

/* A node that is looked after. */
struct link {
    struct peer_call call; /* first */
    struct lookout *lookout;
    int32_t id;       /* -1: the slot is free */
    bool wanted;      /* by the latest snapshot */
    bool busy;        /* an answer is to come */
    bool stands;      /* it answered the last time: the next call may be long */
    int64_t hint_ms;  /* looked after until then, for a hint */
    int64_t due_ms;   /* not asked before */
    int64_t asked_ms; /* of the call: how long the other was to keep it */
    int64_t sent_ms;
};

struct lookout {
    struct lookout_params params; /* [const] */
    struct peer_thread thread;
    struct link links[DETECTOR_NODES_MAX]; /* [thread] */
    struct detector detector;              /* [thread] */
    const struct cluster_snapshot *chosen; /* [thread] what the links are for */

    pthread_mutex_t lock;
    int32_t hints[HINTS_MAX]; /* [lock] */
    unsigned hint_count;      /* [lock] */
};

static int64_t now_ms(const struct lookout *lookout)
{
    return clock_mono_ms(lookout->params.clock);
}

void lookout_hint(struct lookout *lookout, int32_t broker)
{
    pthread_mutex_lock(&lookout->lock);
    bool listed = lookout->hint_count == HINTS_MAX;
    for (unsigned i = 0; i < lookout->hint_count; i++) {
        listed = listed || lookout->hints[i] == broker;
    }
    if (!listed) {
        lookout->hints[lookout->hint_count++] = broker;
    }
    pthread_mutex_unlock(&lookout->lock);
    peer_client_wake(lookout->thread.client);
}

void lookout_look(struct lookout *lookout)
{
    peer_client_wake(lookout->thread.client);
}

/* ---- whom to look after -------------------------------------------------------------
 */

/* The node's link, or a new one; NULL: there are too many. */
static struct link *link_of(struct lookout *lookout, int32_t id)
{
    struct link *spare = NULL;
    for (size_t i = 0; i < DETECTOR_NODES_MAX; i++) {
        struct link *link = &lookout->links[i];
        if (link->id == id) {
            return link;
        }
        spare = !spare && link->id < 0 ? link : spare;
    }
    if (spare) {
        spare->id = id;
        spare->wanted = spare->busy = spare->stands = false;
        spare->hint_ms = spare->due_ms = 0;
    }
    return spare;
}

static void want(struct lookout *lookout, const struct cluster_snapshot *snapshot,
                 int32_t id)
{
    struct link *link = id >= 0 && id != snapshot->self ? link_of(lookout, id) : NULL;
    if (link) {
        link->wanted = true;
    }
}

static void want_followers(struct lookout *lookout,
                           const struct cluster_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->topic_count; i++) {
        const struct topic *topic = snapshot->topics[i];
        for (int32_t p = 0; p < topic->partition_count; p++) {
            const struct partition_info *info = &topic->partitions[p];
            bool leads = info->leader == snapshot->self;
            for (uint32_t r = 0; leads && r < info->replica_count; r++) {
                want(lookout, snapshot, info->replicas[r]);
            }
        }
    }
}

static void choose(struct lookout *lookout, const struct cluster_snapshot *snapshot)
{
    if (snapshot == lookout->chosen) {
        return;
    }
    cluster_snapshot_put(lookout->chosen);
    lookout->chosen = cluster_snapshot_ref(snapshot);
    for (size_t i = 0; i < DETECTOR_NODES_MAX; i++) {
        lookout->links[i].wanted = false;
    }
    want(lookout, snapshot, snapshot->controller);
    want_followers(lookout, snapshot);
    for (uint32_t i = 0; i < snapshot->broker_count; i++) {
        if (snapshot->controller == snapshot->self) {
            want(lookout, snapshot, snapshot->brokers[i].id);
        }
    }
}

static void take_hints(struct lookout *lookout)
{
    int32_t hints[HINTS_MAX];
    int64_t now = now_ms(lookout);
    pthread_mutex_lock(&lookout->lock);
    unsigned count = lookout->hint_count;
    memcpy(hints, lookout->hints, sizeof hints);
    lookout->hint_count = 0;
    pthread_mutex_unlock(&lookout->lock);
    for (unsigned i = 0; i < count; i++) {
        struct link *link = link_of(lookout, hints[i]);
        if (link) {
            link->hint_ms = now + HINT_MS;
        }
    }
}

/* ---- asking -------------------------------------------------------------------------
 */

static int ask(struct link *link, const struct cluster_snapshot *snapshot,
               const struct peer_address *address)
{
    struct lookout *lookout = link->lookout;
    struct peer_fetch fetch = {.wait_ms = link->stands ? LINK_WAIT_MS : 0};
    struct buf body;
    peer_sender_set(&fetch.from, lookout->params.config->cluster, snapshot);
    buf_init(&body, PEER_REQUEST_MAX);
    (void)peer_fetch_encode(&fetch, &body);
    int rc =
        peer_client_send(lookout->thread.client, &link->call, address, "/replica/fetch",
                         &body, REPLY_MAX, fetch.wait_ms + CALL_MARGIN_MS);
    buf_free(&body);
    link->asked_ms = fetch.wait_ms;
    return rc;
}

/* Who it is that answered; 0: not to be told. */
static int64_t answering_epoch(const struct link *link, const struct peer_reply *reply)
{
    struct peer_fetched fetched;
    int64_t epoch = 0;
    if (peer_fetched_decode(reply->bytes, reply->length, &fetched) == 0) {
        epoch = fetched.from.id == link->id ? fetched.from.broker_epoch : 0;
        peer_fetched_free(&fetched);
    }
    return epoch;
}

static enum detector_outcome judge(struct link *link, const struct peer_reply *reply,
                                   int64_t *dead_epoch)
{
    struct detector *detector = &link->lookout->detector;
    switch (reply->error) {
    case 0:
        return detector_answered(detector, link->id, answering_epoch(link, reply),
                                 dead_epoch)
                   ? DETECTOR_REPORTED
                   : DETECTOR_ANSWERED;
    case -ECONNREFUSED:
        return detector_refused(detector, link->id, now_ms(link->lookout), dead_epoch)
                   ? DETECTOR_REPORTED
                   : DETECTOR_REFUSED;
    case -EACCES:
    case -EAGAIN:
    case -EPROTO:
        (void)detector_answered(detector, link->id, 0, dead_epoch);
        return DETECTOR_CLOSED;
    case -EIO:
        return DETECTOR_BROKEN;
    default:
        return DETECTOR_FAILED;
    }
}

static void on_answer(struct peer_call *call, const struct peer_reply *reply)
{
    struct link *link = (struct link *)call;
    struct lookout *lookout = link->lookout;
    int64_t now = now_ms(lookout);
    int64_t dead_epoch = 0;
    enum detector_outcome outcome = judge(link, reply, &dead_epoch);
    link->busy = false;
    link->stands = outcome == DETECTOR_ANSWERED;
    link->due_ms =
        now + detector_pause_ms(outcome, link->asked_ms, now - link->sent_ms);
    if (outcome == DETECTOR_REPORTED) {
        lookout->params.on_dead(lookout->params.arg, link->id, dead_epoch);
    }
}

/* ---- the thread ---------------------------------------------------------------------
 */

static void let_go(struct link *link)
{
    peer_call_free(link->lookout->thread.client, &link->call);
    peer_call_init(&link->call, on_answer);
    link->id = -1;
}

/* Asks the node if that is due; lowers *due_ms to when it will be. */
static void look_after(struct link *link, const struct cluster_snapshot *snapshot,
                       int64_t now, int64_t *due_ms)
{
    bool wanted = link->wanted || link->hint_ms > now;
    struct peer_address address;
    /* A node that is not registered is neither asked nor asks. */
    if (!wanted || snapshot->self_epoch <= 0 ||
        !peer_address_find(snapshot, link->id, &address)) {
        let_go(link);
        return;
    }
    detector_registered(&link->lookout->detector, link->id,
                        cluster_snapshot_broker(snapshot, link->id)->epoch);
    if (!link->busy && link->due_ms <= now) {
        link->sent_ms = now;
        link->busy = ask(link, snapshot, &address) == 0;
        link->due_ms = now + DETECTOR_AGAIN_MS; /* if it could not be asked */
    }
    if (!link->busy && link->due_ms < *due_ms) {
        *due_ms = link->due_ms;
    }
}

/* Returns how long there is nothing to do. */
static int64_t look(struct lookout *lookout)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(lookout->params.cluster);
    int64_t now = now_ms(lookout);
    int64_t due_ms = now + LOOK_MS;
    choose(lookout, snapshot);
    for (size_t i = 0; i < DETECTOR_NODES_MAX; i++) {
        if (lookout->links[i].id >= 0) {
            look_after(&lookout->links[i], snapshot, now, &due_ms);
        }
    }
    cluster_snapshot_put(snapshot);
    return due_ms > now ? due_ms - now : 0;
}

static void take_nothing(void *arg, struct partition *partition)
{
    (void)arg;
    (void)partition;
}

static void *lookout_main(void *arg)
{
    struct lookout *lookout = arg;
    while (peer_thread_take(&lookout->thread, take_nothing, NULL)) {
        take_hints(lookout);
        peer_client_run(lookout->thread.client, look(lookout));
    }
    return NULL;
}

static void free_all(struct lookout *lookout)
{
    for (size_t i = 0; i < DETECTOR_NODES_MAX; i++) {
        peer_call_free(lookout->thread.client, &lookout->links[i].call);
    }
    peer_thread_free(&lookout->thread);
    cluster_snapshot_put(lookout->chosen);
    pthread_mutex_destroy(&lookout->lock);
    free(lookout);
}

int lookout_start(const struct lookout_params *params, struct lookout **out)
{
    struct lookout *lookout = calloc(1, sizeof *lookout);
    *out = NULL;
    if (!lookout) {
        return -ENOMEM;
    }
    lookout->params = *params;
    for (size_t i = 0; i < DETECTOR_NODES_MAX; i++) {
        lookout->links[i].lookout = lookout;
        lookout->links[i].id = -1;
        peer_call_init(&lookout->links[i].call, on_answer);
    }
    pthread_mutex_init(&lookout->lock, NULL);
    int rc = peer_thread_start(&lookout->thread, params->config, lookout_main, lookout);
    if (rc) {
        free_all(lookout);
        return rc;
    }
    *out = lookout;
    return 0;
}

void lookout_stop(struct lookout *lookout)
{
    if (lookout) {
        peer_thread_stop(&lookout->thread);
        free_all(lookout);
    }
}
