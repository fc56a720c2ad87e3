/*
 * The JSON values of the coordination store's keys: encode and decode, field for field
 * as Kafka has them in ZooKeeper, plus the few of our own.
 *
 *     controller                            {"version":1,"brokerid":8}
 *     controller_epoch                      29
 *     brokers/ids/<id> {"jmx_port":-1,"host":"n1","version":1,"port":9640} and "rack",
 *         "instance", "role":"client", "started":"process_crash" or "machine_crash"
 *     brokers/stopping/<id>                 {"version":1,"brokerid":8}
 *     brokers/deposed                       see coord/deposals.h
 *     brokers/topics/<t>/assignment
 * {"version":1,"partitions":{"0":[1,2]},"id":"<hex>"}
 *     brokers/topics/<t>/partitions/<p>/state
 *         {"controller_epoch":29,"leader":2,"version":1,"leader_epoch":48,"isr":[2,3]}
 *         and, where there is something to say: "elr":[4];
 *         "suspects":[{"id":3,"kind":"crashed","last_epoch":47,"end_offset":90}];
 *         "lossy_epoch":46; "loss":{"epoch":46,"at_ms":...,"from":80,"to":90} of the
 *         last election that may have lost messages, -1 for an offset not known (yet)
 *     config/topics/<t> {"version":1,"config_version":3,"config":{...}}
 *     attributes/topics/<t>                 {"version":1,"uid":0,"gid":0,"mode":"0755",
 *                                            "created_ms":1764417600000}
 *     attributes/topics                     the same without created_ms: of topics/
 * itself deleted/<topic id> {"version":1,"topic":"t","deleted_ms":...}
 *
 * Decoders take text of any origin: 0; E_INVALID_JSON for text that is not JSON or not
 * of this form; -ENOMEM. On failure *out holds nothing to free. Encoders append to a
 * buffer and return its error.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_CLUSTER_STATE_H
#define TOPICFS_CLUSTER_STATE_H

#include "coord/cluster.h"
#include "coord/leadership.h"

enum { INSTANCE_MAX = 64 };

struct id_list { /* broker ids */
    int32_t *ids;
    uint32_t count;
};

struct assignment {
    struct topic_id id;
    struct id_list *partitions; /* by partition number */
    int32_t partition_count;
};

struct partition_state {
    int32_t controller_epoch;
    int32_t leader; /* -1: none */
    int32_t leader_epoch;
    struct id_list isr;
    struct id_list elr;
    struct suspect *suspects; /* owned; NULL: none */
    uint32_t suspect_count;
    int32_t lossy_epoch;        /* -1: none */
    struct partition_loss loss; /* epoch -1: none */
};

struct registration {
    char host[256];
    int32_t port;
    char rack[128]; /* "": none */
    char instance[INSTANCE_MAX + 1];
    bool client; /* keeps no replicas */
    enum node_started started;
};

struct topic_settings {
    int64_t config_version;
    cJSON *overrides;   /* an object */
    bool was_compacted; /* see struct topic_config */
};

struct attributes {
    uid_t uid;
    gid_t gid;
    mode_t mode;
    int64_t created_ms; /* 0 for topics/ itself */
};

int id_list_copy(struct id_list *out, const int32_t *ids, uint32_t count);
void id_list_free(struct id_list *list);
bool id_list_contains(const struct id_list *list, int32_t id);

/* With room for partition_count of them; those beyond `from` are empty. 0 or -ENOMEM,
 * then *out owns nothing. */
int assignment_copy(struct assignment *out, const struct assignment *from,
                    int32_t partition_count);
void assignment_free(struct assignment *assignment);
/* A state without leader, replicas or epochs; it owns nothing. */
void partition_state_init(struct partition_state *state);
/* 0 or -ENOMEM, then *out owns nothing. */
int partition_state_copy(struct partition_state *out,
                         const struct partition_state *state);
void partition_state_free(struct partition_state *state);
/* From the form that decisions take. The loss is not part of that: it is kept from
 * `old` (may be NULL). 0 or -ENOMEM. */
int partition_state_from_leadership(const struct leadership *leadership,
                                    const struct partition_state *old,
                                    struct partition_state *out);
void topic_settings_free(struct topic_settings *settings);

int controller_encode(struct buf *out, int32_t broker);
int controller_decode(const char *text, int32_t *broker);
int controller_epoch_encode(struct buf *out, int32_t epoch);
int controller_epoch_decode(const char *text, int32_t *epoch);
/* epoch > 0 adds "epoch", for showing: in the store it is the key's create revision. */
int registration_encode(struct buf *out, const struct registration *registration,
                        int64_t epoch);
int registration_decode(const char *text, struct registration *out);
int assignment_encode(struct buf *out, const struct assignment *assignment);
int assignment_decode(const char *text, struct assignment *out);
int partition_state_encode(struct buf *out, const struct partition_state *state);
int partition_state_decode(const char *text, struct partition_state *out);
/* overrides NULL: none. */
int topic_settings_encode(struct buf *out, const struct topic_settings *settings);
int topic_settings_decode(const char *text, struct topic_settings *out);
int attributes_encode(struct buf *out, const struct attributes *attributes);
int attributes_decode(const char *text, struct attributes *out);
int tombstone_encode(struct buf *out, const char *topic, int64_t deleted_ms);
int tombstone_decode(const char *text, int64_t *deleted_ms);

#endif
