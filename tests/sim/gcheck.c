#include "tests/sim/gcheck.h"

#include "replica/group_record.h"

#include <stdlib.h>
#include <string.h>

/* From the end of a session until another member has the partition. */
enum { SETTLE_MAX_MS = 1000 };

struct cell { /* a partition */
    /* by the log */
    char owner[GROUP_MEMBER_ID_MAX + 1]; /* "": nobody */
    int64_t generation;                  /* of the last grant; -1: never */
    int64_t committed;                   /* -1: nothing */
    uint32_t set_number;                 /* of the latest request that set it */
    /* by what members were told */
    int64_t acked;
    /* by what they did */
    int64_t frontier;        /* every message below it was delivered */
    bool clean;              /* the last reader gave it up with nothing in hand */
    int64_t unread_since_ms; /* -1: somebody reads it */
};

struct gcheck {
    struct gworld *world;
    int64_t generation;
    struct cell cells[GTOPICS][GPARTITIONS_MAX];
};

struct gcheck *gcheck_new(struct gworld *world)
{
    struct gcheck *check = gworld_alloc(sizeof *check);

    check->world = world;
    return check;
}

void gcheck_reset(struct gcheck *check)
{
    check->generation = 0;
    for (size_t t = 0; t < GTOPICS; t++)
        for (size_t p = 0; p < GPARTITIONS_MAX; p++)
            check->cells[t][p] =
                (struct cell){.generation = -1, .committed = -1, .unread_since_ms = -1};
}

void gcheck_free(struct gcheck *check)
{
    free(check);
}

/* ---- the log ------------------------------------------------------------------------
 */

static bool in_record(const struct group_record *record, const char *member)
{
    for (size_t i = 0; i < record->member_count; i++)
        if (strcmp(record->members[i].id, member) == 0)
            return true;
    return false;
}

static bool released_by(const struct gbatch *batch, const char *member,
                        int32_t partition, int64_t generation)
{
    const struct grequest *request = &batch->request;

    if (!batch->by_request || request->op != GOP_BEAT ||
        strcmp(request->member, member) != 0)
        return false;
    for (size_t i = 0; i < request->count; i++)
        if (request->u.released[i].partition == partition &&
            request->u.released[i].generation == generation)
            return true;
    return false;
}

static void check_grant(struct gcheck *check, const struct gbatch *batch,
                        const struct group_record *record,
                        const struct group_record_member *member, int32_t partition,
                        int64_t generation)
{
    struct cell *cell =
        &check->cells[gworld_topic_of(check->world, &member->topic_id)][partition];

    if (strcmp(cell->owner, member->id) == 0 && cell->generation == generation)
        return;
    if (cell->owner[0] && in_record(record, cell->owner) &&
        !released_by(batch, cell->owner, partition, cell->generation))
        gworld_violation(check->world,
                         "partition %d goes from %s to %s without a release", partition,
                         cell->owner, member->id);
    if (generation <= cell->generation)
        gworld_violation(check->world,
                         "partition %d is granted to %s in generation %lld, after %lld",
                         partition, member->id, (long long)generation,
                         (long long)cell->generation);
    memcpy(cell->owner, member->id, sizeof cell->owner);
    cell->generation = generation;
}

static bool has(const struct group_record_member *member, int32_t partition)
{
    for (size_t r = 0; r < member->run_count; r++)
        if (partition >= member->runs[r].first &&
            partition < member->runs[r].first + member->runs[r].count)
            return true;
    return false;
}

/* Who has nothing by the record owns nothing. */
static void check_owners(struct gcheck *check, const struct gbatch *batch,
                         const struct group_record *record)
{
    for (int32_t t = 0; t < GTOPICS; t++)
        for (int32_t p = 0; p < GPARTITIONS_MAX; p++) {
            struct cell *cell = &check->cells[t][p];
            bool still = !cell->owner[0];

            for (size_t i = 0; i < record->member_count && !still; i++)
                still =
                    strcmp(record->members[i].id, cell->owner) == 0 &&
                    gworld_topic_of(check->world, &record->members[i].topic_id) == t &&
                    has(&record->members[i], p);
            if (still)
                continue;
            if (in_record(record, cell->owner) &&
                !released_by(batch, cell->owner, p, cell->generation))
                gworld_violation(check->world, "partition %d is taken from %s", p,
                                 cell->owner);
            cell->owner[0] = '\0';
        }
}

