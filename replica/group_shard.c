#include "replica/group_shard.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { RECORDS_MAX = 64 << 20 };

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- requests -----------------------------------------------------------------------
 */

struct group_request *group_request_new(cJSON *object, struct coordinator_call *call)
{
    struct group_request *request = calloc(1, sizeof *request);
    if (!request) {
        cJSON_Delete(object);
        return NULL;
    }
    request->object = object;
    request->call = call;
    return request;
}

void group_request_answer(struct group_request *request, cJSON *answer)
{
    struct coordinator_call *call = request->call;
    cJSON_Delete(request->object);
    cJSON_Delete(request->answer);
    free(request);
    call->done(call, answer);
}

void group_request_refuse(struct group_request *request, int error, const char *why)
{
    group_request_answer(request, group_wire_answer(error, why));
}

static void refuse_all(struct group_request **list, const char *why)
{
    struct group_request *request;
    struct group_request *next;
    DL_FOREACH_SAFE(*list, request, next)
    {
        DL_DELETE(*list, request);
        group_request_refuse(request, E_NOT_COORDINATOR, why);
    }
}

/* ---- groups -------------------------------------------------------------------------
 */

struct group_entry *group_shard_entry(struct group_shard *shard,
                                      const struct group_shard_env *env,
                                      const char *name)
{
    struct group_entry *entry = NULL;
    HASH_FIND_STR(shard->groups, name, entry);
    if (entry) {
        return entry;
    }
    entry = calloc(1, sizeof *entry);
    if (entry) {
        entry->core = group_core_new(name, env->defaults);
    }
    if (!entry || !entry->core) {
        free(entry);
        return NULL;
    }
    entry->next_ms = INT64_MAX;
    const char *key = group_core_name(entry->core);
    HASH_ADD_KEYPTR(hh, shard->groups, key, strlen(key), entry);
    return entry;
}

static void forget(struct group_shard *shard, struct group_entry *entry)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): HASH_ITER keeps the next one */
    HASH_DEL(shard->groups, entry);
    group_core_free(entry->core);
    free(entry);
}

void group_shard_forget_all(struct group_shard *shard)
{
    struct group_entry *entry;
    struct group_entry *next;
    HASH_ITER(hh, shard->groups, entry, next)
    {
        forget(shard, entry);
    }
}

void group_shard_sweep(struct group_shard *shard, struct group_entry *entry)
{
    if (!group_core_is_used(entry->core)) {
        forget(shard, entry);
    }
}

void group_shard_touched(struct group_shard *shard, struct group_entry *entry,
                         bool tick)
{
    uint64_t changes = group_core_changes(entry->core);
    if (changes != entry->noticed) {
        entry->noticed = changes;
        shard->changed = true;
    }
    if (tick) {
        entry->next_ms = 0;
        shard->next_tick_ms = 0;
    }
}

void group_shard_news(struct group_shard *shard)
{
    struct group_entry *entry;
    struct group_request *request;
    for (entry = shard->groups; entry; entry = entry->hh.next) {
        entry->next_ms = 0;
    }
    shard->next_tick_ms = 0;
    shard->retry_ms = 0;
    shard->waits_ms = -1;
    DL_FOREACH(shard->parked, request)
    {
        shard->changed = shard->changed || request->awaits_topic;
    }
}

int group_shard_describe(const struct group_shard *shard, cJSON *array)
{
    const struct group_entry *entry;
    for (entry = shard->groups; entry; entry = entry->hh.next) {
        cJSON *item = group_core_describe(entry->core);
        if (!cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(item);
            return -ENOMEM;
        }
    }
    return 0;
}

/* ---- life ---------------------------------------------------------------------------
 */

static void append_done(struct produce_waiter *waiter,
                        const struct produce_result *result)
{
    struct group_append *append = (struct group_append *)waiter;
    append->ended(append, result);
}

void group_shard_init(struct group_shard *shard, int32_t index,
                      group_append_ended_fn *ended, void *arg)
{
    *shard = (struct group_shard){.index = index,
                                  .next_tick_ms = INT64_MAX,
                                  .parked_until_ms = INT64_MAX,
                                  .waits_ms = -1};
    shard->append.waiter.done = append_done;
    shard->append.ended = ended;
    shard->append.arg = arg;
    buf_init(&shard->load.line, RECORDS_MAX);
}

