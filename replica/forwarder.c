#include "replica/forwarder.h"

#include "replica/partition_internal.h"
#include "replica/partition_outbox.h"
#include "replica/peer_thread.h"
#include "replica/sync_sender.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

enum {
    RETRY_FIRST_MS = 2,    /* a leader that does not know of it yet soon will */
    RETRY_MS = 50,         /* twice as long after each refusal in a row, up to this */
    LOOK_MS = 100,         /* without a leader, should a notice be lost */
    CALL_MARGIN_MS = 2000, /* for the leader's answer, on top of what it may wait */
    IDLE_MS = 1000,
    REPLY_MAX = 64 * 1024,
};

/* A partition with something in its outbox. */
struct sending {
    struct peer_call call;        /* first */
    struct produce_waiter waiter; /* of an append here */
    struct forwarder *forwarder;
    struct partition *partition; /* one reference */
    struct outbox_batch batch;
    bool calling;                 /* an answer is to come */
    bool appending;               /* done() of the waiter is to come */
    int64_t due_ms;               /* when to look again */
    int64_t retry_ms;             /* nothing is sent before; a notice lifts it */
    int64_t pause_ms;             /* the last one after a refusal; 0: none since */
    struct produce_result result; /* [forwarder->lock] of the append */
    struct sending *next_done;    /* [forwarder->lock] */
    UT_hash_handle hh;            /* by partition */
};

struct forwarder {
    struct forwarder_params params; /* [const] */
    struct peer_thread thread;
    struct sending *sendings; /* [thread] */
    struct sync_sender syncs; /* [thread] */

    pthread_mutex_t lock;
    struct sending *done; /* [lock] appends that ended */
};

static int64_t now_ms(const struct forwarder *forwarder)
{
    return clock_mono_ms(forwarder->params.clock);
}

void forwarder_notice(struct forwarder *forwarder, struct partition *partition)
{
    peer_thread_notice(&forwarder->thread, partition);
}

/* ---- attempts -----------------------------------------------------------------------
 */

static void settle(struct sending *sending, const struct outbox_outcome *outcome)
{
    if (partition_outbox_settle(sending->partition, &sending->batch, outcome)) {
        sending->pause_ms = 0;
    } else {
        int64_t next = sending->pause_ms ? 2 * sending->pause_ms : RETRY_FIRST_MS;
        sending->pause_ms = next < RETRY_MS ? next : RETRY_MS;
        sending->retry_ms = now_ms(sending->forwarder) + sending->pause_ms;
    }
    sending->due_ms = 0; /* the thread goes on from there */
}

static void on_appended(struct produce_waiter *waiter,
                        const struct produce_result *result)
{
    struct sending *sending =
        (struct sending *)((char *)waiter - offsetof(struct sending, waiter));
    struct forwarder *forwarder = sending->forwarder;
    pthread_mutex_lock(&forwarder->lock);
    sending->result = *result;
    sending->next_done = forwarder->done;
    forwarder->done = sending;
    pthread_mutex_unlock(&forwarder->lock);
    peer_client_wake(forwarder->thread.client);
}

static struct outbox_outcome outcome_of(const struct produce_result *result)
{
    return (struct outbox_outcome){.error = result->error,
                                   .appended = result->end.offset > 0,
                                   .base_offset = result->base_offset,
                                   .leader_epoch = -1};
}

static void append_here(struct sending *sending)
{
    struct produce_result result = {0};
    sending->waiter = (struct produce_waiter){.done = on_appended};
    sending->appending = true;
    if (partition_outbox_append(sending->partition, &sending->batch, &sending->waiter,
                                &result) != PRODUCE_PENDING) {
        sending->appending = false;
        const struct outbox_outcome outcome = outcome_of(&result);
        settle(sending, &outcome);
    }
}

static int call_leader(struct sending *sending, int64_t left_ms)
{
    struct forwarder *forwarder = sending->forwarder;
    const struct outbox_batch *batch = &sending->batch;
    const struct partition *partition = sending->partition;
    struct peer_address address;
    struct peer_produce produce = {
        .partition = {partition->topic_id, partition->index},
        .leader_epoch = batch->leader_epoch,
        .producer_id = batch->producer_id,
        .base_sequence = batch->base_sequence,
        .acks = (int32_t)batch->acks,
        .timeout_ms = (uint32_t)left_ms,
        .message_count = batch->message_count,
        .length = batch->bytes.length,
    };
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(forwarder->params.cluster);
    int rc = peer_address_find(snapshot, batch->leader, &address) ? 0 : E_NO_LEADER;
    peer_sender_set(&produce.from, forwarder->params.config->cluster, snapshot);
    cluster_snapshot_put(snapshot);
    if (rc) {
        return rc;
    }
    struct buf body;
    buf_init(&body, PEER_REQUEST_MAX);
    (void)peer_produce_encode(&produce, &body);
    (void)buf_add(&body, batch->bytes.data, batch->bytes.length);
    return peer_client_send(forwarder->thread.client, &sending->call, &address,
                            "/replica/produce", &body, REPLY_MAX,
                            left_ms + CALL_MARGIN_MS);
}

