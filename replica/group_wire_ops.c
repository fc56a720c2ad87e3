/* The requests to a coordinator, and its answers. */
#include "replica/group_wire_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {
    [GROUP_OP_JOIN] = "join",
    [GROUP_OP_LEAVE] = "leave",
    [GROUP_OP_BEAT] = "beat",
    [GROUP_OP_COMMIT] = "commit",
    [GROUP_OP_DESCRIBE] = "describe",
    [GROUP_OP_LIST] = "list",
    [GROUP_OP_SET_OFFSET] = "set_offset",
    [GROUP_OP_CONFIGURE] = "configure",
    [GROUP_OP_REMOVE] = "remove",
};
enum { OP_KINDS = sizeof op_names / sizeof op_names[0] };

static const char *const commit_names[] = {
    [GROUP_COMMIT_AUTO] = "auto", [GROUP_COMMIT_MANUAL] = "manual"};
static const char *const start_names[] = {
    [GROUP_START_EARLIEST] = "earliest", [GROUP_START_LATEST] = "latest"};

static int find_name(const char *const *names, int count, const char *name)
{
    int found = -EBADMSG;
    for (int i = 0; name && i < count; i++) {
        found = strcmp(names[i], name) == 0 ? i : found;
    }
    return found;
}

/* ---- requests -----------------------------------------------------------------------
 */

cJSON *group_wire_request(const struct peer_sender *from, int32_t shard,
                          int64_t wait_ms)
{
    cJSON *object = group_wire_question(from, "ops");
    int rc = object ? json_add_i64(object, "shard", shard) : -ENOMEM;
    rc = group_wire_add_number(rc, object, "wait_ms", wait_ms);
    if (rc) {
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

cJSON *group_wire_add_op(cJSON *request, const char *op, const char *group)
{
    cJSON *item = group_wire_append(request, "ops");
    if (!item || !cJSON_AddStringToObject(item, "op", op) ||
        (group && !cJSON_AddStringToObject(item, "group", group))) {
        return NULL;
    }
    return item;
}

int group_wire_add_topic(cJSON *op, const char *topic, const struct topic_id *topic_id)
{
    return cJSON_AddStringToObject(op, "topic", topic)
               ? group_wire_add_topic_id(op, topic_id)
               : -ENOMEM;
}

int group_wire_add_commits(cJSON *op, const struct group_commit *commits, size_t count)
{
    int rc = cJSON_AddArrayToObject(op, "commits") ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && !rc; i++) {
        cJSON *item = group_wire_append(op, "commits");
        rc = item ? json_add_i64(item, "partition", commits[i].partition) : -ENOMEM;
        rc = group_wire_add_number(rc, item, "generation", commits[i].generation);
        rc = group_wire_add_number(rc, item, "offset", commits[i].offset);
        rc = group_wire_add_number(rc, item, "leader_epoch", commits[i].leader_epoch);
    }
    return rc;
}

int group_wire_add_released(cJSON *op, const struct group_released *released,
                            size_t count)
{
    int rc = cJSON_AddArrayToObject(op, "released") ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && !rc; i++) {
        cJSON *item = group_wire_append(op, "released");
        rc = item ? json_add_i64(item, "partition", released[i].partition) : -ENOMEM;
        rc = group_wire_add_number(rc, item, "generation", released[i].generation);
    }
    return rc;
}

int group_wire_get_request(const cJSON *object, struct group_wire_head *out)
{
    struct group_wire_head head = {0};
    int rc = group_wire_get_sender(object, &head.from);
    if (!rc) {
        rc = group_wire_get_i32(object, "shard", &head.shard);
    }
    if (!rc && cJSON_GetObjectItemCaseSensitive(object, "wait_ms")) {
        rc = group_wire_get_i64(object, "wait_ms", &head.wait_ms);
    }
    if (!rc) {
        rc = group_wire_get_array(object, "ops", &head.ops, &head.count);
    }
    if (rc || head.wait_ms < 0) {
        return -EBADMSG;
    }
    *out = head;
    return 0;
}

static int get_member(const cJSON *object, struct group_op *op)
{
    op->member = group_wire_get_text(object, "member");
    return op->member && *op->member && strlen(op->member) <= GROUP_MEMBER_ID_MAX
               ? 0
               : -EBADMSG;
}

static int get_topic(const cJSON *object, struct group_op *op)
{
    op->topic = group_wire_get_text(object, "topic");
    return op->topic && !topic_name_check(op->topic)
               ? group_wire_get_topic_id(object, &op->topic_id)
               : -EBADMSG;
}