void group_shard_drop(struct group_shard *shard, int64_t now_ms, bool pause,
                      const char *why)
{
    struct produce_result unused;
    if (shard->in_flight &&
        partition_produce_cancel(shard->partition, &shard->append.waiter, &unused)) {
        shard->in_flight = false;
    }
    group_shard_load_end(shard);
    group_shard_forget_all(shard);
    shard->state = SHARD_IDLE;
    shard->changed = false;
    shard->next_tick_ms = INT64_MAX;
    shard->pause_ms = pause ? 2 * shard->pause_ms : 0;
    if (pause && shard->pause_ms < SHARD_PAUSE_MS) {
        shard->pause_ms = SHARD_PAUSE_MS;
    } else if (shard->pause_ms > SHARD_PAUSE_MAX_MS) {
        shard->pause_ms = SHARD_PAUSE_MAX_MS;
    }
    shard->retry_ms = now_ms + shard->pause_ms;
    refuse_all(&shard->held, why);
    refuse_all(&shard->queue, why);
    refuse_all(&shard->parked, why);
    shard->queued_ops = 0;
    shard->parked_count = 0;
    shard->parked_until_ms = INT64_MAX;
}

bool group_shard_is_quiet(const struct group_shard *shard)
{
    return !shard->in_flight;
}

void group_shard_end(struct group_shard *shard)
{
    partition_unref(shard->partition);
    shard->partition = NULL;
}

/* By the snapshot, this node leads the partition, or is about to. */
static bool is_ours(const struct group_shard *shard, const struct group_shard_env *env)
{
    return env->topic && shard->index < env->topic->partition_count &&
           env->topic->partitions[shard->index].leader == env->snapshot->self;
}

/* When to look again at a partition that is waited for. */
static int64_t next_look(const struct group_shard *shard,
                         const struct group_shard_env *env)
{
    int64_t waited_ms = shard->waits_ms < 0 ? 0 : env->now_ms - shard->waits_ms;
    int64_t pause_ms = waited_ms / SHARD_POLL_PARTS;
    pause_ms = pause_ms < SHARD_POLL_MS ? SHARD_POLL_MS : pause_ms;
    return env->now_ms + earlier(pause_ms, SHARD_POLL_MAX_MS);
}

static void begin(struct group_shard *shard, const struct group_shard_env *env)
{
    partition_unref(shard->partition);
    shard->partition = NULL;
    shard->retry_ms = next_look(shard, env);
    if (!is_ours(shard, env)) {
        return;
    }
    shard->partition = broker_partition(env->broker, &env->topic->id, shard->index);
    /* A snapshot from before this leadership may lack topics of which the log has
     * offsets: they would be taken for deleted. */
    if (shard->partition && partition_lead_get(shard->partition, &shard->lead) &&
        shard->lead.leader_epoch <= env->topic->partitions[shard->index].leader_epoch) {
        group_shard_load_begin(shard);
    }
}

static void follow_leadership(struct group_shard *shard,
                              const struct group_shard_env *env)
{
    if (shard->state != SHARD_IDLE &&
        (!partition_lead_get(shard->partition, &shard->lead) ||
         shard->lead.leader_epoch != shard->leader_epoch)) {
        group_shard_drop(shard, env->now_ms, false, "the leadership ended");
    }
    if (shard->state == SHARD_IDLE && !shard->in_flight &&
        env->now_ms >= shard->retry_ms) {
        begin(shard, env);
    }
}

static void load(struct group_shard *shard, const struct group_shard_env *env)
{
    int rc = group_shard_load(shard, env);
    if (rc < 0) {
        diag(DIAG_WARNING, "%s-%d can't be read: %s", GROUPS_TOPIC, shard->index,
             err_text(rc));
        group_shard_drop(shard, env->now_ms, true, "the groups can't be read");
    }
    shard->load.waits = rc == SHARD_LOAD_WAIT;
}

/* ---- runs ---------------------------------------------------------------------------
 */

static void deliver(struct group_shard *shard)
{
    struct group_request *request;
    struct group_request *next;
    DL_FOREACH_SAFE(shard->held, request, next)
    {
        cJSON *answer = request->answer;
        request->answer = NULL;
        DL_DELETE(shard->held, request);
        group_request_answer(request, answer);
    }
}

