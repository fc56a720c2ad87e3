#include "coord/admin_work.h"

#include "coord/err.h"
#include "coord/json.h"
#include "coord/sorted.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct task_key {
    const char *topic;
    int32_t partition;
};

static int compare_task(const void *item, const void *wanted)
{
    const struct admin_task *task = item;
    const struct task_key *key = wanted;
    int names = strcmp(task->topic->topic.name, key->topic);

    return names ? names
                 : (task->partition > key->partition) -
                       (task->partition < key->partition);
}

/* Where the task is, or belongs. */
static size_t place_of(const struct admin_work *work,
                       const struct snapshot_topic *topic, int32_t partition,
                       bool *found)
{
    const struct task_key key = {topic->topic.name, partition};

    return sorted_place(work->tasks, work->count, sizeof(*work->tasks), &key,
                        compare_task, found);
}

const struct admin_task *admin_work_find(const struct admin_work *work,
                                         const struct snapshot_topic *topic,
                                         int32_t partition)
{
    bool found;
    size_t at = place_of(work, topic, partition, &found);

    return found ? &work->tasks[at] : NULL;
}

int admin_work_put(struct admin_work *work, const struct admin_task *task)
{
    bool found;
    size_t at = place_of(work, task->topic, task->partition, &found);
    struct admin_task *grown;

    if (found) {
        struct admin_task *old = &work->tasks[at];
        /* One that is done is no place to go back to. */
        struct replica_ids original =
            old->state == ADMIN_TASK_RUNS ? old->original : task->original;

        *old = *task;
        old->original = original;
        return 0;
    }
    grown = reallocarray(work->tasks, work->count + 1, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    work->tasks = grown;
    memmove(&grown[at + 1], &grown[at], (work->count - at) * sizeof(*grown));
    grown[at] = *task;
    work->count++;
    return 0;
}

static bool read_ids(const cJSON *array, struct replica_ids *out)
{
    const cJSON *item;

    out->count = 0;
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > LEADERSHIP_REPLICAS_MAX)
        return false;
    cJSON_ArrayForEach(item, array)
    {
        int64_t id;

        if (json_i64(item, &id) != 0 || id < 0 || id > INT32_MAX)
            return false;
        replica_ids_add(out, (int32_t)id);
    }
    return out->count > 0;
}

static bool assignment_is(const struct admin_task *task)
{
    const struct partition_info *info = &task->topic->topic.partitions[task->partition];

    return info->replica_count == task->target.count &&
           memcmp(info->replicas, task->target.ids,
                  task->target.count * sizeof(int32_t)) == 0;
}

static enum admin_task_state judge(const struct admin_task *task,
                                   enum admin_operation operation,
                                   const struct snapshot *snapshot)
{
    const struct partition_info *info = &task->topic->topic.partitions[task->partition];
    const struct broker_info *preferred;

    if (operation == ADMIN_REASSIGN)
        return assignment_is(task) ? ADMIN_TASK_DONE : ADMIN_TASK_RUNS;
    if (info->leader == info->replicas[0])
        return ADMIN_TASK_DONE;
    preferred = cluster_snapshot_broker(&snapshot->shown, info->replicas[0]);
    return preferred && !preferred->stopping &&
                   replica_ids_list(info->isr, info->isr_count, preferred->id)
               ? ADMIN_TASK_RUNS
               : ADMIN_TASK_FAILED;
}

/* False: it names nothing that is there. */
static bool read_task(const cJSON *item, enum admin_operation operation,
                      const struct snapshot *snapshot, struct admin_task *out)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "topic");
    int64_t partition;

    *out = (struct admin_task){0};
    if (!cJSON_IsString(name) || json_get_i64(item, "partition", &partition) != 0)
        return false;
    out->topic = snapshot_topic_get(snapshot, name->valuestring);
    if (!out->topic || partition < 0 || partition >= out->topic->topic.partition_count)
        return false;
    out->partition = (int32_t)partition;
    if (operation == ADMIN_REASSIGN) {
        if (!read_ids(cJSON_GetObjectItemCaseSensitive(item, "replicas"), &out->target))
            return false;
        (void)read_ids(cJSON_GetObjectItemCaseSensitive(item, "original"),
                       &out->original);
    }
    out->state = judge(out, operation, snapshot);
    return true;
}

int admin_work_read(struct admin_work *work, enum admin_operation operation,
                    const struct snapshot *snapshot)
{
    const char *text = snapshot->running[operation];
    const cJSON *item;
    cJSON *json = NULL;
    int rc;

    *work = (struct admin_work){0};
    if (!text)
        return 0;
    rc = json_parse(text, strlen(text), &json);
    if (rc != 0)
        return rc == -ENOMEM ? rc : 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "partitions"))
    {
        struct admin_task task;

        if (rc == 0 && read_task(item, operation, snapshot, &task))
            rc = admin_work_put(work, &task);
    }
    cJSON_Delete(json);
    if (rc != 0)
        admin_work_free(work);
    return rc;
}

void admin_work_free(struct admin_work *work)
{
    free(work->tasks);
    *work = (struct admin_work){0};
}

static void encode_ids(struct buf *out, const char *key, const struct replica_ids *ids)
{
    buf_printf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < ids->count; i++)
        buf_printf(out, "%s%" PRId32, i ? "," : "", ids->ids[i]);
    buf_adds(out, "]");
}

int admin_work_encode(const struct admin_work *work, enum admin_operation operation,
                      struct buf *out)
{
    bool first = true;

    buf_adds(out, "{\"version\":1,\"partitions\":[");
    for (size_t i = 0; i < work->count; i++) {
        const struct admin_task *task = &work->tasks[i];

        if (task->state != ADMIN_TASK_RUNS)
            continue;
        buf_printf(out, "%s{\"topic\":\"%s\",\"partition\":%" PRId32, first ? "" : ",",
                   task->topic->topic.name, task->partition);
        first = false;
        if (operation == ADMIN_REASSIGN) {
            encode_ids(out, "replicas", &task->target);
            encode_ids(out, "original", &task->original);
        }
        buf_adds(out, "}");
    }
    return buf_adds(out, "]}");
}