static void note_members(struct gcheck *check, const struct group_record *record)
{
    for (size_t i = 0; i < GMEMBERS_MAX; i++) {
        struct gmember *member = check->world->members[i];

        member->logged = member->logged || in_record(record, member->id);
    }
}

static void check_group(struct gcheck *check, const struct gbatch *batch,
                        const struct group_record_key *key)
{
    struct group_config defaults;
    struct group_record record;

    group_config_defaults(&defaults);
    if (key->gone)
        record = (struct group_record){0};
    else if (group_record_decode(key, &defaults, &record)) {
        gworld_violation(check->world, "malformed record: %.*s", (int)key->value_length,
                         key->value);
        return;
    }
    if (!key->gone && record.generation < check->generation)
        gworld_violation(check->world, "the generation falls from %lld to %lld",
                         (long long)check->generation, (long long)record.generation);
    note_members(check, &record);
    for (size_t i = 0; i < record.member_count; i++)
        for (size_t r = 0; r < record.members[i].run_count; r++) {
            const struct group_record_run *run = &record.members[i].runs[r];

            for (int32_t p = run->first; p < run->first + run->count; p++)
                check_grant(check, batch, &record, &record.members[i], p,
                            run->generation);
        }
    check_owners(check, batch, &record);
    check->generation = record.generation;
    if (key->gone)
        for (size_t i = 0; i < (size_t)GTOPICS * GPARTITIONS_MAX; i++)
            check->cells[i / GPARTITIONS_MAX][i % GPARTITIONS_MAX].generation = -1;
    group_record_free(&record);
}

/* As if everything began here. Whom the log has removed may not know that yet; nothing
 * that it does counts. One that does not know yet that it was a member has read
 * nothing, and may join again. */
static void reset(struct gcheck *check, int32_t topic, int32_t partition,
                  int64_t offset)
{
    struct cell *cell = &check->cells[topic][partition];

    if (cell->owner[0])
        gworld_violation(check->world, "partition %d is reset, which %s has", partition,
                         cell->owner);
    GWORLD_TRACE(check->world, "partition %d of %s begins anew at %lld", partition,
                 gworld_topic_name(check->world, topic), (long long)offset);
    cell->committed = offset;
    cell->acked = cell->frontier = offset < 0 ? 0 : offset;
    cell->clean = false;
    for (size_t i = 0; i < GMEMBERS_MAX; i++) {
        struct gmember *member = check->world->members[i];

        if (member->topic == topic && member->logged &&
            member->state != GMEMBER_JOINING)
            member->outlived = true;
    }
}

static void check_set(struct gcheck *check, const struct grequest *request,
                      const struct group_record_key *key, int64_t offset)
{
    struct cell *cell = &check->cells[request->topic][request->partition];

    if (gworld_topic_of(check->world, &key->topic_id) != request->topic ||
        key->partition != request->partition || offset != request->offset)
        gworld_violation(check->world,
                         "partition %d is set to %lld, and %lld is in the log of %d",
                         request->partition, (long long)request->offset,
                         (long long)offset, key->partition);
    reset(check, request->topic, request->partition, offset);
    if (cell->set_number < request->number)
        cell->set_number = request->number;
    check->world->resets++;
}

static void check_commit(struct gcheck *check, const struct gbatch *batch,
                         struct cell *cell, int32_t partition, int64_t offset)
{
    const struct grequest *request = &batch->request;
    int64_t generation = -1;

    for (size_t i = 0; i < request->count && request->op == GOP_COMMIT; i++)
        if (request->u.commits[i].partition == partition)
            generation = request->u.commits[i].generation;
    if (!batch->by_request || strcmp(request->member, cell->owner) != 0 ||
        generation != cell->generation)
        gworld_violation(check->world,
                         "%s commits partition %d with generation %lld, which %s has "
                         "with %lld",
                         request->member, partition, (long long)generation, cell->owner,
                         (long long)cell->generation);
    if (offset < cell->committed)
        gworld_violation(check->world, "partition %d goes back from %lld to %lld",
                         partition, (long long)cell->committed, (long long)offset);
    cell->committed = offset;
    check->world->commits++;
}

