#include "tests/fault/etcd_rig.h"

#include "coord/clock.h"
#include "coord/err.h"
#include "coord/store_etcd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RIG_WAIT_MS = 20000 };

int64_t rig_now_ms(void)
{
    return clock_mono_ms(&clock_real);
}

/* The pace of looking at what is waited for. */
static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* Below those that the system gives to connections: one of these could have it while
 * etcd is about to start, or is away for a while. */
static int free_port(void)
{
    enum { LOWEST = 20000, HIGHEST = 32000, TRIES = 1000 };

    for (int i = 0; i < TRIES; i++) {
        uint16_t port;
        assert_int_equal(getrandom(&port, sizeof(port), 0), sizeof(port));
        port = (uint16_t)(LOWEST + port % (HIGHEST - LOWEST));
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons(port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool good = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(fd);
        if (good)
            return port;
    }
    fail_msg("no free port");
    return -1;
}

static bool answers(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    close(fd);
    return good;
}

char *rig_endpoints(const struct rig *rig, const char *credentials)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    fprintf(out, "etcd%s://%s", rig->flags & RIG_TLS ? "s" : "", credentials);
    for (int i = 0; i < rig->members; i++)
        fprintf(out, "%s127.0.0.1:%d", i > 0 ? "," : "", rig->client_ports[i]);
    fclose(out);
    return text;
}

