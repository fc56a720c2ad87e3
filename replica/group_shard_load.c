/* Reading the groups from the log. */
#include "replica/group_record.h"
#include "replica/group_shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What the log holds now is all that leaders wrote up to this one's first append: in
 * this epoch nobody but the shard appends, and it does not while it loads. Once that
 * much is committed, it is what the groups are.
 */
void group_shard_load_begin(struct group_shard *shard)
{
    struct partition_status status;
    partition_status_get(shard->partition, &status);
    shard->state = SHARD_LOADING;
    shard->leader_epoch = shard->lead.leader_epoch;
    shard->loads++;
    /* Below 2^53, as all numbers in JSON. */
    shard->changes_base = ((uint64_t)(shard->leader_epoch + 1) << 20) +
                          ((uint64_t)(shard->loads & 0xff) << 12);
    shard->load.target = status.log_end_offset;
    shard->load.reading = false;
}

void group_shard_load_end(struct group_shard *shard)
{
    free(shard->load.bytes);
    shard->load.bytes = NULL;
    shard->load.reading = false;
    buf_free(&shard->load.line);
}

static int begin_reading(struct group_shard *shard)
{
    struct group_load *load = &shard->load;
    struct partition_status status;
    partition_status_get(shard->partition, &status);
    if (status.high_watermark.offset < load->target) {
        return SHARD_LOAD_WAIT;
    }
    group_shard_forget_all(shard);
    group_shard_load_end(shard);
    load->bytes = malloc(SHARD_READ_BYTES);
    if (!load->bytes) {
        return -ENOMEM;
    }
    load->reading = true;
    load->position = status.start.position;
    load->end = status.high_watermark.position;
    load->rewrites = status.rewrites;
    load->lines = 0;
    load->malformed = 0;
    load->first_malformed = -1;
    return SHARD_LOAD_MORE;
}

static bool confirms(const char *line, size_t length)
{
    static const char key[] = SHARD_CONFIRM_KEY "\t";
    return length >= sizeof key - 1 && memcmp(line, key, sizeof key - 1) == 0;
}

static int replay(struct group_shard *shard, const struct group_shard_env *env,
                  const char *line, size_t length)
{
    struct group_record_key key;
    if (confirms(line, length)) {
        return 0;
    }
    int rc = group_record_split(line, length, &key);
    struct group_entry *entry = rc ? NULL : group_shard_entry(shard, env, key.group);
    if (!rc && !entry) {
        return -ENOMEM;
    }
    return rc ? rc : group_core_replay(entry->core, line, length);
}

static int take_line(struct group_shard *shard, const struct group_shard_env *env,
                     const char *line, size_t length)
{
    struct group_load *load = &shard->load;
    int rc = replay(shard, env, line, length);
    if (rc == -EBADMSG) {
        if (load->malformed++ == 0) {
            load->first_malformed = load->lines;
        }
        rc = 0;
    }
    load->lines++;
    return rc;
}

/* Lines that lie wholly in the piece are taken from there; the others are put
 * together. */
static int take_bytes(struct group_shard *shard, const struct group_shard_env *env,
                      const char *bytes, size_t length)
{
    struct buf *begun = &shard->load.line;
    int rc = 0;
    while (length > 0 && !rc) {
        const char *newline = memchr(bytes, '\n', length);
        size_t n = newline ? (size_t)(newline - bytes) : length;
        if (!newline || begun->length > 0) {
            rc = buf_add(begun, bytes, n);
        }
        if (!rc && newline && begun->length > 0) {
            rc = take_line(shard, env, begun->data, begun->length);
            buf_clear(begun);
        } else if (!rc && newline) {
            rc = take_line(shard, env, bytes, n);
        }
        n += newline ? 1 : 0;
        bytes += n;
        length -= n;
    }
    return rc;
}

static int read_piece(struct group_shard *shard, size_t *length)
{
    struct group_load *load = &shard->load;
    struct extent extent = {0};
    int64_t left = load->end - load->position;
    size_t most = left < SHARD_READ_BYTES ? (size_t)left : SHARD_READ_BYTES;
    int rc =
        partition_read(shard->partition, load->position, most, load->rewrites, &extent);
    if (rc) {
        return rc;
    }
    rc = extent_read(&extent, load->bytes);
    if (!rc && extent.length == 0) {
        rc = -EIO; /* less than was committed */
    }
    *length = extent.length;
    extent_release(&extent);
    return rc;
}

static void tell_malformed(const struct group_shard *shard,
                           const struct group_shard_env *env)
{
    const struct group_load *load = &shard->load;
    char subject[64];
    char what[256];
    (void)snprintf(subject, sizeof subject, "%s-%d", GROUPS_TOPIC, shard->index);
    if (load->malformed == 0) {
        problems_clear(env->problems, "group-records", subject);
        return;
    }
    (void)snprintf(what, sizeof what,
                   "%lld of its lines say nothing about groups that can be understood, "
                   "the first of them is its line %lld; they are passed over",
                   (long long)load->malformed, (long long)load->first_malformed + 1);
    problems_set(env->problems, "group-records", subject, what,
                 "look at the offsets of the groups; what was not read may be older");
}

static void become_ready(struct group_shard *shard, const struct group_shard_env *env)
{
    struct group_entry *entry;
    struct group_entry *next;
    HASH_ITER(hh, shard->groups, entry, next)
    {
        group_core_loaded(entry->core, env->now_ms);
        entry->noticed = group_core_changes(entry->core);
        entry->next_ms = 0;
        group_shard_sweep(shard, entry);
    }
    shard->next_tick_ms = 0;
    tell_malformed(shard, env);
    if (shard->load.lines > 0)
        diag(DIAG_DEBUG, "%s-%d: %lld lines were read, %u groups", GROUPS_TOPIC,
             shard->index, (long long)shard->load.lines, HASH_COUNT(shard->groups));
    group_shard_load_end(shard);
    shard->state = SHARD_READY;
}

int group_shard_load(struct group_shard *shard, const struct group_shard_env *env)
{
    struct group_load *load = &shard->load;
    size_t length = 0;
    if (!load->reading) {
        return begin_reading(shard);
    }
    if (load->position < load->end) {
        int rc = read_piece(shard, &length);
        if (rc == E_RANGE_REWRITTEN || rc == E_OFFSET_BELOW_START) {
            load->reading = false; /* compaction was quicker: from the beginning */
            return SHARD_LOAD_MORE;
        }
        rc = rc ? rc : take_bytes(shard, env, load->bytes, length);
        load->position += (int64_t)length;
        return rc ? rc : SHARD_LOAD_MORE;
    }
    become_ready(shard, env);
    return 0;
}
