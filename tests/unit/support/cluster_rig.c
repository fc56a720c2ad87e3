#include "cluster_rig.h"

#include "coord/coord.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { PATIENCE_MS = 15000, PAUSE_MS = 2 };

int rig_try_start(struct cluster_rig *rig, int id, const char *instance)
{
    struct rig_node *node = &rig->nodes[id];
    struct cluster_params params = {
        .config = &node->config,
        .clock = shared_backend_clock(rig->backend),
        .started = node->started,
        .join_later = node->join_later,
    };
    char own[32];

    snprintf(own, sizeof(own), "instance-%d", id);
    params.instance = instance ? instance : own;
    if (!node->problems)
        node->problems = problems_new(params.clock);
    assert_non_null(node->problems);
    params.problems = node->problems;
    node->store = shared_store_open(rig->backend);
    rig->why[0] = '\0';
    return cluster_open_shared(&params, node->store, &node->cluster, rig->why,
                               sizeof(rig->why));
}

void rig_start(struct cluster_rig *rig, int id)
{
    int rc = rig_try_start(rig, id, NULL);

    if (rc != 0)
        fail_msg("node %d: %s (%s)", id, err_name(rc), rig->why);
}

static void drop(struct rig_node *node)
{
    problems_free(node->problems);
    node->problems = NULL;
    node->cluster = NULL;
}

void rig_stop(struct cluster_rig *rig, int id)
{
    cluster_close(rig->nodes[id].cluster);
    drop(&rig->nodes[id]);
}

void rig_kill(struct cluster_rig *rig, int id)
{
    shared_store_cut(rig->nodes[id].store, true);
    rig_stop(rig, id);
}

void rig_open(struct cluster_rig *rig, int count)
{
    memset(rig, 0, sizeof(*rig));
    rig->backend = shared_backend_new();
    for (int id = 1; id <= RIG_NODES_MAX; id++) {
        assert_int_equal(mount_config_defaults(&rig->nodes[id].config), 0);
        rig->nodes[id].config.node = id;
    }
    for (int id = 1; id <= count; id++)
        rig_start(rig, id);
    for (int id = 1; id <= count; id++) {
        int32_t last = count;

        rig_until(rig, id, rig_has_broker, &last);
    }
}

void rig_close(struct cluster_rig *rig)
{
    for (int id = 1; id <= RIG_NODES_MAX; id++) {
        if (rig->nodes[id].cluster)
            rig_kill(rig, id); /* what a stop does is tested by itself */
        problems_free(rig->nodes[id].problems);
        mount_config_free(&rig->nodes[id].config);
    }
    shared_backend_free(rig->backend);
}

static int set_up(void **state, int count)
{
    struct cluster_rig *rig = calloc(1, sizeof(*rig));

    if (!rig)
        return -1;
    rig_open(rig, count);
    *state = rig;
    return 0;
}

int rig_setup(void **state)
{
    return set_up(state, 3);
}

int rig_setup_empty(void **state)
{
    return set_up(state, 0);
}

int rig_teardown(void **state)
{
    rig_close(*state);
    free(*state);
    return 0;
}

static cJSON *parse(const char *text)
{
    cJSON *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json), 0);
    return json;
}

int rig_create(struct cluster_rig *rig, int id, const char *topic, const char *settings)
{
    cJSON *json = settings ? parse(settings) : NULL;
    int rc = cluster_create_topic(rig->nodes[id].cluster, topic, json, 0, 0, 0755,
                                  rig->why, sizeof(rig->why));

    cJSON_Delete(json);
    return rc;
}

int rig_admin(struct cluster_rig *rig, int id, const char *operation,
              const char *request)
{
    cJSON *json = parse(request);
    int rc = cluster_admin(rig->nodes[id].cluster, operation, json, rig->why,
                           sizeof(rig->why));

    cJSON_Delete(json);
    return rc;
}

void rig_pause(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};

    (void)nanosleep(&pause, NULL);
}

bool rig_is(struct cluster_rig *rig, int id, rig_condition *condition, const void *arg)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[id].cluster);
    bool is = condition(snapshot, arg);

    cluster_snapshot_put(snapshot);
    return is;
}

static char *render(struct cluster_rig *rig, int id)
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    assert_int_equal(problems_render(rig->nodes[id].problems, &buf), 0);
    if (buf.length == 0)
        assert_int_equal(buf_adds(&buf, "\n"), 0);
    return buf_take(&buf, NULL);
}