void rig_shell(struct rig *rig, const char *command)
{
    char endpoints[128];
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        snprintf(endpoints, sizeof(endpoints), "http%s://127.0.0.1:%d",
                 rig->flags & RIG_TLS ? "s" : "", rig->client_ports[0]);
        setenv("DIR", rig->dir, 1);
        setenv("EP", endpoints, 1);
        setenv("ETCDCTL_API", "3", 1);
        execl("/usr/bin/timeout", "timeout", "20", "sh", "-ec", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("failed: %s", command);
}

static void exec_etcd(struct rig *rig, int member, const char *cluster)
{
    const char *scheme = rig->flags & RIG_TLS ? "https" : "http";
    char name[16], data[128], client[64], peer[64], cert[128], key[128], log[128];

    snprintf(name, sizeof(name), "m%d", member);
    snprintf(data, sizeof(data), "%s/m%d", rig->dir, member);
    snprintf(log, sizeof(log), "%s/m%d.log", rig->dir, member);
    snprintf(cert, sizeof(cert), "%s/server.pem", rig->dir);
    snprintf(key, sizeof(key), "%s/server.key", rig->dir);
    snprintf(client, sizeof(client), "%s://127.0.0.1:%d", scheme,
             rig->client_ports[member]);
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%d", rig->peer_ports[member]);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    const char *arguments[40] = {"etcd",
                                 "--name",
                                 name,
                                 "--data-dir",
                                 data,
                                 "--listen-client-urls",
                                 client,
                                 "--advertise-client-urls",
                                 client,
                                 "--listen-peer-urls",
                                 peer,
                                 "--initial-advertise-peer-urls",
                                 peer,
                                 "--initial-cluster",
                                 cluster,
                                 "--heartbeat-interval=50",
                                 "--election-timeout=500",
                                 "--pre-vote=true"};
    if (rig->flags & RIG_TLS) {
        char *ca = NULL;
        int n = 18;
        if (asprintf(&ca, "%s/ca.pem", rig->dir) < 0)
            _exit(127);
        arguments[n++] = "--cert-file";
        arguments[n++] = cert;
        arguments[n++] = "--key-file";
        arguments[n++] = key;
        arguments[n++] = "--client-cert-auth";
        arguments[n++] = "--trusted-ca-file";
        arguments[n++] = ca;
    }
    execv("/usr/bin/etcd", (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static void spawn(struct rig *rig, int member)
{
    char cluster[256] = "";
    pid_t parent = getpid();

    for (int i = 0; i < rig->members; i++) {
        size_t at = strlen(cluster);
        snprintf(cluster + at, sizeof(cluster) - at, "%sm%d=http://127.0.0.1:%d",
                 i > 0 ? "," : "", i, rig->peer_ports[i]);
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing stays behind a crashed test */
        if (getppid() != parent)
            _exit(127);
        exec_etcd(rig, member, cluster);
    }
    rig->pids[member] = pid;
}

static void wait_answering(struct rig *rig, int member)
{
    int64_t until = rig_now_ms() + RIG_WAIT_MS;

    while (!answers(rig->client_ports[member])) {
        if (rig_now_ms() > until)
            fail_msg("etcd does not answer; see %s/m%d.log", rig->dir, member);
        nap();
    }
}

void rig_run(struct rig *rig, int member)
{
    spawn(rig, member);
    wait_answering(rig, member);
}

static void make_certificates(struct rig *rig)
{
    rig_shell(rig, "cd $DIR; exec 2>openssl.log\n"
                   "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca"
                   " -keyout ca.key -out ca.pem\n"
                   "printf 'subjectAltName=IP:127.0.0.1\\n' >ext\n"
                   "for who in server client; do\n"
                   "openssl req -newkey rsa:2048 -nodes -subj /O=$who -keyout $who.key "
                   "-out $who.csr\n"
                   "openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key "
                   "-CAcreateserial -days 2"
                   " -extfile ext -out $who.pem\n"
                   "done");
}

void rig_start(struct rig *rig, int members, unsigned flags)
{
    *rig = (struct rig){.members = members, .flags = flags};
    snprintf(rig->dir, sizeof(rig->dir), "/tmp/topicfs-etcd-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    rig->problems = problems_new(&clock_real);
    for (int i = 0; i < members; i++) {
        rig->client_ports[i] = free_port();
        rig->peer_ports[i] = free_port();
    }
    if (flags & RIG_TLS)
        make_certificates(rig);
    for (int i = 0; i < members; i++)
        spawn(rig, i);
    for (int i = 0; i < members; i++)
        wait_answering(rig, i);
}

void rig_signal(struct rig *rig, int member, int signal)
{
    assert_int_equal(kill(rig->pids[member], signal), 0);
}

void rig_kill(struct rig *rig, int member)
{
    rig_signal(rig, member, SIGKILL);
    assert_int_equal(waitpid(rig->pids[member], NULL, 0), rig->pids[member]);
    rig->pids[member] = 0;
}

void rig_stop(struct rig *rig)
{
    for (int i = 0; i < rig->members; i++) {
        if (rig->pids[i] > 0)
            rig_kill(rig, i);
    }
    problems_free(rig->problems);
    rig_shell(rig, "rm -rf \"$DIR\"");
}

int rig_leader(struct rig *rig)
{
    char command[256];

    for (int64_t until = rig_now_ms() + RIG_WAIT_MS; rig_now_ms() < until; nap()) {
        for (int i = 0; i < rig->members; i++) {
            snprintf(command, sizeof(command),
                     "ETCDCTL_API=3 timeout 2 etcdctl --endpoints http://127.0.0.1:%d "
                     "endpoint status 2>/dev/null | grep -q ', true, '",
                     rig->client_ports[i]);
            if (rig->pids[i] > 0 && system(command) == 0)
                return i;
        }
    }
    fail_msg("no leader");
    return -1;
}

struct store *rig_open(struct rig *rig)
{
    char *endpoints = rig_endpoints(rig, "");
    char why[256] = "";
    struct store *store;
    const struct store_etcd_params params = {.endpoints = endpoints,
                                             .prefix = "/test/",
                                             .problems = rig->problems,
                                             .clock = &clock_real};
    int rc = store_etcd_open(&params, &store, why, sizeof(why));

    if (rc != 0)
        fail_msg("open: %d %s", rc, why);
    free(endpoints);
    return store;
}

int rig_put_once(struct store *store, const char *key, const char *value, bool leased,
                 int64_t *revision)
{
    const struct store_op op = {STORE_PUT, key, value, leased};

    return store->ops->commit(store, &(struct store_txn){.ops = &op, .op_count = 1},
                              revision);
}

/* *again: the outcome of an attempt was not known. */
static int until_known(struct store *store, const struct store_txn *txn,
                       int64_t *revision, bool *again)
{
    int64_t until = rig_now_ms() + RIG_WAIT_MS;
    int rc = store->ops->commit(store, txn, revision);

    for (*again = false; rc == E_OUTCOME_UNKNOWN && rig_now_ms() < until; nap()) {
        *again = true;
        rc = store->ops->commit(store, txn, revision);
    }
    return rc;
}

int rig_put(struct store *store, const char *key, const char *value, bool leased,
            int64_t *revision)
{
    const struct store_op op = {STORE_PUT, key, value, leased};
    bool again;

    return until_known(store, &(struct store_txn){.ops = &op, .op_count = 1}, revision,
                       &again);
}

int rig_delete(struct store *store, const char *key, int64_t *revision)
{
    const struct store_op op = {.verb = STORE_DELETE, .key = key};
    bool again;

    return until_known(store, &(struct store_txn){.ops = &op, .op_count = 1}, revision,
                       &again);
}

int rig_commit(struct store *store, const struct store_txn *txn, int64_t *revision)
{
    const struct store_op *put = &txn->ops[0];
    struct store_list list;
    bool again;
    int rc = until_known(store, txn, revision, &again);

    if (rc != E_CONFLICT || !again)
        return rc;
    assert_int_equal(store->ops->list(store, put->key, &list), 0);
    if (list.count > 0 && strcmp(list.items[0].key, put->key) == 0 &&
        strcmp(list.items[0].value, put->value) == 0) {
        *revision = list.items[0].mod_revision;
        rc = 0;
    }
    store_list_free(&list);
    return rc;
}

void seen_init(struct seen *seen)
{
    pthread_condattr_t attr;

    *seen = (struct seen){.status.reachable = true};
    pthread_mutex_init(&seen->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&seen->cond, &attr);
    pthread_condattr_destroy(&attr);
}

void seen_free(struct seen *seen)
{
    store_list_free(&seen->map);
    pthread_cond_destroy(&seen->cond);
    pthread_mutex_destroy(&seen->lock);
}

/* [lock] */
static void apply(struct seen *seen, const struct store_kv *kv)
{
    struct store_list *map = &seen->map;
    size_t at = 0;

    while (at < map->count && strcmp(map->items[at].key, kv->key) < 0)
        at++;
    if (at < map->count && strcmp(map->items[at].key, kv->key) == 0) {
        free(map->items[at].key);
        free(map->items[at].value);
        memmove(&map->items[at], &map->items[at + 1],
                (map->count - at - 1) * sizeof(*map->items));
        map->count--;
    }
    if (!kv->value)
        return;
    map->items = realloc(map->items, (map->count + 1) * sizeof(*map->items));
    memmove(&map->items[at + 1], &map->items[at],
            (map->count - at) * sizeof(*map->items));
    map->items[at] = *kv;
    map->items[at].key = strdup(kv->key);
    map->items[at].value = strdup(kv->value);
    map->count++;
}

static void on_events(void *arg, const struct store_kv *kvs, size_t count,
                      int64_t revision)
{
    struct seen *seen = arg;

    pthread_mutex_lock(&seen->lock);
    seen->out_of_order |= revision <= seen->revision;
    seen->revision = revision;
    seen->calls++;
    if (count > 0)
        seen->last_count = count;
    for (size_t i = 0; i < count; i++)
        apply(seen, &kvs[i]);
    pthread_cond_broadcast(&seen->cond);
    pthread_mutex_unlock(&seen->lock);
}

void seen_on_status(void *arg, const struct store_status *status)
{
    struct seen *seen = arg;

    pthread_mutex_lock(&seen->lock);
    seen->status = *status;
    seen->status_calls++;
    pthread_cond_broadcast(&seen->cond);
    pthread_mutex_unlock(&seen->lock);
}

void seen_watch_from(struct seen *seen, struct store *store, int64_t revision)
{
    seen->revision = revision;
    assert_int_equal(store->ops->watch(store, revision, on_events, seen), 0);
}

void seen_watch(struct seen *seen, struct store *store)
{
    assert_int_equal(store->ops->list(store, "/test/", &seen->map), 0);
    seen_watch_from(seen, store, seen->map.revision);
}

/* [lock] */
static const char *value_of(const struct seen *seen, const char *key)
{
    for (size_t i = 0; i < seen->map.count; i++) {
        if (strcmp(seen->map.items[i].key, key) == 0)
            return seen->map.items[i].value;
    }
    return NULL;
}

struct wish {
    int64_t revision;
    const char *key, *value;
    bool status, reachable, lost;
};

static bool fulfilled(const struct seen *seen, const struct wish *wish)
{
    if (wish->status)
        return seen->status.reachable == wish->reachable &&
               seen->status.session_lost == wish->lost;
    if (!wish->key)
        return seen->revision >= wish->revision;
    const char *value = value_of(seen, wish->key);
    return value && wish->value ? strcmp(value, wish->value) == 0
                                : !value && !wish->value;
}

static void wait_for(struct seen *seen, const struct wish *wish)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += RIG_WAIT_MS / 1000;
    pthread_mutex_lock(&seen->lock);
    while (rc == 0 && !fulfilled(seen, wish))
        rc = pthread_cond_timedwait(&seen->cond, &seen->lock, &until);
    bool in_order = !seen->out_of_order;
    int64_t revision = seen->revision;
    pthread_mutex_unlock(&seen->lock);
    if (rc != 0)
        fail_msg("not seen in time: revision %lld, key %s, reachable %d; at %lld",
                 (long long)wish->revision, wish->key ? wish->key : "-",
                 wish->reachable, (long long)revision);
    assert_true(in_order);
}

void seen_wait(struct seen *seen, int64_t revision)
{
    wait_for(seen, &(struct wish){.revision = revision});
}

void seen_wait_key(struct seen *seen, const char *key, const char *value)
{
    wait_for(seen, &(struct wish){.key = key, .value = value});
}

void seen_wait_status(struct seen *seen, bool reachable, bool lost)
{
    wait_for(seen,
             &(struct wish){.status = true, .reachable = reachable, .lost = lost});
}

void seen_check(struct seen *seen, struct store *store)
{
    struct store_list list;

    assert_int_equal(store->ops->list(store, "/test/", &list), 0);
    pthread_mutex_lock(&seen->lock);
    assert_false(seen->out_of_order);
    assert_int_equal(seen->map.count, list.count);
    for (size_t i = 0; i < list.count; i++) {
        assert_string_equal(seen->map.items[i].key, list.items[i].key);
        assert_string_equal(seen->map.items[i].value, list.items[i].value);
        assert_int_equal(seen->map.items[i].create_revision,
                         list.items[i].create_revision);
        assert_int_equal(seen->map.items[i].mod_revision, list.items[i].mod_revision);
    }
    pthread_mutex_unlock(&seen->lock);
    store_list_free(&list);
}
