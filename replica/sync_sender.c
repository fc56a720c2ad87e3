#include "replica/sync_sender.h"

#include "replica/partition_internal.h"
#include "replica/partition_replica.h"
#include "replica/peer_thread.h"

#include <stdlib.h>
#include <uthash.h>

enum {
    WAIT_MS = 1000, /* how long a leader may keep a call: who waits less asks then */
    CALL_MARGIN_MS = 2000,
    RETRY_MS = 50,
    LOOK_MS = 100, /* without a leader, should a notice be lost */
    IDLE_MS = 1000,
    REPLY_MAX = 64 * 1024,
};

/* A partition that somebody waits for. */
struct sync_asking {
    struct peer_call call; /* first */
    struct sync_sender *sender;
    struct partition *partition; /* one reference */
    struct sync_ask ask;
    bool calling; /* an answer is to come */
    int64_t retry_ms;
    int64_t due_ms;
    UT_hash_handle hh; /* by partition */
};

static int64_t now_ms(const struct sync_sender *sender)
{
    return clock_mono_ms(sender->params->clock);
}

static void on_reply(struct peer_call *call, const struct peer_reply *reply)
{
    struct sync_asking *asking = (struct sync_asking *)call;
    struct peer_synced synced = {.error = E_NO_LEADER, .durable_end = -1};
    int rc = reply->error ? reply->error
                          : peer_synced_decode(reply->bytes, reply->length, &synced);
    asking->calling = false;
    asking->due_ms = 0;
    if (rc || (synced.error && synced.error != E_COMMIT_TIMEOUT)) {
        asking->retry_ms = now_ms(asking->sender) + RETRY_MS;
    }
    if (!rc && synced.durable_end >= 0) {
        partition_sync_settle(asking->partition, synced.durable_end);
    }
}

static int call_leader(struct sync_asking *asking)
{
    struct sync_sender *sender = asking->sender;
    const struct partition *partition = asking->partition;
    struct peer_address address;
    struct peer_sync sync = {
        .partition = {partition->topic_id, partition->index},
        .leader_epoch = asking->ask.leader_epoch,
        .end_offset = asking->ask.end_offset,
        .timeout_ms = WAIT_MS,
    };
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(sender->params->cluster);
    int rc =
        peer_address_find(snapshot, asking->ask.leader, &address) ? 0 : E_NO_LEADER;
    peer_sender_set(&sync.from, sender->params->config->cluster, snapshot);
    cluster_snapshot_put(snapshot);
    if (rc) {
        return rc;
    }
    struct buf body;
    buf_init(&body, PEER_REQUEST_MAX);
    (void)peer_sync_encode(&sync, &body);
    return peer_client_send(sender->client, &asking->call, &address, "/replica/sync",
                            &body, REPLY_MAX, WAIT_MS + CALL_MARGIN_MS);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static void forget(struct sync_asking *asking)
{
    struct sync_sender *sender = asking->sender;
    peer_call_free(sender->client, &asking->call);
    HASH_DEL(sender->askings, asking);
    partition_unref(asking->partition);
    free(asking);
}

/* The old leader may never answer. */
static void leave_leader(struct sync_asking *asking)
{
    peer_call_free(asking->sender->client, &asking->call);
    peer_call_init(&asking->call, on_reply);
    asking->calling = false;
    asking->retry_ms = 0;
}

/* false: nobody waits, and it is gone. */
static bool step(struct sync_asking *asking)
{
    int64_t now = now_ms(asking->sender);
    asking->due_ms = now + IDLE_MS;
    if (asking->calling && partition_sync_moved(asking->partition, &asking->ask)) {
        leave_leader(asking);
    }
    if (asking->calling) {
        return true;
    }
    switch (partition_sync_next(asking->partition, &asking->ask)) {
    case SYNC_NONE:
        forget(asking);
        return false;
    case SYNC_WAIT:
        asking->due_ms = now + LOOK_MS;
        return true;
    case SYNC_SEND:
        break;
    }
    if (asking->retry_ms <= now) {
        asking->calling = call_leader(asking) == 0;
        asking->retry_ms = asking->calling ? 0 : now + RETRY_MS;
    }
    if (!asking->calling) {
        asking->due_ms = asking->retry_ms;
    }
    return true;
}

void sync_sender_init(struct sync_sender *sender, const struct forwarder_params *params,
                      struct peer_client *client)
{
    *sender = (struct sync_sender){.params = params, .client = client};
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
void sync_sender_notice(struct sync_sender *sender, struct partition *partition)
{
    struct sync_asking *asking = NULL;
    HASH_FIND_PTR(sender->askings, &partition, asking);
    if (!asking && partition_sync_pending(partition)) {
        asking = calloc(1, sizeof *asking);
        if (!asking) {
            return; /* the next waiter's notice, or its time-out, ends it */
        }
        asking->sender = sender;
        asking->partition = partition_ref(partition);
        peer_call_init(&asking->call, on_reply);
        HASH_ADD_PTR(sender->askings, partition, asking);
    }
    if (asking) {
        asking->due_ms = 0;
    }
}

int64_t sync_sender_look(struct sync_sender *sender)
{
    int64_t now = now_ms(sender);
    int64_t first = now + IDLE_MS;
    struct sync_asking *asking;
    struct sync_asking *next;
    HASH_ITER(hh, sender->askings, asking, next)
    {
        if (asking->due_ms <= now && !step(asking)) {
            continue;
        }
        first = asking->due_ms < first ? asking->due_ms : first;
    }
    return first;
}

void sync_sender_end(struct sync_sender *sender)
{
    struct sync_asking *asking;
    struct sync_asking *next;
    HASH_ITER(hh, sender->askings, asking, next)
    {
        forget(asking);
    }
}
