/*
 * The cluster as this node knows it: topics, who leads, who is alive; and the
 * operations that change it.
 *
 *     cluster_open(&params, &cluster);
 *     cluster_subscribe(cluster, on_change, broker);
 *     ...
 *     const struct cluster_snapshot *snapshot = cluster_snapshot_get(cluster);
 *     const struct topic *topic = cluster_snapshot_topic(snapshot, "orders");
 *     ...
 *     cluster_snapshot_put(snapshot);
 *
 * A snapshot is immutable and reference-counted: getting one takes a short lock and
 * never waits for the store. Operations (create, delete, ...) block on the store: they
 * belong on a thread that may wait, never on a FUSE worker. They return once the change
 * is in this node's snapshot and every subscriber has been called for it.
 *
 * In the embedded store this node is the whole cluster: it wins the controller election
 * at open, and every partition that it leads gets a new leader epoch, because a leader
 * epoch belongs to one incarnation (broker epoch) of its leader.
 */
#ifndef TOPICFS_CLUSTER_H
#define TOPICFS_CLUSTER_H

#include "coord/buf.h"
#include "coord/clock.h"
#include "coord/leadership.h"
#include "coord/problems.h"
#include "coord/settings.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TOPIC_NAME_MAX = 249, PARTITIONS_MAX = 10000 };
enum { TOPIC_ID_BYTES = 16, TOPIC_ID_TEXT = 33 };

struct topic_id {
    uint8_t bytes[TOPIC_ID_BYTES];
};

/* 32 lower-case hexadecimal digits and a NUL. parse: 0 or -EINVAL. */
void topic_id_format(const struct topic_id *id, char text[TOPIC_ID_TEXT]);
int topic_id_parse(const char *text, struct topic_id *id);
bool topic_id_equal(const struct topic_id *a, const struct topic_id *b);

/* Kafka's rule (org.apache.kafka.common.internals.Topic): 1 to 249 of [a-zA-Z0-9._-],
 * not
 * "." or "..". 0 or E_INVALID_NAME. */
int topic_name_check(const char *name);
/* Whether topicfs keeps it for itself: it begins with "__". */
bool topic_name_is_internal(const char *name);

/* Messages that an election may have lost; of the last one. */
struct partition_loss {
    int32_t epoch; /* leader epoch of that election; -1: none */
    int64_t at_ms; /* wall clock */
    int64_t from;  /* first offset; -1: not known yet */
    int64_t to;    /* offset after the last; -1: not known */
};
#define PARTITION_LOSS_NONE ((struct partition_loss){.epoch = -1, .from = -1, .to = -1})

struct partition_info {
    /* The assignment: broker ids, preferred leader first. Of these, as of the other
     * lists, there are at most LEADERSHIP_REPLICAS_MAX. */
    const int32_t *replicas;
    uint32_t replica_count;
    const int32_t *isr;
    uint32_t isr_count;
    int32_t leader; /* -1: none */
    int32_t leader_epoch;
    int32_t controller_epoch;
    int64_t state_revision; /* mod revision of the state key, for compare-and-swap */
    const int32_t *elr;     /* eligible replicas: see coord/leadership.h */
    uint32_t elr_count;
    const struct suspect *suspects;
    uint32_t suspect_count;
    int32_t lossy_epoch; /* -1: none */
    struct partition_loss loss;
};

/* The same in the form that decisions take. */
void partition_info_leadership(const struct partition_info *info,
                               struct leadership *out);

struct topic {
    char name[TOPIC_NAME_MAX + 1];
    struct topic_id id;
    struct topic_config config;
    int64_t config_version; /* rises with every change of config */
    uid_t uid;
    gid_t gid;
    mode_t mode; /* permission bits of the directory, e.g. 0755 */
    int64_t created_ms;
    int32_t partition_count;
    const struct partition_info *partitions; /* indexed by partition */
};

enum node_started { /* what came before a node's start */
                    NODE_STARTED_CLEAN,
                    NODE_STARTED_PROCESS_CRASH, /* killed; the page cache was intact */
                    NODE_STARTED_MACHINE_CRASH, /* what was not flushed may be gone */
                    NODE_STARTED_COUNT
};

