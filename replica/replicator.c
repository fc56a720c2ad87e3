#include "replica/replicator.h"

#include "replica/partition_internal.h"
#include "replica/partition_replica.h"
#include "replica/peer_thread.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

enum {
    CALLS_PER_LEADER = 3,
    WAIT_MS = 500,         /* how long a leader may keep a request without news */
    CALL_MARGIN_MS = 5000, /* on top of that, for the answer to come through */
    RETRY_MS = 100,        /* after a call that failed */
    TAKEOVER_MS = 5,       /* a request that is younger may be bringing data */
    IDLE_MS = 1000,
    PARTITION_BYTES = 1 << 20,
    FETCH_BYTES = 8 << 20,
};

/* After the first refusal, the second in a row, and so on: that a leader does not know
 * yet of a new partition, or of its leadership, is over soon. */
enum { PAUSES = 5 };
static const int64_t pauses_ms[PAUSES] = {2, 5, 12, 25, 50};

struct fetch_call;

/* A partition that is followed, or was. */
struct follow {
    struct partition *partition; /* one reference */
    struct fetch_call *call;     /* that carries it; NULL: none */
    uint32_t slot;               /* there */
    struct fetch_request request;
    int32_t leader; /* whose ready list it is on, or whom the call goes to */
    bool ready;     /* on that list */
    int64_t due_ms; /* paused until then; 0: not */
    size_t pauses;  /* in a row: the last one was by pauses_ms[pauses - 1] */
    struct follow *prev, *next;
    UT_hash_handle hh; /* by partition */
};

struct fetch_call {
    struct peer_call peer; /* first */
    struct fetch_leader *leader;
    struct follow **items;
    uint32_t count;
    uint32_t kept; /* items that still belong to it */
    int64_t sent_ms;
    bool busy;
};

struct fetch_leader {
    int32_t id;
    struct replicator *replicator;
    struct fetch_call calls[CALLS_PER_LEADER];
    struct follow *ready; /* list */
    int64_t retry_ms;     /* nothing is sent before */
    int refusal;          /* that was told last; 0: none */
    UT_hash_handle hh;
};

struct replicator {
    struct replicator_params params; /* [const] */
    struct peer_thread thread;
    struct follow *follows;        /* [thread] */
    struct follow *paused[PAUSES]; /* [thread] lists, each in the order of due_ms */
    struct fetch_leader *leaders;  /* [thread] */
};

static int64_t now_ms(const struct replicator *replicator)
{
    return clock_mono_ms(replicator->params.clock);
}

void replicator_notice(struct replicator *replicator, struct partition *partition)
{
    peer_thread_notice(&replicator->thread, partition);
}

/* ---- who is ready -------------------------------------------------------------------
 */

static void on_fetched(struct peer_call *peer, const struct peer_reply *reply);

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static struct fetch_leader *leader_of(struct replicator *replicator, int32_t id)
{
    struct fetch_leader *leader = NULL;
    HASH_FIND(hh, replicator->leaders, &id, sizeof id, leader);
    if (leader) {
        return leader;
    }
    leader = calloc(1, sizeof *leader);
    if (leader) {
        leader->id = id;
        leader->replicator = replicator;
        for (size_t i = 0; i < CALLS_PER_LEADER; i++) {
            leader->calls[i].leader = leader;
            peer_call_init(&leader->calls[i].peer, on_fetched);
        }
        HASH_ADD(hh, replicator->leaders, id, sizeof leader->id, leader);
    }
    return leader;
}

/* Takes it out of wherever it waits. A call that carries it goes on without it. */
// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void detach(struct replicator *replicator, struct follow *follow)
{
    if (follow->due_ms) {
        DL_DELETE(replicator->paused[follow->pauses - 1], follow);
        follow->due_ms = 0;
    }
    if (follow->ready) {
        struct fetch_leader *leader = leader_of(replicator, follow->leader);
        DL_DELETE(leader->ready, follow); /* NOLINT: the list's own invariant */
        follow->ready = false;
    }
    if (follow->call) {
        follow->call->items[follow->slot] = NULL;
        follow->call->kept--;
        follow->call = NULL;
    }
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void forget(struct replicator *replicator, struct follow *follow)
{
    detach(replicator, follow);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): neighbours are unlinked first
    HASH_DEL(replicator->follows, follow);
    partition_unref(follow->partition);
    free(follow);
}