static void give_up(struct cluster_rig *rig, int id, const char *what)
{
    char *problems = render(rig, id);

    print_error("node %d: revision %lld of %lld; problems:\n%s", id,
                (long long)cluster_snapshot_get(rig->nodes[id].cluster)->revision,
                (long long)shared_backend_revision(rig->backend), problems);
    fail_msg("node %d: %s did not come", id, what);
}

void rig_until(struct cluster_rig *rig, int id, rig_condition *condition,
               const void *arg)
{
    for (int i = 0; i < PATIENCE_MS / PAUSE_MS; i++) {
        if (rig_is(rig, id, condition, arg))
            return;
        rig_pause();
    }
    give_up(rig, id, "the condition");
}

void rig_until_later(struct cluster_rig *rig, int id, int64_t step_ms,
                     rig_condition *condition, const void *arg)
{
    for (int i = 0; i < PATIENCE_MS / PAUSE_MS; i++) {
        if (rig_is(rig, id, condition, arg))
            return;
        shared_backend_advance(rig->backend, step_ms);
        rig_pause();
    }
    give_up(rig, id, "the condition");
}

int64_t rig_self_epoch(struct cluster_rig *rig, int id)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[id].cluster);
    int64_t epoch = snapshot->self_epoch;

    cluster_snapshot_put(snapshot);
    return epoch;
}

static bool has_later_epoch(const struct cluster_snapshot *snapshot, const void *epoch)
{
    return snapshot->self_epoch > *(const int64_t *)epoch;
}

void rig_until_registered_anew(struct cluster_rig *rig, int id, int64_t epoch_before)
{
    rig_until(rig, id, has_later_epoch, &epoch_before);
}

void rig_settle(struct cluster_rig *rig)
{
    int64_t revision = shared_backend_revision(rig->backend);

    for (int id = 1; id <= RIG_NODES_MAX; id++)
        if (rig->nodes[id].cluster &&
            !cluster_wait_revision(rig->nodes[id].cluster, revision, PATIENCE_MS))
            give_up(rig, id, "what the store holds");
}

void rig_until_problem(struct cluster_rig *rig, int id, const char *part, bool there)
{
    for (int i = 0; i < PATIENCE_MS / PAUSE_MS; i++) {
        char *text = render(rig, id);
        bool found = strstr(text, part) != NULL;

        free(text);
        if (found == there)
            return;
        rig_pause();
    }
    give_up(rig, id, part);
}

struct rig_state rig_state(struct cluster_rig *rig, int id, const char *name,
                           int32_t partition)
{
    const struct cluster_snapshot *snapshot =
        cluster_snapshot_get(rig->nodes[id].cluster);
    const struct topic *topic = cluster_snapshot_topic(snapshot, name);
    const struct partition_info *info;
    struct rig_state out = {0};

    assert_non_null(topic);
    assert_true(partition < topic->partition_count);
    info = &topic->partitions[partition];
    partition_info_leadership(info, &out.state);
    for (uint32_t i = 0; i < info->replica_count; i++)
        replica_ids_add(&out.replicas, info->replicas[i]);
    out.revision = info->state_revision;
    out.loss = info->loss;
    out.topic = topic->id;
    cluster_snapshot_put(snapshot);
    return out;
}

bool rig_has_controller(const struct cluster_snapshot *snapshot, const void *arg)
{
    (void)arg;
    return snapshot->controller >= 0;
}

bool rig_controller_is(const struct cluster_snapshot *snapshot, const void *arg)
{
    return snapshot->controller == *(const int32_t *)arg;
}

bool rig_has_broker(const struct cluster_snapshot *snapshot, const void *arg)
{
    return cluster_snapshot_broker(snapshot, *(const int32_t *)arg) != NULL;
}

bool rig_lacks_broker(const struct cluster_snapshot *snapshot, const void *arg)
{
    return !rig_has_broker(snapshot, arg);
}

bool rig_is_fenced(const struct cluster_snapshot *snapshot, const void *arg)
{
    (void)arg;
    return snapshot->self_epoch < 0;
}

bool rig_is_member(const struct cluster_snapshot *snapshot, const void *arg)
{
    (void)arg;
    return snapshot->self_epoch > 0;
}

bool rig_leads(const struct cluster_snapshot *snapshot, const void *arg)
{
    const struct rig_leader *wanted = arg;
    const struct topic *topic = cluster_snapshot_topic(snapshot, wanted->topic);

    return topic && wanted->partition < topic->partition_count &&
           (wanted->leader == RIG_ANY_LEADER ||
            topic->partitions[wanted->partition].leader == wanted->leader) &&
           topic->partitions[wanted->partition].leader_epoch > wanted->epoch_above;
}
