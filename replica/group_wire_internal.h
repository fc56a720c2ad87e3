/* What group_wire*.c share: reading and writing the parts of JSON objects. Those that
 * read answer -EBADMSG where the key is absent or of another type. */
#ifndef TOPICFS_GROUP_WIRE_INTERNAL_H
#define TOPICFS_GROUP_WIRE_INTERNAL_H

#include "replica/group_wire.h"

int group_wire_get_i32(const cJSON *object, const char *key, int32_t *out);
int group_wire_get_i64(const cJSON *object, const char *key, int64_t *out);
int group_wire_get_u64(const cJSON *object, const char *key, uint64_t *out);
int group_wire_get_bool(const cJSON *object, const char *key, bool *out);
const char *group_wire_get_text(const cJSON *object, const char *key); /* or NULL */
/* An array of objects alone. */
int group_wire_get_array(const cJSON *object, const char *key, const cJSON **out,
                         size_t *count);
int group_wire_get_topic_id(const cJSON *object, struct topic_id *out);
int group_wire_get_sender(const cJSON *object, struct peer_sender *out);

int group_wire_add_topic_id(cJSON *object, const struct topic_id *id);
/* `rc` if it is not 0, so that calls can stand in a row. */
int group_wire_add_number(int rc, cJSON *object, const char *key, int64_t value);
/* A new object at the end of the array; borrowed from it. */
cJSON *group_wire_append(cJSON *object, const char *array);
/* The frames of requests and of answers, with one empty array. */
cJSON *group_wire_question(const struct peer_sender *from, const char *array);
cJSON *group_wire_reply(int error, const char *why, const char *array);

#endif
