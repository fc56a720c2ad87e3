#include "coord/settings_table.h"

#include "coord/cluster.h"
#include "coord/json.h"

#include <limits.h>
#include <string.h>

/* A hundred years: as nanoseconds, and added to now, it still fits 64 bits. */
#define AGE_MAX_MS (36500 * DAY_MS)
#define EXACT_MAX  ((INT64_C(1) << 53) - 1)

enum { TEXT_MAX_BYTES = 249 };

static const struct setting_name names_bool[] = {
    {"false", 0, false}, {"true", 1, false}, {"no", 0, true},  {"yes", 1, true},
    {"0", 0, true},      {"1", 1, true},     {NULL, 0, false},
};
static const struct setting_name names_role[] = {
    {"replica", ROLE_REPLICA, false},
    {"client", ROLE_CLIENT, false},
    {NULL, 0, false},
};
static const struct setting_name names_acks[] = {
    {"all", ACKS_ALL, false}, {"1", ACKS_LEADER, false}, {"0", ACKS_NONE, false},
    {"-1", ACKS_ALL, true},   {NULL, 0, false},
};
static const struct setting_name names_flush[] = {
    {"ack", FLUSH_ACK, false},
    {"interval", FLUSH_INTERVAL, false},
    {"os", FLUSH_OS, false},
    {NULL, 0, false},
};
static const struct setting_name names_below_min[] = {
    {"wait", BELOW_MIN_WAIT, false},
    {"fail", BELOW_MIN_FAIL, false},
    {NULL, 0, false},
};
static const struct setting_name names_cleanup[] = {
    {"delete", CLEANUP_DELETE, false},
    {"compact", CLEANUP_COMPACT, false},
    {NULL, 0, false},
};
static const struct setting_name names_delimiter[] = {
    {"tab", '\t', false},  {"none", KEY_DELIMITER_NONE, false}, {"comma", ',', false},
    {"space", ' ', false}, {"", KEY_DELIMITER_NONE, true},      {"\\t", '\t', true},
    {NULL, 0, false},
};
static const struct setting_name names_unclean[] = {
    {"false", UNCLEAN_NEVER, false},
    {"true", UNCLEAN_AT_ONCE, false},
    {NULL, 0, false},
};

/* Is [*at, end) a host:port? An IPv6 address stands in brackets. */
static bool valid_host_port(const char *at, const char *end)
{
    static const char host_chars[] = "abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    const char *colon = NULL;
    size_t host;
    int port = 0;

    for (const char *c = at; c < end; c++)
        if (*c == ':')
            colon = c;
    if (!colon || colon == at || colon + 1 == end || end - colon > 6)
        return false;
    if (*at == '[') {
        host = strspn(at + 1, "0123456789abcdefABCDEF:.");
        if (host == 0 || at[1 + host] != ']' || at + host + 2 != colon)
            return false;
    } else if (at + strspn(at, host_chars) != colon) {
        return false;
    }
    for (const char *c = colon + 1; c < end; c++) {
        if (*c < '0' || *c > '9')
            return false;
        port = port * 10 + (*c - '0');
    }
    return port <= 65535;
}

static bool valid_address(const char *value)
{
    return !*value || valid_host_port(value, value + strlen(value));
}

static bool valid_coord(const char *value)
{
    static const char etcd[] = "etcd://", etcds[] = "etcds://";
    const char *at = value;

    if (strcmp(value, "embedded") == 0)
        return true;
    if (strncmp(value, etcd, sizeof etcd - 1) == 0)
        at += sizeof etcd - 1;
    else if (strncmp(value, etcds, sizeof etcds - 1) == 0)
        at += sizeof etcds - 1;
    else
        return false;
    for (;;) {
        const char *end = strchrnul(at, ',');

        if (!valid_host_port(at, end))
            return false;
        if (!*end)
            return true;
        at = end + 1;
    }
}

static bool valid_path(const char *value)
{
    return *value && strlen(value) < PATH_MAX;
}

static bool valid_file(const char *value)
{
    return strlen(value) < PATH_MAX;
}

/* A part of a path in the store, so the same rule as for a topic's name. */
static bool valid_cluster(const char *value)
{
    return topic_name_check(value) == 0;
}

/* It is shown as a JSON string and compared for equality only. */
static bool valid_rack(const char *value)
{
    size_t length = strlen(value);

    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            return false;
    return length <= TEXT_MAX_BYTES && json_utf8_valid(value, length);
}