static void pause_follow(struct replicator *replicator, struct follow *follow)
{
    detach(replicator, follow);
    follow->pauses += follow->pauses < PAUSES;
    follow->due_ms = now_ms(replicator) + pauses_ms[follow->pauses - 1];
    DL_APPEND(replicator->paused[follow->pauses - 1], follow);
}

/* Puts it on its leader's list; a partition that is not followed is let go. */
static void consider(struct replicator *replicator, struct follow *follow)
{
    struct follow_state state;
    partition_follow_state(follow->partition, &state);
    if (!state.follows) {
        forget(replicator, follow);
        return;
    }
    /* An answer to a request of this epoch is still to come; unless its leader waits to
     * hear of a flush, that is enough. */
    if (follow->call && follow->leader == state.leader &&
        follow->request.leader_epoch == state.leader_epoch &&
        state.synced_to <= follow->request.acknowledged_offset) {
        return;
    }
    detach(replicator, follow);
    follow->leader = state.leader;
    if (state.flushing) {
        return; /* the next notice comes when that is done */
    }
    struct fetch_leader *leader = leader_of(replicator, state.leader);
    if (!leader) {
        pause_follow(replicator, follow);
        return;
    }
    follow->ready = true;
    DL_APPEND(leader->ready, follow);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void take_notice(void *arg, struct partition *partition)
{
    struct replicator *replicator = arg;
    struct follow *follow = NULL;
    HASH_FIND_PTR(replicator->follows, &partition, follow);
    if (!follow) {
        follow = calloc(1, sizeof *follow);
        if (!follow) {
            return;
        }
        follow->partition = partition_ref(partition);
        HASH_ADD_PTR(replicator->follows, partition, follow);
    }
    consider(replicator, follow);
}

/* ---- sending ------------------------------------------------------------------------
 */

/* The call that may be used next; NULL: none. *smallest is what it takes over. */
static struct fetch_call *free_call(struct fetch_leader *leader, int64_t now,
                                    struct fetch_call **smallest)
{
    struct fetch_call *found = NULL;
    uint32_t spare = 0;
    *smallest = NULL;
    for (size_t i = 0; i < CALLS_PER_LEADER; i++) {
        struct fetch_call *call = &leader->calls[i];
        if (!call->busy) {
            found = call;
            spare++;
        } else if (call->kept && (!*smallest || call->kept < (*smallest)->kept)) {
            *smallest = call;
        }
    }
    if (spare > 1) {
        *smallest = NULL;
    } else if (*smallest && now - (*smallest)->sent_ms < TAKEOVER_MS) {
        return NULL;
    }
    return found;
}

static void take_over(struct fetch_leader *leader, struct fetch_call *from)
{
    for (uint32_t i = 0; from && i < from->count; i++) {
        struct follow *follow = from->items[i];
        if (follow) {
            detach(leader->replicator, follow);
            follow->ready = true;
            DL_APPEND(leader->ready, follow);
        }
    }
}

static uint32_t ready_count(const struct fetch_leader *leader)
{
    uint32_t count = 0;
    const struct follow *follow;
    DL_FOREACH(leader->ready, follow)
    {
        count++;
    }
    return count < PEER_PARTITIONS_MAX ? count : PEER_PARTITIONS_MAX;
}

/* Moves what is ready into the call and its request. */
static int fill(struct fetch_leader *leader, struct fetch_call *call,
                int64_t self_epoch, struct peer_fetch *fetch)
{
    struct replicator *replicator = leader->replicator;
    uint32_t count = ready_count(leader);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    struct follow **items = reallocarray(call->items, count ? count : 1, sizeof *items);
    call->items = items ? items : call->items;
    fetch->items = calloc(count ? count : 1, sizeof *fetch->items);
    if (!items || !fetch->items) {
        return -ENOMEM;
    }
    call->count = call->kept = 0;
    while (leader->ready && call->count < count) {
        struct follow *follow = leader->ready;
        struct peer_fetch_item *item = &fetch->items[call->count];
        int32_t id = -1;
        detach(replicator, follow);
        if (!partition_follow_request(follow->partition, &follow->request, &id) ||
            id != leader->id || follow->request.broker_epoch != self_epoch) {
            pause_follow(replicator, follow);
            continue;
        }
        *item = (struct peer_fetch_item){
            .partition = {follow->partition->topic_id, follow->partition->index},
            .request = follow->request,
            .max_bytes = PARTITION_BYTES};
        follow->call = call;
        follow->slot = call->count;
        call->items[call->count++] = follow;
    }
    call->kept = fetch->count = call->count;
    return 0;
}

/* Everything that a failed call carried is asked for again later. */
static void give_back(struct fetch_call *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        struct follow *follow = call->items[i];
        if (follow) {
            call->items[i] = NULL;
            follow->call = NULL;
            consider(call->leader->replicator, follow);
        }
    }
    call->count = call->kept = 0;
}

