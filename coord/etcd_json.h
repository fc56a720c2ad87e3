/*
 * The bodies of etcd's JSON gateway (API v3): requests are written, replies are read.
 *
 *     struct buf body;
 *     buf_init(&body, ETCD_BODY_MAX);
 *     etcd_json_range(&body, "/topicfs/test/", &(struct etcd_range){.prefix = true});
 *     ... POST /v3/kv/range ...
 *     rc = etcd_json_list(reply, length, &list);
 *
 * Keys and values travel as base64, 64-bit numbers as strings, and what is zero, false
 * or empty is left out of a reply. Whatever else a reply may hold (another type, bad
 * base64, a cut end) is -EBADMSG: a reply is never trusted. A key with a NUL byte in it
 * can't be one of ours and is passed over.
 *
 * Writers report through the buffer's error. Pure; any thread.
 */
#ifndef TOPICFS_ETCD_JSON_H
#define TOPICFS_ETCD_JSON_H

#include "coord/buf.h"
#include "coord/store.h"

#define ETCD_BODY_MAX ((size_t)64 * 1024 * 1024) /* of a reply; etcd sets no limit */

struct etcd_range {
    bool prefix;    /* all keys that begin with the key, else the key itself */
    bool keys_only; /* values are left out */
    int64_t limit;  /* 0: none */
    int64_t revision;
    int64_t min_mod_revision;
};

void etcd_json_range(struct buf *body, const char *key, const struct etcd_range *range);
/* Leased puts are bound to `lease`. */
void etcd_json_txn(struct buf *body, const struct store_txn *txn, int64_t lease);
void etcd_json_grant(struct buf *body, int64_t lease, int64_t ttl_s);
void etcd_json_lease(struct buf *body, int64_t lease); /* keepalive, revoke */
void etcd_json_authenticate(struct buf *body, const char *user, const char *password);
void etcd_json_watch(struct buf *body, const char *prefix, int64_t start_revision);

/* The items are sorted by key. 0, -EBADMSG, or -ENOMEM; *out is empty on error. */
int etcd_json_list(const char *bytes, size_t length, struct store_list *out);

struct etcd_txn_reply {
    bool succeeded; /* else a comparison failed */
    bool changed;   /* something was put or deleted: the revision is this one's own */
    int64_t revision;
};
int etcd_json_txn_reply(const char *bytes, size_t length, struct etcd_txn_reply *out);

/* Of a grant or a keepalive: the seconds to live, 0 if the lease is gone. */
struct etcd_lease_reply {
    int64_t ttl_s;
    int64_t revision; /* the store's */
};
int etcd_json_lease_reply(const char *bytes, size_t length,
                          struct etcd_lease_reply *out);

/* The caller frees *token. */
int etcd_json_token(const char *bytes, size_t length, char **token);

/* A failure in etcd's words. What is not JSON becomes the text as it is, code -1. */
struct etcd_failure {
    int code; /* gRPC's */
    char text[256];
};
void etcd_json_failure(const char *bytes, size_t length, struct etcd_failure *out);

/* One line of a watch's stream; freed with etcd_json_watch_free. */
struct etcd_watch_reply {
    bool created;
    bool canceled;
    bool fragment; /* the rest of these events follows in the next line */
    int64_t compact_revision;
    int64_t revision; /* the store's, as that member knows it; 0 if it did not say */
    bool failed;
    struct etcd_failure failure; /* failed or canceled */
    struct store_kv *events;     /* value NULL: deleted */
    size_t event_count;
};
int etcd_json_watch_reply(const char *bytes, size_t length,
                          struct etcd_watch_reply *out);
void etcd_json_watch_free(struct etcd_watch_reply *reply);

#endif