static void end_append(struct group_shard *shard, const struct group_shard_env *env,
                       const struct produce_result *result)
{
    shard->in_flight = false;
    if (shard->state != SHARD_READY) {
        return;
    }
    if (result->error) {
        group_shard_drop(shard, env->now_ms, true, err_text(result->error));
    } else {
        shard->pause_ms = 0;
        deliver(shard);
    }
}

static uint32_t count_lines(const struct buf *records)
{
    uint32_t count = 0;
    for (size_t i = 0; i < records->length; i++) {
        count += records->data[i] == '\n';
    }
    return count;
}

static void append(struct group_shard *shard, const struct group_shard_env *env,
                   const struct buf *records)
{
    struct produce_result result;
    shard->in_flight = true;
    shard->in_flight_until_ms = env->now_ms + SHARD_COMMIT_MS;
    int rc = partition_lead_produce(
        shard->partition, shard->leader_epoch, records->data, records->length,
        count_lines(records), &shard->append.waiter, &result);
    if (rc != PRODUCE_PENDING) {
        end_append(shard, env, &result);
    }
}

static int tick(struct group_shard *shard, const struct group_shard_env *env,
                struct buf *records)
{
    const struct group_env now = {
        .now_ms = env->now_ms, .wall_ms = env->wall_ms, .snapshot = env->snapshot};
    struct group_entry *entry;
    struct group_entry *next;
    int64_t next_ms = INT64_MAX;
    if (env->now_ms < shard->next_tick_ms) {
        return 0;
    }
    HASH_ITER(hh, shard->groups, entry, next)
    {
        if (entry->next_ms <= env->now_ms && records->length < SHARD_RECORDS_BYTES) {
            int rc = group_core_tick(entry->core, &now, records, &entry->next_ms);
            if (rc) {
                return rc;
            }
            group_shard_touched(shard, entry, false);
        }
        next_ms = entry->next_ms < next_ms ? entry->next_ms : next_ms;
        group_shard_sweep(shard, entry);
    }
    shard->next_tick_ms = next_ms;
    return 0;
}

static void park(struct group_shard *shard, struct group_request *request)
{
    DL_APPEND(shard->parked, request);
    shard->parked_count++;
    shard->parked_until_ms = earlier(shard->parked_until_ms, request->until_ms);
}

static int carry_out_queue(struct group_shard *shard, const struct group_shard_env *env,
                           struct buf *records)
{
    while (shard->queue && records->length < SHARD_RECORDS_BYTES) {
        struct group_request *request = shard->queue;
        int rc = group_shard_carry_out(shard, env, request, records);
        if (rc < 0 || rc == SHARD_REST) {
            return rc < 0 ? rc : 0;
        }
        DL_DELETE(shard->queue, request);
        shard->queued_ops -= request->head.count;
        if (rc == SHARD_PARK) {
            park(shard, request);
        } else {
            DL_APPEND(shard->held, request);
        }
    }
    return 0;
}

static void run(struct group_shard *shard, const struct group_shard_env *env)
{
    struct buf records;
    buf_init(&records, RECORDS_MAX);
    int rc = carry_out_queue(shard, env, &records);
    rc = rc ? rc : tick(shard, env, &records);
    if (shard->held && records.length == 0 && !shard->lead.certain) {
        rc = rc ? rc : buf_adds(&records, SHARD_CONFIRM_KEY "\t1\n");
    }
    rc = rc ? rc : buf_error(&records);
    if (rc) {
        diag(DIAG_WARNING, "%s-%d: %s", GROUPS_TOPIC, shard->index, err_text(rc));
        group_shard_drop(shard, env->now_ms, true, err_text(rc));
    } else if (records.length > 0) {
        append(shard, env, &records);
    } else {
        deliver(shard);
    }
    buf_free(&records);
}

/* ---- time ---------------------------------------------------------------------------
 */

static void to_queue(struct group_shard *shard, struct group_request *request)
{
    DL_APPEND(shard->queue, request);
    shard->queued_ops += request->head.count;
}

