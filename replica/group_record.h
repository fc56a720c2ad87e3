/*
 * The lines of __consumer_offsets: a key, a tab, a JSON object; nothing behind the tab:
 * what the key names is gone. One key for a group, one for each committed offset:
 *
 *     workers\t{"generation":7,"version":0,"config":{"start":"earliest",...},
 *         "members":[{"id":"1-17-3","node":1,"epoch":17,"topic":"t",
 *         "topic_id":"<32 hex>","joined":1764417600000,"has":[[0,2,7]]}],
 *         "topics":[{"topic":"t","topic_id":"<32 hex>","partitions":2},
 *         {"topic":"u","topic_id":"..","partitions":1,"left":1764417600000}]}
 *     workers/<topic id>/0\t{"topic":"t","offset":43,"leader_epoch":5,
 *         "timestamp":1764417600000}
 *
 * "has" are runs of partitions: the first, how many, the generation of the grant.
 * "topics" are those that have members, and those that had, while there are offsets of
 * them: "left" is when the last member left.
 *
 * Each line says everything about its key, so the last line of each key is enough,
 * whatever compaction removed of the others; and no key's meaning depends on another's.
 *
 *     rc = group_record_split(line, length, &key);
 *     rc = group_record_decode(&key, &defaults, &record);    // key.offset is false
 *     group_record_free(&record);
 *
 * Decoders take any bytes. Pure; any thread.
 */
#ifndef TOPICFS_GROUP_RECORD_H
#define TOPICFS_GROUP_RECORD_H

#include "replica/group_core.h"

enum {
    GROUP_RECORD_PARTITIONS_MAX = 100000, /* beyond what a topic can have */
    GROUP_RECORD_BYTES_MAX = 64 << 20,    /* of a line */
};

struct group_record_key {
    char group[GROUP_NAME_MAX + 1];
    bool offset; /* of a partition's offset; else of the group */
    struct topic_id topic_id;
    int32_t partition;
    const char *value; /* into the line */
    size_t value_length;
    bool gone; /* there is no value */
};

/* A line without its newline. 0 or -EBADMSG. */
int group_record_split(const char *line, size_t length, struct group_record_key *out);

struct group_record_run {
    int32_t first;
    int32_t count;
    int64_t generation;
};

struct group_record_member {
    char id[GROUP_MEMBER_ID_MAX + 1];
    struct broker_incarnation node;
    char topic[TOPIC_NAME_MAX + 1];
    struct topic_id topic_id;
    int64_t joined_ms;
    struct group_record_run *runs;
    size_t run_count;
};

struct group_record_topic {
    char name[TOPIC_NAME_MAX + 1];
    struct topic_id id;
    int32_t partitions;
    int64_t left_ms; /* -1: it has members */
};

struct group_record {
    int64_t generation;
    int64_t version; /* of the config; 0: nobody set it */
    struct group_config config;
    struct group_record_member *members; /* sorted by id, no two alike */
    size_t member_count;
    struct group_record_topic *topics;
    size_t topic_count;
};

struct group_record_offset {
    char topic[TOPIC_NAME_MAX + 1];
    int64_t offset;
    int64_t timestamp_ms;
    int32_t leader_epoch;
};

/* A member's id has 1 to 64 of the characters of topic names and colons. */
bool group_record_member_valid(const char *id);

/* Of a key that is not gone. `defaults`: of settings that the record does not name. 0,
 * -EBADMSG (two members with one partition, too), -ENOMEM; group_record_free() the
 * result. A member's topic is one of the topics, and its runs lie within. */
int group_record_decode(const struct group_record_key *key,
                        const struct group_config *defaults, struct group_record *out);
void group_record_free(struct group_record *record);
int group_record_decode_offset(const struct group_record_key *key,
                               struct group_record_offset *out);

/* Append a line with its newline. 0 or as buf_add(). */
int group_record_encode(const char *group, const struct group_record *record,
                        struct buf *out);
int group_record_encode_offset(const char *group, const struct topic_id *topic_id,
                               int32_t partition,
                               const struct group_record_offset *offset,
                               struct buf *out);
int group_record_encode_gone(const char *group, struct buf *out);
int group_record_encode_offset_gone(const char *group, const struct topic_id *topic_id,
                                    int32_t partition, struct buf *out);

#endif
