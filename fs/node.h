/*
 * The nodes that the kernel knows: what each look-up returned, for as long as the
 * kernel remembers it.
 *
 *     node = node_table_find(table, &place, &identity);        // one more look-up of
 * it if (node == NULL) node = node_table_add(table, node_new(...));         // or of
 * one that came first
 *     ... reply with node_id(node) ...
 *     node_table_forget(table, node, 1);                       // as often as looked up
 *
 * A directory or a small file is one node while it is known. What shows a log is one
 * node per anchor (base position, unclean generation, compactions), because the kernel
 * must never see two different contents in one node.
 *
 * A node of `log` or `append` that is open for writing is not found by further
 * look-ups: the kernel locks the inode of an O_APPEND write exclusively, so that on one
 * shared node appenders would queue behind each other, deaf even to SIGKILL, and so
 * would a reader's seek to the end. Who comes to it all the same, because two
 * looked it up before either opened it, is sent away with -ESTALE, at which the kernel
 * looks up again, once: that look-up gets a node of its own.
 *
 * Thread-safe: table->lock, a short leaf. What is marked [const] may be read without it
 * by whoever holds a look-up or an open.
 */
#ifndef TOPICFS_NODE_H
#define TOPICFS_NODE_H

#include "fs/tree.h"
#include "fs/view.h"

#include "replica/replica.h"

#include <uthash.h>

/* What distinguishes two nodes of one place. Zero for all that is not a log or part of
 * one. */
struct node_identity {
    int64_t base;        /* log position of the first byte; -1: none yet */
    uint64_t generation; /* unclean elections; of a segment: its version */
    uint64_t rewrites;   /* compactions */
};

struct node {
    struct tree_place place;         /* [const] */
    struct node_identity identity;   /* [const] */
    struct partition *partition;     /* [const] owned; NULL: not a view or segment */
    struct view *view;               /* [const] owned; NULL likewise */
    struct log_segment_info segment; /* [const] TREE_SEGMENT */

    uint64_t lookups;         /* [table->lock] */
    unsigned opens;           /* [table->lock] */
    unsigned writers;         /* [table->lock] */
    bool shared;              /* [table->lock] in the hash, so that look-ups find it */
    struct node *prev, *next; /* [table->lock] */
    UT_hash_handle hh;        /* [table->lock] */
    size_t key_length;        /* [const] */
    unsigned char key[];      /* [const] */
};

struct node_table;

struct node_table *node_table_new(void); /* NULL: no memory */
/* Frees all nodes. Nothing may be open. Accepts NULL. */
void node_table_free(struct node_table *table);

/* The root's id is 1, as the kernel wants it; others are found by their id in O(1). */
struct node *node_table_get(struct node_table *table, uint64_t id);
uint64_t node_id(const struct node_table *table, const struct node *node);

/* A node with this place and identity, looked up once more; NULL if there is none. */
struct node *node_table_find(struct node_table *table, const struct tree_place *place,
                             const struct node_identity *identity);
/* A new node outside of the table; the caller sets partition, view and segment, which
 * the node then owns. NULL: no memory. */
struct node *node_new(const struct tree_place *place,
                      const struct node_identity *identity);
/* Frees a node that was not added. Accepts NULL. */
void node_free(struct node *node);
/* Takes the node; looked up once. If an equal one came first, that one is returned and
 * the new one freed. */
struct node *node_table_add(struct node_table *table, struct node *node);
/* Takes the node without showing it to other look-ups. */
void node_table_add_own(struct node_table *table, struct node *node);
/* Is this the look-up after a refusal, which is to get a node of its own? */
bool node_table_wants_own(struct node_table *table, const struct tree_place *place,
                          int64_t thread, int64_t now_ms);
void node_table_forget(struct node_table *table, struct node *node, uint64_t lookups);

/*
 * An open file on the node. `thread` is the opener's thread id and now_ms a monotonic
 * time, to recognise the kernel's second attempt. 0, or -ESTALE (see above).
 */
int node_table_open(struct node_table *table, struct node *node, bool writing,
                    int64_t thread, int64_t now_ms);
void node_table_close(struct node_table *table, struct node *node, bool writing);

/*
 * For invalidation: ids of the directories and small files of one topic that are known
 * now (topic_id NULL: topics/ alone). Returns how many there are; stores at most
 * `count`.
 */
size_t node_table_ids(struct node_table *table, const struct topic_id *topic_id,
                      uint64_t *ids, size_t count);

/* How many nodes are known, for tests and diagnosis. */
size_t node_table_count(struct node_table *table);

#endif
