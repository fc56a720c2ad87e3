/*
 * What tree.c and tree_group.c share.
 */
#ifndef TOPICFS_TREE_INTERNAL_H
#define TOPICFS_TREE_INTERNAL_H

#include "fs/tree.h"

/* Fixed names; the ones not listed are there for who knows them. */
struct tree_name {
    const char *name; /* NULL ends the list */
    enum tree_kind kind;
    bool listed;
};

const struct tree_name *tree_name_find(const struct tree_name *names, const char *name);
int tree_list_names(const struct tree_place *parent, const struct tree_name *names,
                    tree_list_fn *fn, void *arg);
/* The partitions of the topic that `parent` is in, by number, as places of `kind`. */
int tree_list_partitions(const struct tree *tree, const struct tree_place *parent,
                         enum tree_kind kind, tree_list_fn *fn, void *arg);

/* The topic that `place` is in, if it is still the same one; else NULL. */
const struct topic *tree_topic(const struct cluster_snapshot *snapshot,
                               const struct tree_place *place);
/* *out is the place of the topic's directory: 0 or -ENOENT. */
int tree_topic_place(const struct tree *tree, const char *name, struct tree_place *out);
/* *out, which is in a topic, becomes one of its partition of that number: 0, -ENOENT,
 * -ESTALE. */
int tree_partition_place(const struct tree *tree, const char *name,
                         struct tree_place *out);

/* tree_child(), tree_list() and tree_parent() for what is in groups/. */
int tree_group_child(const struct tree *tree, const char *name, struct tree_place *out);
int tree_group_list(const struct tree *tree, const struct tree_place *place,
                    tree_list_fn *fn, void *arg);
void tree_group_parent(struct tree_place *place);
#endif