static void attempt(struct sending *sending)
{
    int64_t left_ms = sending->batch.deadline_ms - now_ms(sending->forwarder);
    if (sending->batch.here) {
        append_here(sending);
        return;
    }
    int rc = call_leader(sending, left_ms > 1 ? left_ms : 1);
    sending->calling = rc == 0;
    if (rc) {
        const struct outbox_outcome outcome = {.error = E_NO_LEADER};
        settle(sending, &outcome);
    }
}

/* What the answer says, or that there was none: then the leader may have it. */
static struct outbox_outcome read_reply(const struct peer_reply *reply)
{
    struct peer_produced produced;
    if (reply->error == -ECONNREFUSED || reply->error == -EHOSTUNREACH ||
        reply->error == -EACCES) {
        return (struct outbox_outcome){.error = E_NO_LEADER};
    }
    int rc = reply->error
                 ? reply->error
                 : peer_produced_decode(reply->bytes, reply->length, &produced);
    if (rc) {
        return (struct outbox_outcome){.error = E_NO_LEADER, .appended = true};
    }
    return (struct outbox_outcome){.error = produced.error,
                                   .appended = produced.appended,
                                   .base_offset = produced.base_offset,
                                   .leader_epoch = produced.leader_epoch};
}

static void on_reply(struct peer_call *call, const struct peer_reply *reply)
{
    struct sending *sending = (struct sending *)call;
    sending->calling = false;
    /* Who is answered may write again before this thread sleeps. */
    peer_thread_stay_awake(&sending->forwarder->thread);
    const struct outbox_outcome outcome = read_reply(reply);
    settle(sending, &outcome);
}

/* ---- partitions ---------------------------------------------------------------------
 */

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void forget(struct sending *sending)
{
    struct forwarder *forwarder = sending->forwarder;
    peer_call_free(forwarder->thread.client, &sending->call);
    partition_outbox_abandon(sending->partition, &sending->batch);
    HASH_DEL(forwarder->sendings, sending);
    partition_unref(sending->partition);
    free(sending);
}

/* true: nothing is under way any more. */
static bool give_up_append(struct sending *sending, struct outbox_outcome *outcome)
{
    struct produce_result result;
    if (!partition_produce_cancel(sending->partition, &sending->waiter, &result)) {
        return false; /* done() is on its way */
    }
    sending->appending = false;
    *outcome = outcome_of(&result);
    return true;
}

static void look_at_appending(struct sending *sending)
{
    struct outbox_outcome outcome;
    if (sending->batch.deadline_ms > now_ms(sending->forwarder)) {
        sending->due_ms = sending->batch.deadline_ms;
    } else if (give_up_append(sending, &outcome)) {
        settle(sending, &outcome);
    } else {
        sending->due_ms = now_ms(sending->forwarder) + LOOK_MS;
    }
}

/* The old leader may never answer, and the new one knows whether it had the batch. */
static void leave_leader(struct sending *sending)
{
    const struct outbox_outcome outcome = {.error = E_NOT_LEADER, .appended = true};
    peer_call_free(sending->forwarder->thread.client, &sending->call);
    peer_call_init(&sending->call, on_reply);
    sending->calling = false;
    settle(sending, &outcome);
    sending->retry_ms = 0;
}