static const struct setting_name names_start[] = {
    {"earliest", GROUP_START_EARLIEST, false},
    {"latest", GROUP_START_LATEST, false},
    {NULL, 0, false},
};
static const struct setting_name names_commit[] = {
    {"auto", GROUP_COMMIT_AUTO, false},
    {"manual", GROUP_COMMIT_MANUAL, false},
    {NULL, 0, false},
};

/* Strings of a kind; nothing by default. */
#define STRING(check, takes)                                                           \
    .type = SETTING_STRING, .initial_text = "", .valid = (check), .allowed = (takes)
#define A_FILE STRING(valid_file, "a path, or nothing")
#define AN_ADDRESS                                                                     \
    STRING(valid_address, "host:port (an IPv6 address in brackets), or nothing")
#define A_WORD                                                                         \
    STRING(valid_rack, "at most 249 bytes of UTF-8 without control characters")

#define AT(field)               .at = offsetof(struct mount_config, field)
#define RANGE(low, high, first) .minimum = (low), .maximum = (high), .initial = (first)

static const struct setting table_mount[] = {
    {.name = "data",
     .type = SETTING_STRING,
     AT(data),
     .initial_text = "/var/lib/topicfs",
     .valid = valid_path,
     .allowed = "a path",
     .default_note = "`/var/lib/topicfs`; for users other than root "
                     "`~/.local/share/topicfs`",
     .help = "Directory for this node's logs; it must be on a local filesystem"},
    {.name = "coord",
     .type = SETTING_STRING,
     AT(coord),
     .initial_text = "embedded",
     .valid = valid_coord,
     .allowed = "embedded, or etcd://host:port[,host:port...], or etcds:// for TLS",
     .help = "Coordination store: `embedded` keeps it in the data directory, for one "
             "node; several nodes share an etcd"},
    {.name = "coord_user",
     AT(coord_user),
     A_WORD,
     .help = "User name at etcd, where its authentication is on"},
    {.name = "coord_password_file",
     AT(coord_password_file),
     A_FILE,
     .help = "File whose first line is the password of coord_user"},
    {.name = "coord_ca",
     AT(coord_ca),
     A_FILE,
     .help = "Certificates (PEM) of who signs those of etcd; nothing: the authorities "
             "of the system"},
    {.name = "coord_cert",
     AT(coord_cert),
     A_FILE,
     .help = "Certificate (PEM) of this node at etcd"},
    {.name = "coord_key",
     AT(coord_key),
     A_FILE,
     .help = "Private key (PEM) of coord_cert"},
    {.name = "cluster",
     .type = SETTING_STRING,
     AT(cluster),
     .initial_text = "default",
     .valid = valid_cluster,
     .allowed = "1 to 249 of the characters a-z A-Z 0-9 . _ - and not . or ..",
     .help = "Name of the cluster; clusters of different names can share one store"},
    {.name = "node",
     .type = SETTING_INTEGER,
     AT(node),
     RANGE(0, INT32_MAX, 1),
     .help = "Number of this node, unique in its cluster and for ever the same for one "
             "data directory"},
    {.name = "role",
     .type = SETTING_CHOICE,
     AT(role),
     RANGE(ROLE_REPLICA, ROLE_CLIENT, ROLE_REPLICA),
     .names = names_role,
     .help = "`client` mounts the cluster without keeping replicas of it"},
    {.name = "listen",
     AT(listen),
     AN_ADDRESS,
     .help =
         "Address of this node's HTTP server, such as `127.0.0.1:9640`; nothing: no "
         "server"},
    {.name = "advertise",
     AT(advertise),
     AN_ADDRESS,
     .default_note = "the value of `listen`",
     .help = "Address under which the other nodes reach this one"},
    {.name = "token_file",
     AT(token_file),
     A_FILE,
     .help = "File of the HTTP server's tokens, one `token user` a line; needed, or "
             "tls_ca, "
             "to listen elsewhere than on the loopback interface"},
    {.name = "tls_cert",
     AT(tls_cert),
     A_FILE,
     .help =
         "Certificate chain (PEM) of the HTTP server, which then speaks HTTPS alone"},
    {.name = "tls_key", AT(tls_key), A_FILE, .help = "Private key (PEM) of tls_cert"},
    {.name = "tls_ca",
     AT(tls_ca),
     A_FILE,
     .help =
         "Certificates (PEM) of who signs those of HTTPS clients; the common name of a "
         "client's certificate is its user"},
    {.name = "cluster_key",
     AT(cluster_key),
     A_FILE,
     .help =
         "File of a secret that all nodes of the cluster share, 16 to 512 printable "
         "characters in one line; with it, what nodes tell each other is taken from "
         "who knows it alone. Without: from this user's and root's processes, "
         "tokens and certificates"},
    {.name = "rack",
     AT(rack),
     A_WORD,
     .help = "Where this node stands; shown in its registration under cluster/brokers"},
    {.name = "session_timeout_ms",
     .type = SETTING_TIME,
     AT(session_timeout_ms),
     RANGE(500, HOUR_MS, 6 * SECOND_MS),
     .help = "How long a node may be silent before the others take it for dead"},
    {.name = "auto_leader_rebalance",
     .type = SETTING_CHOICE,
     AT(auto_leader_rebalance),
     RANGE(0, 1, 1),
     .names = names_bool,
     .help = "While this node is the controller it gives leadership back to each "
             "partition's preferred replica, once that is in sync again"},
    {.name = "allow_other",
     .type = SETTING_CHOICE,
     AT(allow_other),
     RANGE(0, 1, 0),
     .names = names_bool,
     .default_note = "true when root mounts, else false",
     .help = "Other users may use the mount, as far as modes and owners let them"},
};

