/*
 * Open directories: the listing as it was when reading began (again, at a rewinddir),
 * so that positions mean the same while topics come and go.
 *
 * One owner at a time: the kernel reads one open directory by one thread.
 */
#ifndef TOPICFS_DIRECTORY_H
#define TOPICFS_DIRECTORY_H

#include "fs/mounted.h"

struct directory;

struct directory_entry {
    char *name;
    uint64_t inode;
    mode_t type; /* S_IFDIR or S_IFREG */
};

struct directory *directory_new(void); /* NULL: no memory */
void directory_free(struct directory *directory);

/* Lists anew, "." and ".." first. 0; -ESTALE,
 * E_TOPIC_DELETED (the topic is gone); E_OFFLINE (segments/ of a partition that is not
 * here); -ENOMEM. */
int directory_fill(struct directory *directory, struct mounted *mounted,
                   const struct node *node);
/*
 * The same of groups/ and a group's offsets/, from what groups_list() or
 * groups_describe() answered: the groups' names; the topics that the group has offsets
 * of or members for, if they are still there. Such a listing stays as it was at the
 * open of the directory. On failure also -EIO.
 */
int directory_fill_group(struct directory *directory, struct mounted *mounted,
                         const struct node *node, const cJSON *answer);
/* Is it one of those? */
bool directory_is_filled(const struct directory *directory);
/* NULL behind the last. Borrowed until the next fill. */
const struct directory_entry *directory_entry(const struct directory *directory,
                                              size_t index);

#endif
