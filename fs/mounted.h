/*
 * What the parts of one mount share. mount.c makes it and takes it down; all fields are
 * constant while requests are served.
 */
#ifndef TOPICFS_MOUNTED_H
#define TOPICFS_MOUNTED_H

#include "fs/node.h"
#include "fs/operations.h"
#include "fs/parking.h"
#include "fs/tree.h"

#include <stdatomic.h>

struct handle_table;
struct notifier;

struct mounted {
    struct tree tree;
    struct cluster *cluster; /* borrowed, as the next two */
    struct broker *broker;
    const struct clock *clock;
    struct node_table *nodes;
    struct handle_table *handles;
    struct operations *operations;
    struct parking *parking;
    struct notifier *notifier;
    atomic_size_t outstanding; /* answers due that don't wait for new messages */
    _Atomic uint32_t rotation; /* where the next lines without a key go, see appender.h */
};

#endif