/* What is parked and has news, or has waited for long enough. */
static void unpark(struct group_shard *shard, const struct group_shard_env *env)
{
    struct group_request *request;
    struct group_request *next;
    if (!shard->changed && env->now_ms < shard->parked_until_ms) {
        return;
    }
    shard->parked_until_ms = INT64_MAX;
    DL_FOREACH_SAFE(shard->parked, request, next)
    {
        bool over = env->now_ms >= request->until_ms;
        if (!over && !(shard->changed && (request->awaits_topic ||
                                          group_shard_has_news(shard, request)))) {
            shard->parked_until_ms = earlier(shard->parked_until_ms, request->until_ms);
            continue;
        }
        DL_DELETE(shard->parked, request);
        shard->parked_count--;
        request->last = over;
        if (over || !request->awaits_topic) {
            request->until_ms = env->now_ms + SHARD_PATIENCE_MS;
        }
        to_queue(shard, request);
    }
    shard->changed = false;
}

static void expire_queue(struct group_shard *shard, const struct group_shard_env *env)
{
    struct group_request *request;
    struct group_request *next;
    DL_FOREACH_SAFE(shard->queue, request, next)
    {
        if (env->now_ms < request->until_ms) {
            break; /* the oldest is first */
        }
        DL_DELETE(shard->queue, request);
        shard->queued_ops -= request->head.count;
        group_request_refuse(request, E_NOT_COORDINATOR,
                             "the groups could not be read or changed in time");
    }
}

/* Whether there is nothing to do until the partition is another. */
static bool awaits_partition(const struct group_shard *shard,
                             const struct group_shard_env *env)
{
    switch (shard->state) {
    case SHARD_IDLE:
        return !shard->in_flight && is_ours(shard, env);
    case SHARD_LOADING:
        return shard->load.waits;
    case SHARD_READY:
        break;
    }
    return !shard->in_flight && !shard->lead.writable;
}

static int64_t next_step(const struct group_shard *shard,
                         const struct group_shard_env *env)
{
    int64_t next = shard->in_flight ? shard->in_flight_until_ms : INT64_MAX;
    bool runs = shard->state == SHARD_READY && !shard->in_flight;
    next = shard->queue ? earlier(next, shard->queue->until_ms) : next;
    next = runs ? earlier(next, shard->parked_until_ms) : next;
    if (awaits_partition(shard, env)) {
        int64_t look_ms =
            shard->state == SHARD_IDLE ? shard->retry_ms : next_look(shard, env);
        return earlier(next, look_ms);
    }
    if (shard->state == SHARD_LOADING || (runs && (shard->queue || shard->changed))) {
        return env->now_ms;
    }
    return runs ? earlier(next, shard->next_tick_ms) : next;
}

void group_shard_submit(struct group_shard *shard, const struct group_shard_env *env,
                        struct group_request *request)
{
    const char *why = NULL;
    if (shard->state == SHARD_IDLE && !is_ours(shard, env)) {
        why = "this node does not lead the groups' partition";
    } else if (shard->queued_ops + request->head.count > SHARD_OPS_MAX) {
        why = "too many requests wait";
    }
    if (why) {
        group_request_refuse(request, E_NOT_COORDINATOR, why);
        return;
    }
    request->until_ms = env->now_ms + SHARD_PATIENCE_MS;
    to_queue(shard, request);
}

int64_t group_shard_step(struct group_shard *shard, const struct group_shard_env *env,
                         const struct produce_result *done)
{
    if (done) {
        end_append(shard, env, done);
    }
    if (shard->in_flight && env->now_ms >= shard->in_flight_until_ms) {
        group_shard_drop(shard, env->now_ms, true, "not committed in time");
        shard->in_flight_until_ms = INT64_MAX; /* ended() is on its way */
    }
    follow_leadership(shard, env);
    if (shard->state == SHARD_LOADING) {
        load(shard, env);
    }
    bool idle = shard->state == SHARD_IDLE && !is_ours(shard, env);
    if (idle && shard->queue) {
        refuse_all(&shard->queue, "the leadership ended");
        shard->queued_ops = 0;
    }
    if (shard->state == SHARD_READY && !shard->in_flight) {
        unpark(shard, env);
        if (shard->lead.writable) {
            run(shard, env);
        }
    }
    expire_queue(shard, env);
    if (!awaits_partition(shard, env)) {
        shard->waits_ms = -1;
    } else if (shard->waits_ms < 0) {
        shard->waits_ms = env->now_ms;
    }
    return next_step(shard, env);
}
