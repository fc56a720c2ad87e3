/* Carrying out requests: what was asked goes to the groups, what they say into the
 * answer. */
#include "replica/group_shard.h"

#include <stdlib.h>
#include <string.h>

/* One op under way. */
struct task {
    struct group_shard *shard;
    const struct group_shard_env *env;
    struct group_request *request;
    const struct group_op *op;
    struct group_env now;
    struct group_entry *entry; /* of op->group; NULL: of none */
    struct buf *records;
    bool news; /* beats: there is something to tell */
};

/* What an error of a group is: memory is fatal, the rest an answer. */
static int answer_plain(struct task *task, int error, const char *why)
{
    if (error == -ENOMEM) {
        return error;
    }
    return group_wire_add_answer(task->request->answer, error, why) ? 0 : -ENOMEM;
}

static int join(struct task *task)
{
    const struct group_op *op = task->op;
    struct group_join join = {.topic_id = op->topic_id};
    join.node.id = task->request->head.from.id;
    join.node.epoch = task->request->head.from.broker_epoch;
    memcpy(join.member, op->member, strlen(op->member) + 1);
    memcpy(join.topic, op->topic, strlen(op->topic) + 1);
    int rc = group_core_join(task->entry->core, &task->now, &join, task->records);
    return answer_plain(task, rc, NULL);
}

static int commit(struct task *task)
{
    const struct group_op *op = task->op;
    bool *refused = calloc(op->count + 1, sizeof *refused);
    if (!refused) {
        return -ENOMEM;
    }
    int rc = group_core_commit(task->entry->core, &task->now, op->member, op->commits,
                               op->count, refused, task->records);
    cJSON *answer =
        rc == -ENOMEM ? NULL : group_wire_add_answer(task->request->answer, rc, NULL);
    rc = answer ? group_wire_add_refused(answer, refused, op->count) : -ENOMEM;
    free(refused);
    return rc;
}

static uint64_t changes_of(const struct group_shard *shard,
                           const struct group_entry *entry)
{
    return shard->changes_base + group_core_changes(entry->core);
}

static int beat(struct task *task)
{
    const struct group_op *op = task->op;
    struct group_core *core = task->entry->core;
    struct group_wire_beat beat = {0};
    size_t released = task->request->heard ? 0 : op->count;
    int rc = group_core_beat(core, &task->now, op->member, op->released, released,
                             task->records, &beat.grants, &beat.count);
    if (rc) {
        task->news = true;
        return answer_plain(task, rc, NULL);
    }
    beat.changes = changes_of(task->shard, task->entry);
    beat.config = *group_core_config(core);
    task->news = task->news || beat.changes != op->seen;
    cJSON *answer = group_wire_add_answer(task->request->answer, 0, NULL);
    rc = answer ? group_wire_add_beat(answer, &beat) : -ENOMEM;
    free(beat.grants);
    return rc;
}

static int describe(struct task *task)
{
    cJSON *group = group_core_describe(task->entry->core);
    cJSON *answer = group_wire_add_answer(task->request->answer, 0, NULL);
    if (!answer || !cJSON_AddItemToObject(answer, "group", group)) {
        cJSON_Delete(group);
        return -ENOMEM;
    }
    return 0;
}

static int list(struct task *task)
{
    cJSON *answer = group_wire_add_answer(task->request->answer, 0, NULL);
    cJSON *names = cJSON_AddArrayToObject(answer, "groups");
    int rc = names ? 0 : -ENOMEM;
    for (const struct group_entry *entry = task->shard->groups; entry && !rc;
         entry = entry->hh.next) {
        cJSON *name = cJSON_CreateString(group_core_name(entry->core));
        if (group_core_is_used(entry->core) && !cJSON_AddItemToArray(names, name)) {
            rc = -ENOMEM;
        }
        if (rc || !group_core_is_used(entry->core)) {
            cJSON_Delete(name);
        }
    }
    return rc;
}

static int set_offset(struct task *task)
{
    const struct group_op *op = task->op;
    struct group_offset_set set = {.topic_id = op->topic_id,
                                   .partition = op->partition,
                                   .offset = op->offset,
                                   .leader_epoch = op->leader_epoch,
                                   .node = task->request->head.from.id};
    memcpy(set.topic, op->topic, strlen(op->topic) + 1);
    int rc = group_core_set_offset(task->entry->core, &task->now, &set, task->records);
    return answer_plain(task, rc, NULL);
}

static int configure(struct task *task)
{
    char why[512] = "";
    int rc = group_core_configure(task->entry->core, &task->now, task->op->config,
                                  task->records, why, sizeof why);
    return answer_plain(task, rc, rc ? why : NULL);
}

/* Whether it may change when the group has to be looked at by time. */
static bool moves_times(enum group_op_kind kind)
{
    return kind == GROUP_OP_JOIN || kind == GROUP_OP_LEAVE ||
           kind == GROUP_OP_SET_OFFSET || kind == GROUP_OP_CONFIGURE ||
           kind == GROUP_OP_REMOVE;
}

