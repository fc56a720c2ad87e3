/*
 * The error table: every domain error with its name, number, errno and text, in one
 * place.
 *
 * Functions return 0 (or a count) on success, else a negative number: a negative errno,
 * or a negative domain code from this table (all below -1000). err_errno() is the one
 * place where a code becomes an errno for a user.
 *
 * Wire values are Kafka's protocol error codes where Kafka has the error; those above
 * 1000 are our own.
 *
 * All functions are pure and may be called from any thread.
 */
#ifndef TOPICFS_ERR_H
#define TOPICFS_ERR_H

#include <errno.h>

/* clang-format off */
/*        name                     code  errno         wire  text */
#define TOPICFS_ERRORS(X)                                                                \
    X(MESSAGE_TOO_LARGE,          -1001, EMSGSIZE,     10,   "line is longer than max_message_bytes") \
    X(NOT_ENOUGH_REPLICAS,        -1002, EROFS,        19,   "fewer in-sync replicas than min_insync_replicas; nothing was appended") \
    X(NO_LEADER,                  -1003, EHOSTUNREACH, 5,    "the partition has no leader that can be reached") \
    X(NOT_LEADER,                 -1004, EHOSTUNREACH, 6,    "this node does not lead the partition") \
    X(COMMIT_TIMEOUT,             -1005, ETIMEDOUT,    7,    "appended, but not committed in delivery_timeout_ms; it may commit later") \
    X(TOPIC_DELETED,              -1006, ESTALE,       3,    "the topic was deleted") \
    X(OFFSET_BELOW_START,         -1007, ESTALE,       1,    "the offset lies below the log start: retention deleted it") \
    X(RANGE_REWRITTEN,            -1008, ESTALE,       1001, "compaction rewrote this range after the view was opened") \
    X(DAMAGED,                    -1009, EIO,          2,    "the stored bytes do not match their checksum; see cluster/problems") \
    X(OFFLINE,                    -1010, EIO,          56,   "the partition is offline after a disk error; see cluster/problems") \
    X(FENCED_EPOCH,               -1011, ESTALE,       74,   "the leader epoch is older than the partition's") \
    X(OUT_OF_ORDER_SEQUENCE,      -1012, EIO,          45,   "the producer's sequence does not continue its last one") \
    X(INVALID_NAME,               -1013, EINVAL,       17,   "a topic name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is not . or ..") \
    X(INVALID_CONFIG,             -1014, EINVAL,       40,   "the setting is unknown, malformed or out of range") \
    X(INVALID_JSON,               -1015, EINVAL,       1002, "malformed JSON") \
    X(INVALID_PARTITION,          -1016, EINVAL,       37,   "partitions are numbered without gaps: only the next one can be added") \
    X(CONFLICT,                   -1017, EAGAIN,       1003, "the stored version is another one; read it again and retry") \
    X(TOPIC_EXISTS,               -1018, EEXIST,       36,   "the topic exists") \
    X(UNKNOWN_TOPIC,              -1019, ENOENT,       3,    "no such topic") \
    X(INVALID_REPLICATION_FACTOR, -1020, EINVAL,       38,   "replication_factor is larger than the number of live nodes") \
    X(NEWER_FORMAT,               -1021, EPROTONOSUPPORT, 1004, "written by a newer topicfs") \
    X(IN_USE,                     -1022, EBUSY,        1005, "another topicfs process uses this data directory") \
    X(CORRUPT,                    -1023, EIO,          1006, "a file of the data directory is damaged") \
    X(READ_ONLY,                  -1024, EPERM,        1007, "this key can't be changed") \
    X(OUTCOME_UNKNOWN,            -1025, ETIMEDOUT,    1008, "the coordination store did not answer; the change may have happened or not") \
    X(STORE_UNREACHABLE,          -1026, EHOSTUNREACH, 1009, "the coordination store can't be reached") \
    X(SESSION_LOST,               -1027, EHOSTUNREACH, 1010, "this node's session with the coordination store is over") \
    X(STALE_BROKER_EPOCH,         -1028, ESTALE,       77,   "the broker epoch is older than the node's registration") \
    X(UNKNOWN_EPOCH,              -1029, EAGAIN,       75,   "the leader epoch is newer than this node knows") \
    X(NODE_ID_TAKEN,              -1030, EADDRINUSE,   101,  "another node with this id is alive in the cluster") \
    X(NO_COORDINATOR,             -1031, EHOSTUNREACH, 15,   "the group's coordinator can't be reached") \
    X(NOT_COORDINATOR,            -1032, EHOSTUNREACH, 16,   "this node does not coordinate the group") \
    X(GROUP_MEMBER_UNKNOWN,       -1033, ESTALE,       25,   "the group has no such member; it may have been removed after a silence") \
    X(GROUP_FENCED,               -1034, ESTALE,       110,  "another member of the group has the partition by now") \
    X(GROUP_BUSY,                 -1035, EBUSY,        68,   "the group has members that read the topic: close them first")
/* clang-format on */

enum topicfs_error {
#define X(name, code, err, wire, text) E_##name = (code),
    TOPICFS_ERRORS(X)
#undef X
};

/* The positive errno that a user gets for `code` (0 for 0; a negative errno is
 * negated). */
int err_errno(int code);

/* A short English text for `code`, never NULL; static storage. */
const char *err_text(int code);

/* "MESSAGE_TOO_LARGE", or "errno" for plain errnos; static storage. */
const char *err_name(int code);

/* The number of `code` on the wire; -1 (unknown server error) for a plain errno. */
int err_wire(int code);

#endif
