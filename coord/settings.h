/*
 * Every setting, in one table: name, type, range, default, scope, help. The mount
 * options,
 * `--help`, the man page, docs/config.md and config.json all come from it.
 *
 *     struct topic_config config;
 *     topic_config_defaults(&config);
 *     rc = settings_set_text(&config, SETTING_TOPIC, "retention_ms", "7d", why, sizeof
 * why);
 *
 * Values in text: integers; sizes with k, m, g (powers of 1024); times in ms, or with
 * ms, s, m, h, d; booleans true/false; names of an enumeration.
 *
 * Pure; any thread; the structs have one owner.
 */
#ifndef TOPICFS_SETTINGS_H
#define TOPICFS_SETTINGS_H

#include "coord/buf.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting_scope { SETTING_MOUNT, SETTING_TOPIC, SETTING_GROUP };

enum topic_acks { ACKS_ALL = -1, ACKS_NONE = 0, ACKS_LEADER = 1 };
enum topic_flush { FLUSH_ACK, FLUSH_INTERVAL, FLUSH_OS };
enum topic_cleanup { CLEANUP_DELETE = 1, CLEANUP_COMPACT = 2 };
enum topic_below_min { BELOW_MIN_WAIT, BELOW_MIN_FAIL };

enum node_role { ROLE_REPLICA, ROLE_CLIENT };
enum group_start { GROUP_START_EARLIEST, GROUP_START_LATEST };
enum group_commit_mode { GROUP_COMMIT_AUTO, GROUP_COMMIT_MANUAL };

enum { UNCLEAN_NEVER = -1, UNCLEAN_AT_ONCE = 0, KEY_DELIMITER_NONE = -1 };

/* A topic's settings; 64-bit so that one table entry can describe each field. */
struct topic_config {
    int64_t partitions;         /* read-only after creation but through mkdir */
    int64_t replication_factor; /* read-only after creation; 0 = min(3, live nodes) */
    int64_t acks;               /* enum topic_acks */
    int64_t
        min_insync_replicas; /* 0 = 2 where replication_factor is 3 or more, else 1 */
    int64_t on_below_min;    /* enum topic_below_min */
    int64_t flush;           /* enum topic_flush */
    int64_t flush_ms;
    int64_t max_message_bytes; /* of a line, without its newline */
    int64_t segment_bytes;
    int64_t segment_ms;
    int64_t retention_ms;            /* -1 = for ever */
    int64_t retention_bytes;         /* -1 = without limit */
    int64_t cleanup_policy;          /* enum topic_cleanup */
    int64_t key_delimiter;           /* one byte, or KEY_DELIMITER_NONE ("" in JSON) */
    int64_t unclean_leader_election; /* UNCLEAN_NEVER, UNCLEAN_AT_ONCE, or ms to wait */
    int64_t delivery_timeout_ms;
    int64_t replica_lag_time_max_ms;
    int64_t replica_lag_max_messages; /* 0 = off */
    int64_t was_compacted; /* no setting: 1 = cleanup_policy had compact before, and
                            * messages may be missing between others */
};

/* A consumer group's settings. */
struct group_config {
    int64_t start;  /* enum group_start: of partitions without a committed offset */
    int64_t commit; /* enum group_commit_mode */
    int64_t group_session_timeout_ms;
    int64_t max_poll_interval_ms;
    int64_t offsets_retention_ms; /* of what has no members; -1 = for ever */
};

/* A mount's settings. Strings are owned by the struct (mount_config_free). */
struct mount_config {
    char *data;       /* the data directory */
    char *coord;      /* "embedded" or "etcd://host:port,..." or etcds:// */
    char *coord_user; /* of etcd; "" = none, as the following */
    char *coord_password_file;
    char *coord_ca;
    char *coord_cert;
    char *coord_key;
    char *cluster;    /* name of the cluster */
    int64_t node;     /* broker id */
    int64_t role;     /* enum node_role */
    char *listen;     /* host:port of the HTTP server; "" = no server */
    char *advertise;  /* host:port that other nodes use */
    char *token_file; /* of the HTTP server; "" = none, as the following */
    char *tls_cert;
    char *tls_key;
    char *tls_ca;
    char *cluster_key; /* file of the secret that the cluster's nodes share */
    char *rack;
    int64_t session_timeout_ms;
    int64_t auto_leader_rebalance; /* bool */
    int64_t allow_other;           /* bool; set when mounted by root */
    struct topic_config
        topic; /* defaults for new topics: same names, as mount options */
    struct group_config group; /* defaults for groups, likewise */
};

void topic_config_defaults(struct topic_config *config);
void group_config_defaults(struct group_config *config);
int mount_config_defaults(struct mount_config *config);
void mount_config_free(struct mount_config *config);

/* min_insync_replicas with its default filled in (replication_factor being resolved).
 */
int64_t topic_config_min_insync(const struct topic_config *config);

/*
 * Sets one key of `config` (a struct topic_config, group_config or mount_config, by
 * scope) from text. For SETTING_MOUNT the names of the topics' and the groups' settings
 * set the defaults for those. A `value` of NULL is a mount option without "=": it
 * switches on what is true or false. 0; E_INVALID_CONFIG with `why` telling what is
 * wrong and what is allowed; -ENOMEM. After an error the config is as before; `why` is
 * one line of UTF-8, empty after success.
 */
int settings_set_text(void *config, enum setting_scope scope, const char *name,
                      const char *value, char *why, size_t why_size);

/*
 * Applies a JSON object to the config of a topic or a group (by scope; not of a mount),
 * all or nothing: the keys named are changed, null restores the value of `defaults` (of
 * the same type), read-only keys are accepted if unchanged (E_READ_ONLY otherwise);
 * unknown keys, wrong types, out of range, combinations that make no sense:
 * E_INVALID_CONFIG, `why` (may be NULL) says which and what is allowed. The key
 * "version" is compared with `version` (E_CONFLICT) if present. `creating` allows the
 * read-only keys.
 */
int settings_apply_json(void *config, enum setting_scope scope, const void *defaults,
                        const cJSON *object, int64_t version, bool creating, char *why,
                        size_t why_size);

/* The config of a topic or a group as a JSON object, keys in table order, "version"
 * first; NULL: no memory. */
cJSON *settings_to_json(const void *config, enum setting_scope scope, int64_t version);

/* Help text for `--help` (one line a setting), and the table of docs/config.md. */
int settings_help(struct buf *out, enum setting_scope scope);
int settings_markdown(struct buf *out);

#endif
