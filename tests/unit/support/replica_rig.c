#include "tests/unit/support/replica_rig.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 15000, TICK_MS = 2, BROKER_TICK_MS = 20 };

static int64_t real_ms(void)
{
    return clock_mono_ms(&clock_real);
}

/* A port that nobody has, nor gets while the socket is there: it does not listen, so
 * that the node still can. Returns the socket. */
static int hold_port(int *port)
{
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void *tick(void *arg)
{
    struct replica_rig *rig = arg;
    int64_t last_ms = real_ms();
    while (!atomic_load(&rig->stopping)) {
        const struct timespec pause = {.tv_nsec = TICK_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
        int64_t now_ms = real_ms();
        shared_backend_advance(rig->cluster.backend, now_ms - last_ms);
        last_ms = now_ms;
    }
    return NULL;
}

void replica_rig_later(struct replica_rig *rig, int64_t ms)
{
    later_clock_add(&rig->clock, ms);
}

/* ---- nodes --------------------------------------------------------------------------
 */

static int start_server(struct replica_rig *rig, int id, char *why, size_t why_size)
{
    struct replica_node *node = &rig->nodes[id];
    struct rig_node *member = &rig->cluster.nodes[id];
    const struct http_server_params server = {
        .config = &member->config, .problems = member->problems, .clock = &clock_real};
    const struct peer_routes_params routes = {
        .config = &member->config, .cluster = member->cluster, .broker = node->broker};
    int rc = http_server_new(&server, &node->server);
    rc = rc ? rc : peer_routes_new(&routes, &node->routes, why, why_size);
    rc = rc ? rc : peer_routes_add(node->routes, node->server);
    if (!rc && rig->parts) {
        rig->parts->start(rig, id);
    }
    return rc ? rc : http_server_start(node->server, why, why_size);
}

static void start_broker(struct replica_rig *rig, int id)
{
    struct replica_node *node = &rig->nodes[id];
    struct rig_node *member = &rig->cluster.nodes[id];
    char why[512] = "";
    int rc = datadir_open(node->dir, &node->datadir, why, sizeof why);
    const struct broker_params params = {.datadir = node->datadir,
                                         .cluster = member->cluster,
                                         .problems = member->problems,
                                         .clock = &rig->clock.clock,
                                         .config = &member->config,
                                         .tick_ms = BROKER_TICK_MS};
    rc = rc ? rc : broker_start(&params, &node->broker, why, sizeof why);
    rc = rc ? rc : start_server(rig, id, why, sizeof why);
    if (rc) {
        fail_msg("node %d: %s (%s)", id, why, err_text(rc));
    }
}

static void join(struct replica_rig *rig, int id)
{
    char why[512] = "";
    int rc = broker_take_out_suspects(rig->nodes[id].broker);
    rc = rc ? rc : cluster_join(rig->cluster.nodes[id].cluster, why, sizeof why);
    if (rc) {
        fail_msg("node %d does not join: %s (%s)", id, why, err_text(rc));
    }
}

static void free_port_of(struct replica_node *node)
{
    if (node->silent_fd >= 0) {
        (void)close(node->silent_fd);
        node->silent_fd = -1;
    }
}

/* As the daemon does: who is registered must be able to serve. */
void replica_rig_start(struct replica_rig *rig, int id)
{
    free_port_of(&rig->nodes[id]);
    rig->cluster.nodes[id].join_later = true;
    rig_start(&rig->cluster, id);
    start_broker(rig, id);
    join(rig, id);
}

void replica_rig_run(const struct replica_rig *rig, int id, const char *command)
{
    char line[512];
    (void)snprintf(line, sizeof line, "cd %s && %s", rig->nodes[id].dir, command);
    assert_int_equal(system(line), 0);
}

/* Takes connections, but says nothing. */
static int listen_silently(struct replica_rig *rig, int id)
{
    const char *colon = strrchr(rig->cluster.nodes[id].config.listen, ':');
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10))};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 128), 0);
    return fd;
}

static void end_node(struct replica_rig *rig, int id, bool silently)
{
    struct replica_node *node = &rig->nodes[id];
    broker_interrupt_waiters(node->broker);
    http_server_stop(node->server);
    if (rig->parts) {
        rig->parts->stop(rig, id);
    }
    node->silent_fd = silently ? listen_silently(rig, id) : -1;
    broker_leave(node->broker);
    struct problems *problems = rig->cluster.nodes[id].problems;
    shared_store_cut(rig->cluster.nodes[id].store, true);
    cluster_close(rig->cluster.nodes[id].cluster);
    broker_stop(node->broker);
    peer_routes_free(node->routes);
    datadir_close(node->datadir);
    problems_free(problems);
    rig->cluster.nodes[id].problems = NULL;
    rig->cluster.nodes[id].cluster = NULL;
    node->broker = NULL;
    node->server = NULL;
    node->routes = NULL;
    node->datadir = NULL;
}

void replica_rig_kill(struct replica_rig *rig, int id)
{
    end_node(rig, id, false);
}

void replica_rig_cut_off(struct replica_rig *rig, int id)
{
    end_node(rig, id, true);
}

void replica_rig_bury(struct replica_rig *rig, int id)
{
    int32_t gone = id;
    int other = 1;
    while (other == id || !rig->nodes[other].broker) {
        other++;
    }
    shared_backend_advance(rig->cluster.backend, 7000);
    rig_until(&rig->cluster, other, rig_lacks_broker, &gone);
}

struct replica_rig *replica_rig_open(int count)
{
    return replica_rig_open_with(count, NULL);
}