static int send_call(struct fetch_leader *leader, struct fetch_call *call,
                     const struct cluster_snapshot *snapshot)
{
    struct replicator *replicator = leader->replicator;
    struct peer_address address;
    struct peer_fetch fetch = {.wait_ms = WAIT_MS, .max_bytes = FETCH_BYTES};
    struct buf body;
    buf_init(&body, PEER_REQUEST_MAX);
    int rc = peer_address_find(snapshot, leader->id, &address) ? 0 : E_NO_LEADER;
    rc = rc ? rc : fill(leader, call, snapshot->self_epoch, &fetch);
    if (!rc && call->count > 0) {
        peer_sender_set(&fetch.from, replicator->params.config->cluster, snapshot);
        (void)peer_fetch_encode(&fetch, &body);
        rc = peer_client_send(replicator->thread.client, &call->peer, &address,
                              "/replica/fetch", &body, PEER_REPLY_MAX,
                              WAIT_MS + CALL_MARGIN_MS);
        call->busy = rc == 0;
        call->sent_ms = now_ms(replicator);
    }
    peer_fetch_free(&fetch);
    buf_free(&body);
    if (rc) {
        give_back(call);
        leader->retry_ms = now_ms(replicator) + RETRY_MS;
    }
    return rc;
}

static void tell_refusal(struct fetch_leader *leader, int refusal)
{
    const struct replicator_params *params = &leader->replicator->params;
    if (refusal != leader->refusal) {
        leader->refusal = refusal;
        params->on_refused(params->arg, leader->id, refusal);
    }
}

static bool is_followed(const struct fetch_leader *leader)
{
    bool carries = false;
    for (size_t i = 0; i < CALLS_PER_LEADER; i++) {
        carries = carries || (leader->calls[i].busy && leader->calls[i].kept);
    }
    return carries || leader->ready;
}

/* Sends what may be sent; lowers *due_ms to when to look again. */
static void send_ready(struct replicator *replicator, int64_t *due_ms)
{
    int64_t now = now_ms(replicator);
    struct fetch_leader *leader;
    struct fetch_leader *next;
    const struct cluster_snapshot *snapshot = NULL;
    HASH_ITER(hh, replicator->leaders, leader, next)
    {
        if (leader->refusal && !is_followed(leader)) {
            tell_refusal(leader, 0); /* whether it still would, nobody asks */
        }
        if (!leader->ready) {
            continue;
        }
        struct fetch_call *smallest = NULL;
        struct fetch_call *call =
            leader->retry_ms <= now ? free_call(leader, now, &smallest) : NULL;
        if (call) {
            snapshot =
                snapshot ? snapshot : cluster_snapshot_get(replicator->params.cluster);
            take_over(leader, smallest);
            (void)send_call(leader, call, snapshot);
        }
        if (leader->ready) {
            int64_t due = leader->retry_ms > now ? leader->retry_ms : now + TAKEOVER_MS;
            *due_ms = due < *due_ms ? due : *due_ms;
        }
    }
    cluster_snapshot_put(snapshot);
}

/* ---- answers ------------------------------------------------------------------------
 */

static void take_item(struct replicator *replicator, struct follow *follow,
                      const struct peer_fetched_item *item)
{
    follow->call = NULL;
    switch (partition_follow_take(follow->partition, item)) {
    case FOLLOWED:
        follow->pauses = 0;
        consider(replicator, follow);
        break;
    case FOLLOW_PAUSE:
        pause_follow(replicator, follow);
        break;
    case FOLLOW_STOP:
        forget(replicator, follow);
        break;
    }
}

static bool answers(const struct peer_fetched_item *item, const struct follow *follow)
{
    return item->partition.index == follow->partition->index &&
           topic_id_equal(&item->partition.topic_id, &follow->partition->topic_id);
}

