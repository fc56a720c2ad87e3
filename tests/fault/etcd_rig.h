/*
 * Real etcd clusters of one to three members on free loopback ports, in a directory of
 * their own; and a watcher that keeps what it was told.
 *
 *     rig_start(&rig, 3, 0);
 *     ... rig_kill(&rig, 1); rig_signal(&rig, 0, SIGSTOP); ...
 *     rig_stop(&rig);
 *
 * Every wait has a bound; what exceeds it fails the test.
 */
#ifndef TOPICFS_TEST_ETCD_RIG_H
#define TOPICFS_TEST_ETCD_RIG_H

#include "coord/problems.h"
#include "coord/store.h"

#include <pthread.h>
#include <sys/types.h>

enum { RIG_MEMBERS_MAX = 3 };
enum rig_flags { RIG_TLS = 1 };

struct rig {
    char dir[64];
    int members;
    unsigned flags;
    int client_ports[RIG_MEMBERS_MAX], peer_ports[RIG_MEMBERS_MAX];
    pid_t pids[RIG_MEMBERS_MAX]; /* 0: not running */
    struct problems *problems;
};

void rig_start(struct rig *rig, int members, unsigned flags);
void rig_stop(struct rig *rig);
void rig_run(struct rig *rig, int member); /* starts it (again) */
void rig_kill(struct rig *rig, int member);
void rig_signal(struct rig *rig, int member, int signal);
int rig_leader(struct rig *rig); /* waits for one */

/* Runs a command of the shell with $DIR, $EP (the endpoints) set; fails the test if it
 * fails. */
void rig_shell(struct rig *rig, const char *command);

/* "etcd://127.0.0.1:1,127.0.0.1:2", to be freed. `credentials`: "user:password@" or "".
 */
char *rig_endpoints(const struct rig *rig, const char *credentials);

/* Opens a store on /test/. */
struct store *rig_open(struct rig *rig);

/* Repeated while the outcome is not known, as a caller would: a machine that has much
 * to do is silent for longer than the store waits. */
int rig_put(struct store *store, const char *key, const char *value, bool leased,
            int64_t *revision);
/* One attempt. */
int rig_put_once(struct store *store, const char *key, const char *value, bool leased,
                 int64_t *revision);
/* Repeated likewise; a conflict after that is the own transaction's, if its first put
 * is there, whose revision it is then. */
int rig_commit(struct store *store, const struct store_txn *txn, int64_t *revision);
int rig_delete(struct store *store, const char *key, int64_t *revision);

struct seen { /* what a watcher was told; a mirror of the keys */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int64_t revision;
    int calls;
    size_t last_count; /* events of the last call that had any */
    bool out_of_order;
    struct store_list map; /* sorted by key */
    /* of on_status */
    int status_calls;
    struct store_status status;
};

void seen_init(struct seen *seen);
void seen_free(struct seen *seen);
void seen_watch(struct seen *seen, struct store *store); /* lists, then watches */
/* `map` is filled with what was listed at `revision`. */
void seen_watch_from(struct seen *seen, struct store *store, int64_t revision);
void seen_on_status(void *seen, const struct store_status *status);
/* Waits, 20 s at most, then fails the test. */
void seen_wait(struct seen *seen, int64_t revision);
void seen_wait_key(struct seen *seen, const char *key, const char *value);
void seen_wait_status(struct seen *seen, bool reachable, bool lost);
/* The mirror is what a list has. */
void seen_check(struct seen *seen, struct store *store);

int64_t rig_now_ms(void);

#endif