static void check_offset(struct gcheck *check, const struct gbatch *batch,
                         const struct group_record_key *key)
{
    int32_t topic = gworld_topic_of(check->world, &key->topic_id);
    struct group_record_offset record = {.offset = -1};

    if (!key->gone && group_record_decode_offset(key, &record)) {
        gworld_violation(check->world, "an offset is malformed");
        return;
    }
    if (batch->by_request && batch->request.op == GOP_SET &&
        (!key->gone || batch->request.offset < 0))
        check_set(check, &batch->request, key, record.offset);
    else if (!key->gone)
        check_commit(check, batch, &check->cells[topic][key->partition], key->partition,
                     record.offset);
    else if (gworld_partitions(check->world, topic) > 0)
        gworld_violation(check->world, "the offset of partition %d is gone",
                         key->partition);
    else
        reset(check, topic, key->partition, -1);
}

/* The lines of one kind. */
static void check_lines(struct gcheck *check, const struct gbatch *batch, bool offsets)
{
    const char *at = batch->bytes;
    const char *end = at + batch->length;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct group_record_key key;

        if (!newline || group_record_split(at, (size_t)(newline - at), &key)) {
            gworld_violation(check->world, "malformed line in the log");
            return;
        }
        if (key.offset && offsets)
            check_offset(check, batch, &key);
        else if (!key.offset && !offsets)
            check_group(check, batch, &key);
        at = newline + 1;
    }
}

/* A batch is there as a whole: members may go with the offsets of their topic. */
void gcheck_committed(struct gcheck *check, const struct gbatch *batch)
{
    check_lines(check, batch, false);
    check_lines(check, batch, true);
}

void gcheck_acked(struct gcheck *check, const struct gmember *member,
                  const struct group_commit *commit)
{
    struct cell *cell = &check->cells[member->topic][commit->partition];

    if (member->outlived)
        return;
    if (cell->committed < commit->offset)
        gworld_violation(check->world,
                         "offset %lld of partition %d was acknowledged, and %lld is "
                         "committed",
                         (long long)commit->offset, commit->partition,
                         (long long)cell->committed);
    if (cell->acked < commit->offset)
        cell->acked = commit->offset;
}

void gcheck_set_answered(struct gcheck *check, const struct ganswer *answer)
{
    const struct cell *cell = &check->cells[answer->topic][answer->partition];

    if (answer->error == 0 && cell->set_number < answer->number)
        gworld_violation(check->world,
                         "partition %d was set by request %u, and the log has that of "
                         "%u",
                         answer->partition, answer->number, cell->set_number);
}

/* ---- readers ------------------------------------------------------------------------
 */

/* Whether the member still has every reason to take the partition for its own. */
static bool trusts(const struct gcheck *check, const struct gmember *member,
                   int32_t partition)
{
    const struct gworld *world = check->world;

    return member->holdings[partition].has && !member->holdings[partition].releasing &&
           world->now_ms < member->heard_ms + world->profile.group_session_ms &&
           gworld_registered(world, &member->incarnation) &&
           member->heard_epoch == world->shard->epoch;
}

static bool others_read(const struct gcheck *check, const struct gmember *member,
                        int32_t topic, int32_t partition)
{
    for (int32_t i = 0; i < GMEMBERS_MAX; i++) {
        const struct gmember *other = check->world->members[i];

        if (other != member && other->topic == topic && other->state != GMEMBER_GONE &&
            other->holdings[partition].has)
            return true;
    }
    return false;
}

