/*
 * Which keys a watch knows, with their revisions: what a fresh list is compared with.
 *
 * Not thread-safe: one owner.
 */
#ifndef TOPICFS_ETCD_KNOWN_H
#define TOPICFS_ETCD_KNOWN_H

#include "coord/store.h"

struct etcd_known;

struct etcd_known *etcd_known_new(void); /* NULL: no memory */
void etcd_known_free(struct etcd_known *known);

/* Makes it the list's keys. 0 or -ENOMEM. */
int etcd_known_set(struct etcd_known *known, const struct store_list *list);
/* Takes an event over; a deletion gets the create revision of what it deleted.
 * 0 or -ENOMEM. */
int etcd_known_apply(struct etcd_known *known, struct store_kv *event);
/*
 * What happened between the known state and the list: deletions, then puts, each in the
 * list's order of keys. Strings of puts are the list's; *out is to be freed with free()
 * before the next change of either. 0 or -ENOMEM.
 */
int etcd_known_diff(struct etcd_known *known, const struct store_list *list,
                    struct store_kv **out, size_t *count);

#endif
