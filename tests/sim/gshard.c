#include "tests/sim/gshard.h"

#include "replica/group_record.h"
#include "tests/sim/gcheck.h"

#include <stdlib.h>
#include <string.h>

struct gshard *gshard_new(struct gworld *world)
{
    struct gshard *shard = gworld_alloc(sizeof *shard);

    shard->world = world;
    return shard;
}

static void cut(struct gshard *shard, size_t count)
{
    while (shard->count > count) {
        struct gbatch *batch = shard->batches[--shard->count];

        free(batch->bytes);
        free(batch);
    }
}

void gshard_reset(struct gshard *shard)
{
    cut(shard, 0);
    shard->epoch = 0;
    shard->leader = -1;
    shard->committed = 0;
    shard->deposed_epoch = -1;
    shard->deposed_at = 0;
    shard->deposed_uncertain = false;
}

void gshard_free(struct gshard *shard)
{
    cut(shard, 0);
    free((void *)shard->batches);
    free(shard);
}

static void push(struct gshard *shard, struct gbatch *batch)
{
    if (shard->count == shard->allocated) {
        shard->allocated = shard->allocated ? 2 * shard->allocated : 256;
        shard->batches = (struct gbatch **)realloc(
            (void *)shard->batches, shard->allocated * sizeof *shard->batches);
        if (!shard->batches)
            abort();
    }
    shard->batches[shard->count++] = batch;
}

size_t gshard_append(struct gshard *shard, int32_t epoch, const struct buf *records,
                     const struct grequest *request)
{
    struct gworld *world = shard->world;
    struct gbatch *batch;
    int64_t at;

    if (epoch != shard->epoch)
        return SIZE_MAX;
    batch = gworld_alloc(sizeof *batch);
    batch->bytes = gworld_alloc(records->length + 1);
    memcpy(batch->bytes, records->data, records->length);
    batch->length = records->length;
    batch->by_request = request != NULL;
    if (request)
        batch->request = *request;
    push(shard, batch);
    at = world->now_ms + prng_between(&world->prng, 0, world->profile.commit_max_ms);
    if (at < world->stall_until_ms)
        at = world->stall_until_ms;
    gworld_at(world, at, GEVENT_COMMIT, epoch)->value = (int64_t)shard->count;
    return shard->count;
}

static void advance(struct gshard *shard, size_t count)
{
    while (shard->committed < count)
        gcheck_committed(shard->world->check, shard->batches[shard->committed++]);
}

void gshard_commit(struct gshard *shard, int32_t epoch, size_t count)
{
    struct gevent *event;

    if (epoch != shard->epoch || count <= shard->committed)
        return;
    advance(shard, count);
    event = gworld_at(shard->world, shard->world->now_ms, GEVENT_HW, shard->leader);
    event->life = (uint32_t)epoch;
    event->value = (int64_t)count;
}

void gshard_elect(struct gshard *shard, int32_t node)
{
    size_t open = shard->count - shard->committed;
    size_t kept = prng_below(&shard->world->prng, (uint32_t)open + 1);

    shard->deposed_epoch = shard->epoch;
    shard->deposed_at = shard->committed;
    shard->deposed_uncertain = open > 0;
    cut(shard, shard->committed + kept);
    shard->epoch++;
    shard->leader = node;
    advance(shard, shard->count);
    shard->world->failovers++;
}

/* ---- reading it ---------------------------------------------------------------------
 */

/* Which of the keys the line has. */
static size_t key_of(const struct gworld *world, const char *line, size_t length)
{
    struct group_record_key key;

    if (group_record_split(line, length, &key))
        abort();
    if (!key.offset)
        return 0;
    return 1 + (size_t)gworld_topic_of(world, &key.topic_id) * GPARTITIONS_MAX +
           (size_t)key.partition;
}

typedef void line_fn(void *arg, size_t index, size_t key, const char *line,
                     size_t length);

static void each_line(const struct gshard *shard, size_t batches, line_fn *fn,
                      void *arg)
{
    size_t index = 0;

    for (size_t b = 0; b < batches; b++) {
        const char *at = shard->batches[b]->bytes;
        const char *end = at + shard->batches[b]->length;

        while (at < end) {
            const char *newline = memchr(at, '\n', (size_t)(end - at));

            fn(arg, index++, key_of(shard->world, at, (size_t)(newline - at)), at,
               (size_t)(newline - at));
            at = newline + 1;
        }
    }
}

struct reading {
    struct group_core *core;
    size_t lines;
    size_t clean;       /* lines before it were compacted */
    size_t last[GKEYS]; /* the last line of a key before `clean`, + 1 */
    int rc;
};

static void count_line(void *arg, size_t index, size_t key, const char *line,
                       size_t length)
{
    struct reading *reading = arg;

    (void)key;
    (void)line;
    (void)length;
    reading->lines = index + 1;
}

static void last_line(void *arg, size_t index, size_t key, const char *line,
                      size_t length)
{
    struct reading *reading = arg;

    (void)line;
    (void)length;
    if (index < reading->clean)
        reading->last[key] = index + 1;
}

static void replay_line(void *arg, size_t index, size_t key, const char *line,
                        size_t length)
{
    struct reading *reading = arg;

    if (index < reading->clean && reading->last[key] != index + 1)
        return;
    if (reading->rc == 0)
        reading->rc = group_core_replay(reading->core, line, length);
}

int gshard_load(struct gshard *shard, int32_t epoch, struct group_core *core)
{
    struct reading reading = {.core = core};
    size_t end = shard->count;

    if (epoch == shard->epoch && shard->committed < shard->count)
        return -EAGAIN;
    if (epoch != shard->epoch) {
        if (epoch != shard->deposed_epoch || shard->deposed_uncertain)
            return -EAGAIN;
        end = shard->deposed_at;
    }
    each_line(shard, end, count_line, &reading);
    reading.clean = prng_below(&shard->world->prng, (uint32_t)reading.lines + 1);
    each_line(shard, end, last_line, &reading);
    each_line(shard, end, replay_line, &reading);
    return reading.rc;
}