static int get_released(const cJSON *object, struct group_op *op)
{
    const cJSON *array = NULL;
    const cJSON *item = NULL;
    size_t i = 0;
    if (group_wire_get_u64(object, "seen", &op->seen)) {
        return -EBADMSG;
    }
    if (!cJSON_GetObjectItemCaseSensitive(object, "released")) {
        return 0;
    }
    int rc = group_wire_get_array(object, "released", &array, &op->count);
    if (!rc) {
        op->released = calloc(op->count + 1, sizeof *op->released);
        rc = op->released ? 0 : -ENOMEM;
    }
    cJSON_ArrayForEach(item, array)
    {
        struct group_released *released = rc ? NULL : &op->released[i++];
        if (rc || group_wire_get_i32(item, "partition", &released->partition) ||
            group_wire_get_i64(item, "generation", &released->generation)) {
            rc = rc ? rc : -EBADMSG;
        }
    }
    return rc;
}

static int get_commit(const cJSON *item, struct group_commit *commit)
{
    if (group_wire_get_i32(item, "partition", &commit->partition) ||
        group_wire_get_i64(item, "generation", &commit->generation) ||
        group_wire_get_i64(item, "offset", &commit->offset) ||
        group_wire_get_i32(item, "leader_epoch", &commit->leader_epoch)) {
        return -EBADMSG;
    }
    return commit->partition < 0 || commit->offset < 0 ? -EBADMSG : 0;
}

static int get_commits(const cJSON *object, struct group_op *op)
{
    const cJSON *array = NULL;
    const cJSON *item = NULL;
    size_t i = 0;
    int rc = group_wire_get_array(object, "commits", &array, &op->count);
    if (!rc) {
        op->commits = calloc(op->count + 1, sizeof *op->commits);
        rc = op->commits ? 0 : -ENOMEM;
    }
    cJSON_ArrayForEach(item, array)
    {
        if (!rc) {
            rc = get_commit(item, &op->commits[i++]);
        }
    }
    return rc;
}

static int get_offset(const cJSON *object, struct group_op *op)
{
    int rc = get_topic(object, op);
    if (rc || group_wire_get_i32(object, "partition", &op->partition) ||
        group_wire_get_i64(object, "offset", &op->offset) ||
        group_wire_get_i32(object, "leader_epoch", &op->leader_epoch)) {
        return -EBADMSG;
    }
    return op->partition < 0 || op->offset < -1 ? -EBADMSG : 0;
}

static int get_parts(const cJSON *object, struct group_op *op)
{
    int rc = 0;
    switch (op->kind) {
    case GROUP_OP_JOIN:
        rc = get_member(object, op);
        return rc ? rc : get_topic(object, op);
    case GROUP_OP_LEAVE:
        return get_member(object, op);
    case GROUP_OP_BEAT:
        rc = get_member(object, op);
        return rc ? rc : get_released(object, op);
    case GROUP_OP_COMMIT:
        rc = get_member(object, op);
        return rc ? rc : get_commits(object, op);
    case GROUP_OP_SET_OFFSET:
        return get_offset(object, op);
    case GROUP_OP_CONFIGURE:
        op->config = cJSON_GetObjectItemCaseSensitive(object, "config");
        return cJSON_IsObject(op->config) ? 0 : -EBADMSG;
    case GROUP_OP_DESCRIBE:
    case GROUP_OP_LIST:
    case GROUP_OP_REMOVE:
        return 0;
    }
    return -EBADMSG;
}

int group_wire_get_kind(const cJSON *object)
{
    return find_name(op_names, OP_KINDS, group_wire_get_text(object, "op"));
}

int group_wire_get_op(const cJSON *object, struct group_op *out)
{
    int kind = group_wire_get_kind(object);
    struct group_op op = {.group = group_wire_get_text(object, "group")};
    if (kind < 0) {
        return kind;
    }
    op.kind = (enum group_op_kind)kind;
    if (op.group ? topic_name_check(op.group) : op.kind != GROUP_OP_LIST) {
        return -EBADMSG;
    }
    int rc = get_parts(object, &op);
    if (rc) {
        group_wire_free_op(&op);
        return rc;
    }
    *out = op;
    return 0;
}

void group_wire_free_op(struct group_op *op)
{
    free(op->commits);
    free(op->released);
    op->commits = NULL;
    op->released = NULL;
}

/* ---- answers ------------------------------------------------------------------------
 */

cJSON *group_wire_answer(int error, const char *why)
{
    return group_wire_reply(error, why, "answers");
}

