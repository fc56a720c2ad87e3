/*
 * What the parts of one mount share. mount.c makes it and takes it down; all fields
 * but the counts are constant while requests are served.
 */
#ifndef TOPICFS_MOUNTED_H
#define TOPICFS_MOUNTED_H

#include "fs/answer.h"
#include "fs/node.h"
#include "fs/operations.h"
#include "fs/parking.h"
#include "fs/tree.h"

struct handle_table;
struct locks;
struct notifier;
struct previews;
struct worker;

struct mounted {
    struct tree tree;
    struct cluster *cluster; /* borrowed, as the next three */
    struct broker *broker;
    struct groups *groups;
    const struct clock *clock;
    struct node_table *nodes;
    struct handle_table *handles;
    struct operations *operations;
    struct parking *parking;
    struct locks *locks;
    struct notifier *notifier;
    struct worker *worker; /* of the groups' streams */
    struct previews *previews;
    struct answer_counts answers; /* changes while serving */
    _Atomic uint32_t
        rotation; /* where the next lines without a key go, see appender.h */
};

#endif
