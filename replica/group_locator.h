/*
 * Finds places in the logs of partitions by asking their leaders: a local copy may lag.
 *
 *     locator = group_locator_new(&params, client);
 *     group_locator_find(locator, &search);        // search.done() is called once
 *     due_ms = group_locator_step(locator);        // in the client's loop
 *
 * What goes to one node travels together. The client's thread owns all of it.
 */
#ifndef TOPICFS_GROUP_LOCATOR_H
#define TOPICFS_GROUP_LOCATOR_H

#include "replica/group_client.h"

struct group_locator;
struct locator_node;

struct group_search {
    /* found->error: 0; E_TOPIC_DELETED; E_OFFSET_BELOW_START, -ERANGE; E_NO_LEADER at
     * the deadline; an error of the leader's log. */
    void (*done)(struct group_search *search, const struct group_found *found);
    struct group_place place;
    int64_t deadline_ms; /* INT64_MAX: none */
    /* private */
    struct locator_node *node; /* it is under way to that */
    struct group_search *prev, *next;
    int64_t retry_ms;
    int64_t pause_ms; /* doubles while the leader is the same and can't answer */
    int32_t leader;   /* who that was */
    int32_t leader_epoch;
    bool waiting;
};

struct group_locator *group_locator_new(const struct groups_params *params,
                                        struct group_client *client);
/* Gives up what is under way; searches are left as they are. NULL is fine. */
void group_locator_free(struct group_locator *locator);

void group_locator_find(struct group_locator *locator, struct group_search *search);
/* Gives it up, without done(). Fine where it is done. */
void group_locator_cancel(struct group_locator *locator, struct group_search *search);

/* Does what there is to do; when to be called again at the latest. The cluster's
 * snapshot is that of the client. */
int64_t group_locator_step(struct group_locator *locator);

#endif
