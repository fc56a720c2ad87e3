/*
 * Completes descriptions of groups with the ends of the logs that they read.
 *
 *     ends_query_init(&query, groups, on_done);
 *     rc = ends_query_add(&query, group);          // borrowed until it is done
 *     ends_query_run(&query, deadline_ms);         // on_done() comes, not from in here
 *     ...
 *     ends_query_free(&query);                     // also gives it up
 *
 * Each entry of "offsets", and a new one with "offset":-1 for each further partition of
 * a topic that the group reads, gets "log_start", "end", and "lag", which is what the
 * group has still to read: from the offset on, or from where a new member begins; null
 * where no leader answered. The end is read after the offset was, and never lies below
 * it. The groups' thread owns it.
 */
#ifndef TOPICFS_GROUPS_ENDS_H
#define TOPICFS_GROUPS_ENDS_H

#include "replica/groups_internal.h"

struct ends_search;

struct ends_query {
    void (*done)(struct ends_query *query);
    struct groups *groups;
    struct ends_search *searches; /* a list */
    size_t left;
};

void ends_query_init(struct ends_query *query, struct groups *groups,
                     void (*done)(struct ends_query *query));
/* `group`: as group_core_describe(). 0 or -ENOMEM. */
int ends_query_add(struct ends_query *query, cJSON *group);
/* false: there is nothing to be asked, done() is not called. */
bool ends_query_run(struct ends_query *query, int64_t deadline_ms);
void ends_query_free(struct ends_query *query);

#endif