struct replica_rig *replica_rig_open_with(int count,
                                          const struct replica_rig_parts *parts)
{
    struct replica_rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->parts = parts;
    rig->count = count;
    rig_open(&rig->cluster, 0);
    later_clock_init(&rig->clock, shared_backend_clock(rig->cluster.backend));
    for (int id = 1; id <= count; id++) {
        struct replica_node *node = &rig->nodes[id];
        struct mount_config *config = &rig->cluster.nodes[id].config;
        char listen[32];
        int port = 0;
        node->silent_fd = -1;
        node->port_fd = hold_port(&port);
        (void)snprintf(node->dir, sizeof node->dir, "/tmp/topicfs-unit-XXXXXX");
        assert_non_null(mkdtemp(node->dir));
        (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
        free(config->listen);
        config->listen = strdup(listen);
        assert_non_null(config->listen);
    }
    assert_int_equal(pthread_create(&rig->ticker, NULL, tick, rig), 0);
    for (int id = 1; id <= count; id++) {
        replica_rig_start(rig, id);
    }
    for (int id = 1; id <= count; id++) {
        for (int32_t other = 1; other <= count; other++) {
            rig_until(&rig->cluster, id, rig_has_broker, &other);
        }
        rig_until(&rig->cluster, id, rig_has_controller, NULL);
    }
    return rig;
}

static int remove_one(const char *path, const struct stat *stat, int type,
                      struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

void replica_rig_close(struct replica_rig *rig)
{
    for (int id = 1; id <= rig->count; id++) {
        if (rig->nodes[id].broker) {
            replica_rig_kill(rig, id);
        }
        free_port_of(&rig->nodes[id]);
        (void)close(rig->nodes[id].port_fd);
    }
    atomic_store(&rig->stopping, true);
    pthread_join(rig->ticker, NULL);
    for (int id = 1; id <= rig->count; id++) {
        (void)nftw(rig->nodes[id].dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    rig_close(&rig->cluster);
    free(rig);
}

int replica_rig_setup(void **state)
{
    *state = replica_rig_open(3);
    return 0;
}

int replica_rig_teardown(void **state)
{
    replica_rig_close(*state);
    return 0;
}

/* ---- topics -------------------------------------------------------------------------
 */

void replica_rig_topic(struct replica_rig *rig, const char *name, const char *settings)
{
    int rc = rig_create(&rig->cluster, 1, name, settings);
    if (rc) {
        fail_msg("topic %s: %s (%s)", name, rig->cluster.why, err_text(rc));
    }
    for (int id = 1; id <= rig->count; id++) {
        if (rig->nodes[id].broker) {
            (void)replica_rig_leader(rig, id, name, -1);
        }
    }
}

static const struct partition_info *info_of(const struct cluster_snapshot *snapshot,
                                            const char *topic)
{
    const struct topic *found = cluster_snapshot_topic(snapshot, topic);
    return found ? &found->partitions[0] : NULL;
}

int replica_rig_leader(struct replica_rig *rig, int id, const char *topic, int except)
{
    int64_t until_ms = real_ms() + PATIENCE_MS;
    while (real_ms() < until_ms) {
        const struct cluster_snapshot *snapshot =
            cluster_snapshot_get(rig->cluster.nodes[id].cluster);
        const struct partition_info *info = info_of(snapshot, topic);
        int leader = info ? info->leader : -1;
        cluster_snapshot_put(snapshot);
        if (leader >= 0 && leader != except) {
            return leader;
        }
        rig_pause();
    }
    fail_msg("%s has no leader", topic);
    return -1;
}

struct partition *replica_rig_partition(struct replica_rig *rig, int id,
                                        const char *topic)
{
    int64_t until_ms = real_ms() + PATIENCE_MS;
    struct partition *partition = NULL;
    while (!partition && real_ms() < until_ms) {
        const struct cluster_snapshot *snapshot =
            cluster_snapshot_get(rig->cluster.nodes[id].cluster);
        const struct topic *found = cluster_snapshot_topic(snapshot, topic);
        partition =
            found ? broker_partition(rig->nodes[id].broker, &found->id, 0) : NULL;
        cluster_snapshot_put(snapshot);
        if (!partition) {
            rig_pause();
        }
    }
    assert_non_null(partition);
    return partition;
}

void replica_rig_until_committed(struct partition *partition, int64_t offset)
{
    int64_t until_ms = real_ms() + PATIENCE_MS;
    struct partition_status status;
    do {
        partition_status_get(partition, &status);
        if (status.high_watermark.offset >= offset) {
            return;
        }
        rig_pause();
    } while (real_ms() < until_ms);
    struct buf state;
    buf_init(&state, 1 << 20);
    (void)partition_state_render(partition, &state);
    fail_msg("not committed up to %lld: %s", (long long)offset, state.data);
}

void replica_rig_until_isr(struct replica_rig *rig, int id, const char *topic,
                           uint32_t size)
{
    int64_t until_ms = real_ms() + PATIENCE_MS;
    uint32_t found = 0;
    do {
        const struct cluster_snapshot *snapshot =
            cluster_snapshot_get(rig->cluster.nodes[id].cluster);
        const struct partition_info *info = info_of(snapshot, topic);
        found = info ? info->isr_count : 0;
        cluster_snapshot_put(snapshot);
        if (found == size) {
            return;
        }
        rig_pause();
    } while (real_ms() < until_ms);
    fail_msg("%s: %u in-sync replicas, not %u", topic, found, size);
}