static int take_answer(struct fetch_call *call, const struct peer_reply *reply)
{
    struct replicator *replicator = call->leader->replicator;
    struct peer_fetched fetched;
    int rc = peer_fetched_decode(reply->bytes, reply->length, &fetched);
    if (rc) {
        return rc;
    }
    if (fetched.count != call->count || fetched.from.id != call->leader->id ||
        strcmp(fetched.from.cluster, replicator->params.config->cluster) != 0) {
        peer_fetched_free(&fetched);
        return -EBADMSG;
    }
    for (uint32_t i = 0; i < fetched.count; i++) {
        struct follow *follow = call->items[i];
        if (follow && answers(&fetched.items[i], follow)) {
            call->items[i] = NULL;
            take_item(replicator, follow, &fetched.items[i]);
        }
    }
    peer_fetched_free(&fetched);
    return 0;
}

static bool is_refusal(int rc)
{
    return rc == -EACCES || rc == E_NEWER_FORMAT || rc == -EBADMSG || rc == -EPROTO;
}

static void on_fetched(struct peer_call *peer, const struct peer_reply *reply)
{
    struct fetch_call *call = (struct fetch_call *)peer;
    struct fetch_leader *leader = call->leader;
    /* What is appended here is told by this thread to itself. */
    peer_thread_stay_awake(&leader->replicator->thread);
    call->busy = false;
    int rc = reply->error ? reply->error : take_answer(call, reply);
    if (rc) {
        diag(DIAG_DEBUG, "fetching from node %d: %s", leader->id, err_text(rc));
        leader->retry_ms = now_ms(leader->replicator) + RETRY_MS;
    }
    tell_refusal(leader, is_refusal(rc) ? rc : 0);
    if (rc == -ECONNREFUSED || rc == -EIO) {
        leader->replicator->params.on_failed(leader->replicator->params.arg,
                                             leader->id);
    }
    give_back(call);
}

/* ---- the thread ---------------------------------------------------------------------
 */

static void end_pauses(struct replicator *replicator, int64_t *due_ms)
{
    int64_t now = now_ms(replicator);
    for (size_t i = 0; i < PAUSES; i++) {
        struct follow **first = &replicator->paused[i];
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): who is forgotten was unlinked
        while (*first && (*first)->due_ms <= now) {
            struct follow *follow = *first;
            detach(replicator, follow);
            consider(replicator, follow);
        }
        if (*first && (*first)->due_ms < *due_ms) {
            *due_ms = (*first)->due_ms;
        }
    }
}

static void *replicator_main(void *arg)
{
    struct replicator *replicator = arg;
    while (peer_thread_take(&replicator->thread, take_notice, replicator)) {
        int64_t due_ms = now_ms(replicator) + IDLE_MS;
        end_pauses(replicator, &due_ms);
        send_ready(replicator, &due_ms);
        int64_t left = due_ms - now_ms(replicator);
        peer_client_run(replicator->thread.client, left > 0 ? left : 0);
    }
    return NULL;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void free_all(struct replicator *replicator)
{
    struct fetch_leader *leader;
    struct fetch_leader *next_leader;
    struct follow *follow;
    struct follow *next_follow;
    HASH_ITER(hh, replicator->follows, follow, next_follow)
    {
        forget(replicator, follow);
    }
    HASH_ITER(hh, replicator->leaders, leader, next_leader)
    {
        for (size_t i = 0; i < CALLS_PER_LEADER; i++) {
            peer_call_free(replicator->thread.client, &leader->calls[i].peer);
            free(leader->calls[i].items);
        }
        HASH_DEL(replicator->leaders, leader);
        free(leader);
    }
    peer_thread_free(&replicator->thread);
    free(replicator);
}

int replicator_start(const struct replicator_params *params, struct replicator **out)
{
    struct replicator *replicator = calloc(1, sizeof *replicator);
    *out = NULL;
    if (!replicator) {
        return -ENOMEM;
    }
    replicator->params = *params;
    int rc = peer_thread_start(&replicator->thread, params->config, replicator_main,
                               replicator);
    if (rc) {
        free_all(replicator);
        return rc;
    }
    *out = replicator;
    return 0;
}

void replicator_stop(struct replicator *replicator)
{
    if (!replicator) {
        return;
    }
    peer_thread_stop(&replicator->thread);
    free_all(replicator);
}