struct broker_info {
    int32_t id;
    char host[256];
    int32_t port;
    int64_t epoch; /* broker epoch: create revision of its registration */
    char rack[128];
    char instance[65];
    bool client;   /* keeps no replicas */
    bool stopping; /* hands over its leadership before a clean stop */
    enum node_started started;
};

struct cluster_snapshot {
    int64_t revision;
    uint32_t topic_count;
    const struct topic *const *topics; /* sorted by name (strcmp) */
    uint32_t broker_count;
    const struct broker_info *brokers; /* live ones, sorted by id */
    int32_t controller;                /* broker id, -1: none */
    int32_t controller_epoch;
    int32_t self; /* this node's broker id */
    int64_t self_epoch;
    uid_t topics_uid; /* owner and mode of topics/ itself */
    gid_t topics_gid;
    mode_t topics_mode;
};

struct cluster;

struct cluster_params {
    const struct mount_config *config; /* borrowed for the cluster's life */
    const char *store_dir;     /* embedded: where its files are; created if absent */
    const char *instance;      /* this data directory's instance id */
    enum node_started started; /* how the run before ended */
    bool join_later;           /* shared store: cluster_join() registers, not open */
    struct problems *problems; /* borrowed */
    const struct clock *clock; /* borrowed */
};

/* Whether the other nodes of a cluster can be told where this one is. 0; -EINVAL, and
 * `why` names the setting. Pure; any thread. */
int cluster_address_check(const struct mount_config *config, char *why,
                          size_t why_size);

/*
 * Opens the store, registers this node, elects, gives new leader epochs. `why` gets the
 * reason of a failure in words. 0; E_CORRUPT (both copies of the embedded store are
 * damaged); E_NEWER_FORMAT; a negative errno.
 */
int cluster_open(const struct cluster_params *params, struct cluster **out, char *why,
                 size_t why_size);
/*
 * Registers this node, after an open with join_later; from then on it can lead and be
 * in sync. Before that it is the place to take replicas out that may lack messages
 * (cluster_take_out): while a node is not registered nobody can elect it or let it
 * join. Its earlier registration was ended by open. 0; E_NODE_ID_TAKEN;
 * E_STORE_UNREACHABLE; `why` gets the reason. Embedded, or joined already: 0.
 */
int cluster_join(struct cluster *cluster, char *why, size_t why_size);
/*
 * Leaves a shared store's cluster: hands leadership over, within 5 s, then ends this
 * node's registration and session. Subscribers are still called, at last with
 * self_epoch -1; what leads goes on leading until a snapshot says otherwise. To be
 * called before the parts that use the cluster are stopped; close does it otherwise.
 * Embedded, again, or NULL: nothing.
 */
void cluster_stop(struct cluster *cluster);
void cluster_close(struct cluster *cluster); /* accepts NULL; snapshots stay valid */

const struct cluster_snapshot *cluster_snapshot_get(struct cluster *cluster);
const struct cluster_snapshot *
cluster_snapshot_ref(const struct cluster_snapshot *snapshot);
void cluster_snapshot_put(const struct cluster_snapshot *snapshot); /* accepts NULL */

/* NULL if there is none. Borrowed from the snapshot. */
const struct topic *cluster_snapshot_topic(const struct cluster_snapshot *snapshot,
                                           const char *name);
const struct topic *
cluster_snapshot_topic_by_id(const struct cluster_snapshot *snapshot,
                             const struct topic_id *id);

/* The live broker of that id, or NULL. Borrowed from the snapshot. */
const struct broker_info *
cluster_snapshot_broker(const struct cluster_snapshot *snapshot, int32_t id);

/*
 * Whether a topic of this id was deleted (within a week, and among the last 1,000):
 * then what a node still has of it is to be removed, not kept as something unknown.
 */
bool cluster_snapshot_deleted(const struct cluster_snapshot *snapshot,
                              const struct topic_id *id);

/*
 * Whether cluster_open() found no store and made a new one. With partition directories
 * there, the store was lost: cluster_adopt_topic() brings their topics back.
 */
bool cluster_store_was_created(const struct cluster *cluster);