#undef AT
#define AT(field) .at = offsetof(struct topic_config, field)

static const struct setting table_topic[] = {
    {.name = "partitions",
     .type = SETTING_INTEGER,
     .read_only = true,
     AT(partitions),
     RANGE(1, PARTITIONS_MAX, 1),
     .help =
         "Number of partitions; later raised by mkdir of the next one, never lowered"},
    {.name = "replication_factor",
     .type = SETTING_INTEGER,
     .read_only = true,
     AT(replication_factor),
     RANGE(0, LEADERSHIP_REPLICAS_MAX, 0),
     .default_note = "3, or the number of nodes where there are fewer",
     .help = "Number of nodes that keep a copy of each partition; 0 means the default"},
    {.name = "acks",
     .type = SETTING_CHOICE,
     AT(acks),
     RANGE(ACKS_ALL, ACKS_LEADER, ACKS_ALL),
     .names = names_acks,
     .help = "When write(2) returns: `all` once the message is committed, `1` once the "
             "leader has it, `0` once this node has taken it"},
    {.name = "min_insync_replicas",
     .type = SETTING_INTEGER,
     AT(min_insync_replicas),
     RANGE(0, LEADERSHIP_REPLICAS_MAX, 0),
     .default_note = "2 where replication_factor is 3 or more, else 1",
     .help =
         "In-sync replicas that a message needs to be committed; 0 means the default"},
    {.name = "on_below_min",
     .type = SETTING_CHOICE,
     AT(on_below_min),
     RANGE(BELOW_MIN_WAIT, BELOW_MIN_FAIL, BELOW_MIN_WAIT),
     .names = names_below_min,
     .help = "A write while fewer replicas than that are in sync: `wait` up to "
             "delivery_timeout_ms, or `fail` at once"},
    {.name = "flush",
     .type = SETTING_CHOICE,
     AT(flush),
     RANGE(FLUSH_ACK, FLUSH_OS, FLUSH_ACK),
     .names = names_flush,
     .help = "When messages go to the disk: `ack` before a replica counts them as its "
             "own, `interval` every flush_ms, `os` when the kernel sees fit"},
    {.name = "flush_ms",
     .type = SETTING_TIME,
     AT(flush_ms),
     RANGE(1, DAY_MS, SECOND_MS),
     .help = "Time between flushes where flush is `interval`"},
    {.name = "max_message_bytes",
     .type = SETTING_SIZE,
     AT(max_message_bytes),
     RANGE(1, 64 * MIB, MIB),
     .help =
         "Longest message, without its newline; a longer one is refused with EMSGSIZE"},
    {.name = "segment_bytes",
     .type = SETTING_SIZE,
     AT(segment_bytes),
     RANGE(KIB, 2 * GIB - 1, 256 * MIB),
     .help =
         "A new segment begins at this size; a batch that is larger gets one alone"},
    {.name = "segment_ms",
     .type = SETTING_TIME,
     AT(segment_ms),
     RANGE(1, AGE_MAX_MS, 7 * DAY_MS),
     .help = "A new segment begins at this age, or at retention_ms if that is less"},
    {.name = "retention_ms",
     .type = SETTING_TIME,
     AT(retention_ms),
     RANGE(-1, AGE_MAX_MS, 7 * DAY_MS),
     .help = "Messages that are older are deleted, whole segments at a time: the last "
             "at twice this age; -1: never"},
    {.name = "retention_bytes",
     .type = SETTING_SIZE,
     AT(retention_bytes),
     RANGE(-1, EXACT_MAX, -1),
     .help = "The oldest segments are deleted while as much as this is left: a "
             "partition keeps up to twice as much; -1: never"},
    {.name = "cleanup_policy",
     .type = SETTING_CLEANUP,
     AT(cleanup_policy),
     RANGE(CLEANUP_DELETE, CLEANUP_DELETE | CLEANUP_COMPACT, CLEANUP_DELETE),
     .names = names_cleanup,
     .help =
         "What happens to old messages: `delete` by retention, `compact` to the last "
         "of each key, or both"},
    {.name = "key_delimiter",
     .type = SETTING_DELIMITER,
     AT(key_delimiter),
     RANGE(1, 127, '\t'),
     .names = names_delimiter,
     .help = "The byte that ends a message's key; without one, messages have no key"},
    {.name = "unclean_leader_election",
     .type = SETTING_TIME,
     AT(unclean_leader_election),
     RANGE(0, 30 * DAY_MS, UNCLEAN_NEVER),
     .names = names_unclean,
     .help = "With no in-sync replica alive: `false` waits for one, `true` lets any "
             "replica lead, which can lose messages; a time waits that long first"},
    {.name = "delivery_timeout_ms",
     .type = SETTING_TIME,
     AT(delivery_timeout_ms),
     RANGE(1, DAY_MS, 30 * SECOND_MS),
     .help = "How long a write tries before it fails"},
    {.name = "replica_lag_time_max_ms",
     .type = SETTING_TIME,
     AT(replica_lag_time_max_ms),
     RANGE(1, DAY_MS, 10 * SECOND_MS),
     .help =
         "A replica that hasn't been at the leader's end for this long is out of sync"},
    {.name = "replica_lag_max_messages",
     .type = SETTING_INTEGER,
     AT(replica_lag_max_messages),
     RANGE(0, EXACT_MAX, 0),
     .help = "A replica that is this many messages behind is out of sync; 0: no limit"},
};