void gcheck_started(struct gcheck *check, const struct gmember *member,
                    int32_t partition)
{
    struct gworld *world = check->world;
    struct cell *cell = &check->cells[member->topic][partition];
    int64_t from = member->holdings[partition].position;

    GWORLD_TRACE(world, "%s begins partition %d at %lld", member->id, partition,
                 (long long)from);
    if (member->outlived)
        return;
    if (from < cell->acked)
        gworld_violation(
            world, "%s begins partition %d at %lld, and %lld was acknowledged",
            member->id, partition, (long long)from, (long long)cell->acked);
    if (from < cell->frontier && cell->clean)
        gworld_violation(world, "partition %d was given up at %lld and begins at %lld",
                         partition, (long long)cell->frontier, (long long)from);
    for (int32_t i = 0; i < GMEMBERS_MAX; i++) {
        const struct gmember *other = world->members[i];

        if (other != member && other->topic == member->topic &&
            other->state == GMEMBER_JOINED && trusts(check, other, partition))
            gworld_violation(world, "%s begins partition %d, which %s reads",
                             member->id, partition, other->id);
    }
    cell->clean = false;
    if (cell->unread_since_ms >= 0) {
        int64_t gap = world->now_ms - cell->unread_since_ms;

        if (world->profile.soak && gap > world->longest_gap_ms)
            world->longest_gap_ms = gap;
        if (world->profile.soak &&
            gap > world->profile.group_session_ms + SETTLE_MAX_MS)
            gworld_violation(world, "partition %d had no reader for %lld ms", partition,
                             (long long)gap);
    }
    cell->unread_since_ms = -1;
}

void gcheck_stopped(struct gcheck *check, const struct gmember *member,
                    int32_t partition, bool clean)
{
    struct cell *cell = &check->cells[member->topic][partition];

    if (member->outlived)
        return;
    cell->clean = clean && member->holdings[partition].position >= cell->frontier;
    if (!others_read(check, member, member->topic, partition))
        cell->unread_since_ms = check->world->now_ms;
}

void gcheck_delivered(struct gcheck *check, const struct gmember *member,
                      int32_t partition, int64_t from, int64_t to)
{
    struct cell *cell = &check->cells[member->topic][partition];

    if (member->outlived)
        return;
    if (from > cell->frontier)
        gworld_violation(check->world,
                         "messages %lld to %lld of partition %d are "
                         "passed over",
                         (long long)cell->frontier, (long long)from, partition);
    if (from < cell->acked)
        gworld_violation(check->world,
                         "message %lld of partition %d is delivered after it was "
                         "committed",
                         (long long)from, partition);
    check->world->delivered += (uint64_t)(to - from);
    if (from < cell->frontier)
        check->world->duplicates +=
            (uint64_t)((to < cell->frontier ? to : cell->frontier) - from);
    if (cell->frontier < to)
        cell->frontier = to;
    cell->clean = false;
}

/* ---- the end ------------------------------------------------------------------------
 */

bool gcheck_all_read(const struct gcheck *check, char *why, size_t size)
{
    const struct gworld *world = check->world;

    for (int32_t t = 0; t < world->topic_count; t++) {
        int32_t members = 0;

        for (int32_t i = 0; i < GMEMBERS_MAX; i++)
            members += world->members[i]->topic == t &&
                       world->members[i]->state == GMEMBER_JOINED;
        for (int32_t p = 0; p < gworld_partitions(world, t) && members > 0; p++) {
            if (others_read(check, NULL, t, p))
                continue;
            (void)snprintf(why, size,
                           "partition %d of %s has no reader; the log says "
                           "'%s'",
                           p, gworld_topic_name(world, t), check->cells[t][p].owner);
            return false;
        }
    }
    return true;
}

static bool done(const struct gcheck *check, int32_t topic, int32_t partition)
{
    const struct cell *cell = &check->cells[topic][partition];
    int64_t end = check->world->ends[topic][partition];

    if (partition >= gworld_partitions(check->world, topic))
        return cell->committed < 0;
    return end == 0 || (cell->frontier == end && cell->committed == end);
}

bool gcheck_all_done(const struct gcheck *check, char *why, size_t size)
{
    const struct gworld *world = check->world;

    for (int32_t t = 0; t < world->topic_count; t++)
        for (int32_t p = 0; p < GPARTITIONS_MAX; p++) {
            const struct cell *cell = &check->cells[t][p];

            if (done(check, t, p))
                continue;
            (void)snprintf(why, size,
                           "partition %d of %s (%d): %lld delivered, %lld committed of "
                           "%lld%s",
                           p, gworld_topic_name(world, t), t, (long long)cell->frontier,
                           (long long)cell->committed, (long long)world->ends[t][p],
                           gworld_partitions(world, t) ? "" : ", and it is deleted");
            return false;
        }
    return true;
}
