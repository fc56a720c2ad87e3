#include "replica/compact_core.h"

#include "replica/index.h"
#include "replica/producer_state.h"

bool compact_takes(bool closed, int64_t end_offset, int64_t high_watermark)
{
    return closed &&
           (end_offset <= high_watermark || MUTATION(MUTATE_COMPACT_UNCOMMITTED));
}

bool compact_is_clean(uint32_t index_flags)
{
    return (index_flags & INDEX_COMPACTED) && !(index_flags & INDEX_UNCLEAN);
}

uint32_t compact_flags_behind(bool hole)
{
    if (MUTATION(MUTATE_HOLES_ARE_CLEAN)) {
        return hole ? INDEX_COMPACTED : 0;
    }
    return hole ? INDEX_COMPACTED | INDEX_UNCLEAN : 0;
}

/* Readers that are slow, and replicas that were away, are to see the deletion. And what
 * it deleted must not be the last of its key that is left. */
static bool expired(const struct batch *batch, const struct compact_message *message,
                    int64_t now_ms)
{
    bool due = (batch->flags & BATCH_TOMBSTONES) && now_ms >= batch->delete_at_ms;
    return message->tombstone && (due || MUTATION(MUTATE_TOMBSTONE_AT_ONCE)) &&
           (!message->earlier_key_stays || MUTATION(MUTATE_TOMBSTONE_BEFORE_KEY));
}

/*
 * Leader epochs are read from the log, also by replicas that were made from a compacted
 * one: if the message with which one begins went, an epoch would seem to end later than
 * it did, or never to have been, and logs would be cut at the wrong place.
 */
static bool needed(const struct compact_message *message)
{
    return (message->last_of_producer && !MUTATION(MUTATE_FORGET_PRODUCERS)) ||
           (message->first_of_epoch && !MUTATION(MUTATE_FORGET_EPOCHS));
}

enum compact_verdict compact_judge(const struct batch *batch,
                                   const struct compact_message *message,
                                   int64_t now_ms)
{
    if (!message->keyed) {
        return COMPACT_KEEP;
    }
    if ((batch->flags & BATCH_SUPERSEDED) || message->last_of_key > message->offset) {
        return needed(message) ? COMPACT_KEEP_SUPERSEDED : COMPACT_DROP;
    }
    /* The last of its key, also where it stays for another reason: a replica that gets
     * it then may have what it deletes. */
    if (expired(batch, message, now_ms) && !needed(message)) {
        return COMPACT_DROP;
    }
    return message->tombstone ? COMPACT_KEEP_TOMBSTONE : COMPACT_KEEP;
}

void compact_part(const struct batch *batch, uint32_t n, uint32_t count,
                  enum compact_verdict verdict, int64_t now_ms, struct batch *part)
{
    *part = *batch;
    producer_batch_rest(part, n);
    part->message_count = count;
    part->flags = 0;
    part->delete_at_ms = 0;
    if (verdict == COMPACT_KEEP_SUPERSEDED) {
        part->flags = BATCH_SUPERSEDED;
    }
    if (verdict == COMPACT_KEEP_TOMBSTONE) {
        part->flags = BATCH_TOMBSTONES;
        part->delete_at_ms = (batch->flags & BATCH_TOMBSTONES)
                                 ? batch->delete_at_ms
                                 : now_ms + COMPACT_TOMBSTONE_MS;
    }
}