/*
 * Calls fn(arg, snapshot) at once with the present snapshot, then after every change:
 * in order, one call of any subscriber at a time, in the embedded store from the thread
 * that made the change, else from one of the cluster's own; with no lock held that an
 * operation or cluster_snapshot_get() needs. fn must not call an operation. At most
 * eight subscribers: -ENOSPC. Both wait for a running call, so not from within fn;
 * after unsubscribe fn is not called again.
 */
typedef void cluster_change_fn(void *arg, const struct cluster_snapshot *snapshot);
int cluster_subscribe(struct cluster *cluster, cluster_change_fn *fn, void *arg);
void cluster_unsubscribe(struct cluster *cluster, cluster_change_fn *fn, void *arg);

/* Operations. All: 0, a code from coord/err.h, or a negative errno; `why` (may be NULL)
 * gets the reason in words. */

/*
 * `settings` (may be NULL) overrides the mount's defaults for this topic.
 * E_TOPIC_EXISTS, E_INVALID_NAME, E_INVALID_CONFIG, E_INVALID_REPLICATION_FACTOR. Names
 * that begin with
 * "__" are kept for topicfs itself: E_INVALID_NAME. Names that differ only in '.' and
 * '_' may stand side by side (Kafka refuses them, as its metrics can't tell them
 * apart).
 */
int cluster_create_topic(struct cluster *cluster, const char *name,
                         const cJSON *settings, uid_t uid, gid_t gid, mode_t mode,
                         char *why, size_t why_size);
/*
 * A topic that topicfs keeps for itself, whose name begins with "__": it belongs to the
 * owner of topics/, with mode 0700. -EPERM for who wants to delete it, or to add
 * partitions. Else as cluster_create_topic().
 */
int cluster_create_internal(struct cluster *cluster, const char *name,
                            const cJSON *settings, char *why, size_t why_size);
int cluster_delete_topic(struct cluster *cluster, const char *name, char *why,
                         size_t why_size);
/* `partition` must be the next number: E_INVALID_PARTITION otherwise, -EEXIST if there.
 */
int cluster_add_partition(struct cluster *cluster, const char *name, int32_t partition,
                          char *why, size_t why_size);
int cluster_set_config(struct cluster *cluster, const char *name, const cJSON *object,
                       char *why, size_t why_size);
/*
 * Recreates a topic whose store entries were lost, from what its partition directories
 * say: with this id, `partitions` partitions on this node and default settings. Their
 * leader epochs begin above any that the logs may hold. Also for names that begin with
 * "__". E_TOPIC_EXISTS (with any id), E_TOPIC_DELETED (this id was deleted),
 * E_INVALID_NAME, E_INVALID_PARTITION (partitions < 1).
 */
int cluster_adopt_topic(struct cluster *cluster, const char *name,
                        const struct topic_id *id, int32_t partitions, char *why,
                        size_t why_size);
/*
 * As cluster_adopt_topic(), for a topic that another store tells of
 * (coord/carry_over.h): also its settings and their version, owner, mode and time of
 * creation. 0 also if the topic is there already, under this name.
 */
int cluster_carry_topic(struct cluster *cluster, const struct topic *topic, char *why,
                        size_t why_size);
/* Likewise owner and mode of topics/ itself, unless the store has others. */
int cluster_carry_owner(struct cluster *cluster, const struct cluster_snapshot *from);
/* `name` NULL: of topics/ itself. (uid_t)-1, (gid_t)-1, (mode_t)-1 leave as it is. */
int cluster_set_owner(struct cluster *cluster, const char *name, uid_t uid, gid_t gid,
                      mode_t mode);

/*
 * Writes an admin file: operation is "preferred_replica_election",
 * "reassign_partitions" or "delete_topics"; validated as a whole, then carried out.
 * With one node all of them are done when this returns; the outcome stands in
 * cluster/admin/last/<operation>.
 */
int cluster_admin(struct cluster *cluster, const char *operation, const cJSON *request,
                  char *why, size_t why_size);

/*
 * What this node knows of its session with a shared store. While `reachable` is false,
 * cluster/ shows the last snapshot. A leader may act until deadline_ns (clock->mono_ns)
 * without hearing from the store; once `lost`, or self_epoch is -1 in the snapshot,
 * this node is fenced until it has registered anew, with a new broker epoch. Embedded:
 * always reachable, never lost, deadline INT64_MAX. Any thread.
 */
