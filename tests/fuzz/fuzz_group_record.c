/* The lines of __consumer_offsets: any bytes are decoded or refused; what was decoded
 * holds to what the coordinator relies on, and is the same when it was written and read
 * again. A group that any lines were replayed into can be asked, and go on in time. */
#include "coord/snapshot.h"
#include "replica/group_core.h"
#include "replica/group_record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct group_config defaults = {
    .group_session_timeout_ms = 10000,
    .max_poll_interval_ms = 300000,
    .offsets_retention_ms = 604800000,
};

static const struct group_record_topic *topic_of(const struct group_record *record,
                                                 const struct topic_id *id)
{
    for (size_t i = 0; i < record->topic_count; i++) {
        if (topic_id_equal(&record->topics[i].id, id)) {
            return &record->topics[i];
        }
    }
    return NULL;
}

static void check_member(const struct group_record *record, size_t i)
{
    const struct group_record_member *member = &record->members[i];
    const struct group_record_topic *topic = topic_of(record, &member->topic_id);
    if (!topic || !group_record_member_valid(member->id) ||
        (i > 0 && strcmp(record->members[i - 1].id, member->id) >= 0)) {
        abort();
    }
    for (size_t r = 0; r < member->run_count; r++) {
        const struct group_record_run *run = &member->runs[r];
        if (run->first < 0 || run->count < 1 || run->count > topic->partitions ||
            run->first > topic->partitions - run->count) {
            abort();
        }
    }
}

/* Writes it, and what that is read as again. */
static void encode(const struct group_record_key *key,
                   const struct group_record *record, struct buf *out)
{
    buf_init(out, 1 << 26);
    if (group_record_encode(key->group, record, out)) {
        abort();
    }
}

static void check_again(const struct group_record_key *key,
                        const struct group_record *record)
{
    struct group_record_key key_again;
    struct group_record again;
    struct buf first;
    struct buf second;
    encode(key, record, &first);
    if (group_record_split(first.data, first.length - 1, &key_again) ||
        group_record_decode(&key_again, &defaults, &again)) {
        abort();
    }
    encode(&key_again, &again, &second);
    if (first.length != second.length ||
        memcmp(first.data, second.data, first.length) != 0) {
        abort();
    }
    group_record_free(&again);
    buf_free(&first);
    buf_free(&second);
}

static void check_group(const struct group_record_key *key)
{
    struct group_record record;
    if (group_record_decode(key, &defaults, &record)) {
        return;
    }
    for (size_t i = 0; i < record.member_count; i++) {
        check_member(&record, i);
    }
    check_again(key, &record);
    group_record_free(&record);
}

static void check_offset(const struct group_record_key *key)
{
    struct group_record_offset offset;
    if (group_record_decode_offset(key, &offset)) {
        return;
    }
    if (offset.offset < 0 || offset.leader_epoch < -1 ||
        topic_name_check(offset.topic)) {
        abort();
    }
}

/* All lines are of the group that the first is of. */
static void check_line(struct group_core **core, const char *line, size_t length)
{
    struct group_record_key key;
    if (group_record_split(line, length, &key)) {
        return;
    }
    if (!key.gone && key.offset) {
        check_offset(&key);
    } else if (!key.gone) {
        check_group(&key);
    }
    if (!*core) {
        *core = group_core_new(key.group, &defaults);
    }
    if (*core) {
        (void)group_core_replay(*core, line, length);
    }
}

static void check_core(struct group_core *core)
{
    struct snapshot *snapshot = snapshot_new();
    struct group_env env = {.now_ms = 5000, .wall_ms = 1764417600000};
    struct buf records;
    int64_t next_ms = 0;
    if (!snapshot) {
        abort();
    }
    env.snapshot = &snapshot->shown;
    buf_init(&records, 1 << 26);
    group_core_loaded(core, 0);
    cJSON_Delete(group_core_describe(core));
    /* It knows no topic: nothing stays but settings. */
    if (group_core_tick(core, &env, &records, &next_ms) ||
        group_core_members(core) > 0) {
        abort();
    }
    cJSON_Delete(group_core_describe(core));
    buf_free(&records);
    snapshot_unref(snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data;
    const char *end = at + size;
    struct group_core *core = NULL;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        check_line(&core, at, (size_t)(stop - at));
        at = stop + 1;
    }
    if (core) {
        check_core(core);
        group_core_free(core);
    }
    return 0;
}