#undef AT
#define AT(field) .at = offsetof(struct group_config, field)

static const struct setting table_group[] = {
    {.name = "start",
     .type = SETTING_CHOICE,
     AT(start),
     RANGE(GROUP_START_EARLIEST, GROUP_START_LATEST, GROUP_START_EARLIEST),
     .names = names_start,
     .help = "Where a group begins in a partition that it has no committed offset of: "
             "`earliest` with the first message that is there, `latest` with the next "
             "one to come"},
    {.name = "commit",
     .type = SETTING_CHOICE,
     AT(commit),
     RANGE(GROUP_COMMIT_AUTO, GROUP_COMMIT_MANUAL, GROUP_COMMIT_AUTO),
     .names = names_commit,
     .help = "`auto`: what a member has read is committed as it comes back for more; "
             "`manual`: what is written to the group's offsets"},
    {.name = "group_session_timeout_ms",
     .type = SETTING_TIME,
     AT(group_session_timeout_ms),
     RANGE(500, HOUR_MS, 10 * SECOND_MS),
     .help = "A member whose node wasn't heard of for this long loses its partitions "
             "to the others"},
    {.name = "max_poll_interval_ms",
     .type = SETTING_TIME,
     AT(max_poll_interval_ms),
     RANGE(500, 7 * DAY_MS, 300 * SECOND_MS),
     .help = "So does a member that holds messages for this long without coming back "
             "for more"},
    {.name = "offsets_retention_ms",
     .type = SETTING_TIME,
     AT(offsets_retention_ms),
     RANGE(-1, AGE_MAX_MS, 7 * DAY_MS),
     .help = "Committed offsets of a topic that has had no members of the group for "
             "this long are forgotten; -1: never"},
};

const struct setting *settings_table(enum setting_scope scope, size_t *count)
{
    if (scope == SETTING_MOUNT) {
        *count = sizeof table_mount / sizeof table_mount[0];
        return table_mount;
    }
    if (scope == SETTING_GROUP) {
        *count = sizeof table_group / sizeof table_group[0];
        return table_group;
    }
    *count = sizeof table_topic / sizeof table_topic[0];
    return table_topic;
}

const struct setting *settings_find(enum setting_scope scope, const char *name)
{
    size_t count;
    const struct setting *table = settings_table(scope, &count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