struct cluster_session {
    bool shared; /* other nodes may use the store */
    bool reachable;
    bool lost;
    int64_t silent_since_ms; /* wall clock; 0 while reachable */
    int64_t deadline_ns;
};
void cluster_session(struct cluster *cluster, struct cluster_session *out);

/* A broker in one incarnation. */
struct broker_incarnation {
    int32_t id;
    int64_t epoch;
};

/*
 * A leader's change of the in-sync replicas within its epoch: a compare-and-swap on the
 * state (`expected_state_revision`), on this node's registration, and on that of each
 * replica that joins. `next` is the whole new state; its leader and leader_epoch must
 * be the stored ones. `state_revision` (may be NULL) gets the new revision.
 *
 * 0; E_CONFLICT: the state or a registration is another one by now, nothing was
 * changed; E_OUTCOME_UNKNOWN: it may be stored, or become so: until a snapshot shows
 * another state revision, count the larger set; E_NOT_LEADER: not by the present
 * snapshot; E_SESSION_LOST; E_STORE_UNREACHABLE: nothing was changed. Does not wait for
 * the snapshot. Blocks on the store.
 */
int cluster_change_isr(struct cluster *cluster, const struct topic_id *topic,
                       int32_t partition, int64_t expected_state_revision,
                       const struct leadership *next,
                       const struct broker_incarnation *joining, uint32_t joining_count,
                       int64_t *state_revision);

/*
 * This node takes itself out of a partition's in-sync and eligible replicas
 * (coord/leadership.h: leadership_take_out), in a new leader epoch; suspect->id is this
 * node. Reads again and retries when it loses a race. 0 when the snapshot shows it,
 * also where there was nothing to do; else as cluster_change_isr. *revision (NULL is
 * fine): of the state that says so, or a later one.
 */
int cluster_take_out(struct cluster *cluster, const struct topic_id *topic,
                     int32_t partition, const struct suspect *suspect,
                     int64_t *revision);

/*
 * Completes the record of an election that may have lost messages by what a replica of
 * this node knows of it: the range then covers loss->from and loss->to as well (-1:
 * does not know). at_ms is not looked at. 0, also if the record of loss->epoch is not
 * the present one, or covers that already; else as cluster_change_isr.
 */
int cluster_record_loss(struct cluster *cluster, const struct topic_id *topic,
                        int32_t partition, const struct partition_loss *loss);

/*
 * Fast detection: the process of this incarnation is dead. Ends its registration, and
 * its controllership, so that leaders move now and not at the end of its session. Any
 * node may report; the transaction compares the broker epoch. 0; E_CONFLICT: the
 * registration is another one already, or another report came between; -EBUSY: it, or a
 * partition that it leads, had this within 10 s, whoever reported it: leave it to the
 * session.
 */
int cluster_report_dead(struct cluster *cluster, int32_t broker, int64_t broker_epoch);

/*
 * The tree under cluster/, rendered from a snapshot. `path` is relative ("" = the top,
 * "brokers/ids/0"). kind: 0 and CLUSTER_DIR or CLUSTER_FILE, or -ENOENT.
 *
 * The three admin operations are names that a user may create (`>`) at any time: kind
 * says CLUSTER_ADMIN_FILE for them whether the operation runs or not. The file is there
 * only while it runs: then list shows it and cluster_admin_running() is true; otherwise
 * read answers -ENOENT, and a lookup that is not for creating should too. list calls
 * fn(arg, name, is_dir) per entry; a nonzero return of fn ends it. read appends the
 * text with a final newline. All from memory; any thread.
 */
enum cluster_node_kind { CLUSTER_DIR, CLUSTER_FILE, CLUSTER_ADMIN_FILE };
int cluster_tree_kind(struct cluster *cluster, const char *path,
                      enum cluster_node_kind *kind);
int cluster_tree_list(struct cluster *cluster, const char *path,
                      int (*fn)(void *arg, const char *name, bool is_dir), void *arg);
int cluster_tree_read(struct cluster *cluster, const char *path, struct buf *out);
/* `operation`: the name in admin/, without a directory. */
bool cluster_admin_running(struct cluster *cluster, const char *operation);

#endif