/* Does what comes next; false: nothing, and it is gone. */
static bool step(struct sending *sending)
{
    int64_t now = now_ms(sending->forwarder);
    int64_t due = now + IDLE_MS;
    sending->due_ms = due;
    if (sending->appending) {
        look_at_appending(sending);
        return true;
    }
    if (sending->calling && !partition_outbox_ending(sending->partition)) {
        if (partition_outbox_moved(sending->partition, &sending->batch)) {
            leave_leader(sending);
        } else {
            sending->due_ms =
                partition_outbox_expire(sending->partition, &sending->batch, due);
        }
        return true;
    }
    enum outbox_state state = OUTBOX_EMPTY;
    if (!sending->calling) {
        state = partition_outbox_next(sending->partition, &sending->batch, &due);
    }
    if (state == OUTBOX_EMPTY) {
        /* Or the mount is about to go, and nobody waits for the leader any more. */
        forget(sending);
        return false;
    }
    if (state == OUTBOX_WAIT) {
        sending->due_ms = due < now + LOOK_MS ? due : now + LOOK_MS;
    } else if (sending->retry_ms > now) {
        sending->due_ms = sending->retry_ms < due ? sending->retry_ms : due;
    } else {
        sending->due_ms = due;
        attempt(sending);
    }
    return true;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void take_notice(void *arg, struct partition *partition)
{
    struct forwarder *forwarder = arg;
    struct sending *sending = NULL;
    sync_sender_notice(&forwarder->syncs, partition);
    HASH_FIND_PTR(forwarder->sendings, &partition, sending);
    if (!sending && !partition_outbox_pending(partition)) {
        return;
    }
    if (!sending) {
        sending = calloc(1, sizeof *sending);
        if (!sending) {
            return; /* the next write's notice, or its time-out, ends it */
        }
        sending->forwarder = forwarder;
        sending->partition = partition_ref(partition);
        peer_call_init(&sending->call, on_reply);
        HASH_ADD_PTR(forwarder->sendings, partition, sending);
    }
    sending->retry_ms = 0;
    sending->due_ms = 0;
}

static void take_done(struct forwarder *forwarder)
{
    pthread_mutex_lock(&forwarder->lock);
    struct sending *done = forwarder->done;
    forwarder->done = NULL;
    pthread_mutex_unlock(&forwarder->lock);
    while (done) {
        struct sending *sending = done;
        done = sending->next_done;
        sending->appending = false;
        const struct outbox_outcome outcome = outcome_of(&sending->result);
        settle(sending, &outcome);
    }
}

/* Looks at what is due; returns how long nothing else will be. */
static int64_t look_at_due(struct forwarder *forwarder)
{
    int64_t now = now_ms(forwarder);
    int64_t first = sync_sender_look(&forwarder->syncs);
    struct sending *sending;
    struct sending *next;
    HASH_ITER(hh, forwarder->sendings, sending, next)
    {
        if (sending->due_ms <= now && !step(sending)) {
            continue;
        }
        first = sending->due_ms < first ? sending->due_ms : first;
    }
    return first > now ? first - now : 0;
}

static void *forwarder_main(void *arg)
{
    struct forwarder *forwarder = arg;
    sync_sender_init(&forwarder->syncs, &forwarder->params, forwarder->thread.client);
    while (peer_thread_take(&forwarder->thread, take_notice, forwarder)) {
        take_done(forwarder);
        peer_client_run(forwarder->thread.client, look_at_due(forwarder));
    }
    return NULL;
}

static void free_all(struct forwarder *forwarder)
{
    struct sending *sending;
    struct sending *next;
    HASH_ITER(hh, forwarder->sendings, sending, next)
    {
        forget(sending);
    }
    sync_sender_end(&forwarder->syncs);
    peer_thread_free(&forwarder->thread);
    pthread_mutex_destroy(&forwarder->lock);
    free(forwarder);
}

int forwarder_start(const struct forwarder_params *params, struct forwarder **out)
{
    struct forwarder *forwarder = calloc(1, sizeof *forwarder);
    *out = NULL;
    if (!forwarder) {
        return -ENOMEM;
    }
    forwarder->params = *params;
    pthread_mutex_init(&forwarder->lock, NULL);
    int rc = peer_thread_start(&forwarder->thread, params->config, forwarder_main,
                               forwarder);
    if (rc) {
        free_all(forwarder);
        return rc;
    }
    *out = forwarder;
    return 0;
}

/* Appends that wait for their commit are taken back, or end now. */
static void end_appends(struct forwarder *forwarder)
{
    struct sending *sending;
    struct sending *next;
    bool left = true;
    while (left) {
        left = false;
        take_done(forwarder);
        HASH_ITER(hh, forwarder->sendings, sending, next)
        {
            struct outbox_outcome outcome;
            left = left || (sending->appending && !give_up_append(sending, &outcome));
        }
    }
}

void forwarder_stop(struct forwarder *forwarder)
{
    if (!forwarder) {
        return;
    }
    peer_thread_stop(&forwarder->thread);
    end_appends(forwarder);
    free_all(forwarder);
}