cJSON *group_wire_add_answer(cJSON *answer, int error, const char *why)
{
    cJSON *item = group_wire_append(answer, "answers");
    int rc = item ? json_add_i64(item, "error", error) : -ENOMEM;
    if (!rc && why && *why && !cJSON_AddStringToObject(item, "why", why)) {
        rc = -ENOMEM;
    }
    return rc ? NULL : item;
}

int group_wire_add_refused(cJSON *answer, const bool *refused, size_t count)
{
    cJSON *array = cJSON_AddArrayToObject(answer, "refused");
    int rc = array ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && !rc; i++) {
        cJSON *item = cJSON_CreateBool(refused[i]);
        if (!cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(item);
            rc = -ENOMEM;
        }
    }
    return rc;
}

int group_wire_get_refused(const cJSON *answer, bool *refused, size_t count)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(answer, "refused");
    const cJSON *item = NULL;
    size_t n = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsBool(item) || n == count) {
            return -EBADMSG;
        }
        refused[n++] = cJSON_IsTrue(item);
    }
    return cJSON_IsArray(array) && n == count ? 0 : -EBADMSG;
}

static int add_grants(cJSON *answer, const struct group_grant *grants, size_t count)
{
    int rc = cJSON_AddArrayToObject(answer, "grants") ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && !rc; i++) {
        cJSON *item = group_wire_append(answer, "grants");
        rc = item ? json_add_i64(item, "partition", grants[i].partition) : -ENOMEM;
        rc = group_wire_add_number(rc, item, "generation", grants[i].generation);
        if (!rc && !cJSON_AddBoolToObject(item, "give_up", grants[i].give_up)) {
            rc = -ENOMEM;
        }
        rc = group_wire_add_number(rc, item, "committed", grants[i].committed);
        rc = group_wire_add_number(rc, item, "leader_epoch", grants[i].leader_epoch);
    }
    return rc;
}

int group_wire_add_beat(cJSON *answer, const struct group_wire_beat *beat)
{
    const struct group_config *config = &beat->config;
    int rc = json_add_i64(answer, "changes", (int64_t)beat->changes);
    if (!rc &&
        (!cJSON_AddStringToObject(answer, "commit", commit_names[config->commit]) ||
         !cJSON_AddStringToObject(answer, "start", start_names[config->start]))) {
        rc = -ENOMEM;
    }
    rc = group_wire_add_number(rc, answer, "session_timeout_ms",
                               config->group_session_timeout_ms);
    rc = group_wire_add_number(rc, answer, "max_poll_interval_ms",
                               config->max_poll_interval_ms);
    return rc ? rc : add_grants(answer, beat->grants, beat->count);
}

static int get_grant(const cJSON *item, struct group_grant *grant)
{
    if (group_wire_get_i32(item, "partition", &grant->partition) ||
        group_wire_get_i64(item, "generation", &grant->generation) ||
        group_wire_get_bool(item, "give_up", &grant->give_up) ||
        group_wire_get_i64(item, "committed", &grant->committed) ||
        group_wire_get_i32(item, "leader_epoch", &grant->leader_epoch)) {
        return -EBADMSG;
    }
    return grant->partition < 0 ? -EBADMSG : 0;
}

static int get_config(const cJSON *answer, struct group_config *config)
{
    int commit = find_name(commit_names, sizeof commit_names / sizeof commit_names[0],
                           group_wire_get_text(answer, "commit"));
    int start = find_name(start_names, sizeof start_names / sizeof start_names[0],
                          group_wire_get_text(answer, "start"));
    if (commit < 0 || start < 0 ||
        group_wire_get_i64(answer, "session_timeout_ms",
                           &config->group_session_timeout_ms) ||
        group_wire_get_i64(answer, "max_poll_interval_ms",
                           &config->max_poll_interval_ms)) {
        return -EBADMSG;
    }
    config->commit = commit;
    config->start = start;
    return 0;
}

int group_wire_get_beat(const cJSON *answer, struct group_wire_beat *out)
{
    struct group_wire_beat beat = {0};
    const cJSON *array = NULL;
    const cJSON *item = NULL;
    size_t i = 0;
    int rc = get_config(answer, &beat.config);
    if (rc || group_wire_get_u64(answer, "changes", &beat.changes) ||
        group_wire_get_array(answer, "grants", &array, &beat.count)) {
        return -EBADMSG;
    }
    beat.grants = calloc(beat.count + 1, sizeof *beat.grants);
    rc = beat.grants ? 0 : -ENOMEM;
    cJSON_ArrayForEach(item, array)
    {
        if (!rc) {
            rc = get_grant(item, &beat.grants[i++]);
        }
    }
    if (rc) {
        free(beat.grants);
        return rc;
    }
    *out = beat;
    return 0;
}