static int carry_out_op(struct task *task)
{
    struct group_core *core = task->entry ? task->entry->core : NULL;
    switch (task->op->kind) {
    case GROUP_OP_JOIN:
        return join(task);
    case GROUP_OP_LEAVE:
        return answer_plain(
            task, group_core_leave(core, &task->now, task->op->member, task->records),
            NULL);
    case GROUP_OP_BEAT:
        return beat(task);
    case GROUP_OP_COMMIT:
        return commit(task);
    case GROUP_OP_DESCRIBE:
        return describe(task);
    case GROUP_OP_LIST:
        return list(task);
    case GROUP_OP_SET_OFFSET:
        return set_offset(task);
    case GROUP_OP_CONFIGURE:
        return configure(task);
    case GROUP_OP_REMOVE:
        return answer_plain(task, group_core_remove(core, &task->now, task->records),
                            NULL);
    }
    return answer_plain(task, -EBADMSG, NULL);
}

static bool is_here(const struct task *task)
{
    return group_wire_shard(task->op->group, task->env->topic->partition_count) ==
           task->shard->index;
}

static int do_op(struct task *task)
{
    if (task->op->kind == GROUP_OP_LIST) {
        return list(task);
    }
    if (!is_here(task)) {
        return answer_plain(task, E_NOT_COORDINATOR, "the group is another shard's");
    }
    task->entry = group_shard_entry(task->shard, task->env, task->op->group);
    int rc = task->entry ? carry_out_op(task) : -ENOMEM;
    if (task->entry) {
        group_shard_touched(task->shard, task->entry, moves_times(task->op->kind));
        group_shard_sweep(task->shard, task->entry);
    }
    return rc;
}

/* This node's snapshot may be behind the one of the node whose user found the topic. */
static bool awaits_topic(const struct group_shard_env *env,
                         const struct group_request *request, const cJSON *item)
{
    struct group_op op;
    if (request->last || group_wire_get_kind(item) != GROUP_OP_JOIN ||
        group_wire_get_op(item, &op)) {
        return false;
    }
    bool unknown = !cluster_snapshot_topic_by_id(env->snapshot, &op.topic_id) &&
                   !cluster_snapshot_deleted(env->snapshot, &op.topic_id);
    group_wire_free_op(&op);
    return unknown;
}

static int park_beats(const struct group_shard *shard,
                      const struct group_shard_env *env, struct group_request *request)
{
    int64_t wait_ms = request->head.wait_ms < SHARD_WAIT_MAX_MS ? request->head.wait_ms
                                                                : SHARD_WAIT_MAX_MS;
    if (request->last || wait_ms == 0 || shard->parked_count >= SHARD_PARKED_MAX) {
        return 0;
    }
    cJSON_Delete(request->answer);
    request->answer = NULL;
    if (!request->heard) {
        request->heard_ms = env->now_ms;
        request->wait_until_ms = env->now_ms + wait_ms;
    }
    request->heard = true;
    request->until_ms = request->wait_until_ms;
    return SHARD_PARK;
}

/* What a request waits for before it is begun. */
static bool must_wait(const struct group_shard_env *env, struct group_request *request)
{
    const cJSON *item = NULL;
    request->awaits_topic = false;
    cJSON_ArrayForEach(item, request->head.ops)
    {
        request->awaits_topic =
            request->awaits_topic || awaits_topic(env, request, item);
    }
    return request->awaits_topic;
}

/* Only memory is fatal. */
static int do_item(struct task *task, const cJSON *item, bool *beats)
{
    struct group_op op;
    int rc = group_wire_get_op(item, &op);
    if (rc) {
        *beats = false;
        return answer_plain(task, rc, NULL);
    }
    *beats = *beats && op.kind == GROUP_OP_BEAT;
    task->op = &op;
    rc = do_op(task);
    task->op = NULL;
    group_wire_free_op(&op);
    return rc;
}

int group_shard_carry_out(struct group_shard *shard, const struct group_shard_env *env,
                          struct group_request *request, struct buf *records)
{
    struct task task = {
        .shard = shard, .env = env, .request = request, .records = records};
    const cJSON *item = request->rest;
    size_t before = records->length;
    bool beats = !request->rest;
    /* Who sent a beat that was parked may be dead by the time it is answered. */
    task.now =
        (struct group_env){.now_ms = request->heard ? request->heard_ms : env->now_ms,
                           .wall_ms = env->wall_ms,
                           .snapshot = env->snapshot};
    if (!item) {
        if (must_wait(env, request)) {
            return SHARD_PARK;
        }
        request->answer = group_wire_answer(0, NULL);
        item = request->answer ? request->head.ops->child : NULL;
    }
    request->rest = NULL;
    int rc = request->answer ? 0 : -ENOMEM;
    for (; item && !rc; item = item->next) {
        if (records->length >= SHARD_RECORDS_BYTES) {
            request->rest = item;
            return SHARD_REST;
        }
        rc = do_item(&task, item, &beats);
    }
    if (rc) {
        return -ENOMEM;
    }
    bool quiet = beats && !task.news && records->length == before;
    return quiet ? park_beats(shard, env, request) : 0;
}

bool group_shard_has_news(const struct group_shard *shard,
                          const struct group_request *request)
{
    const cJSON *item = NULL;
    bool news = false;
    cJSON_ArrayForEach(item, request->head.ops)
    {
        struct group_op op;
        struct group_entry *entry = NULL;
        if (news || group_wire_get_op(item, &op)) {
            return true;
        }
        if (op.group) {
            HASH_FIND_STR(shard->groups, op.group, entry);
        }
        news = !entry || changes_of(shard, entry) != op.seen;
        group_wire_free_op(&op);
    }
    return news;
}
