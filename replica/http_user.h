/*
 * Who asks over HTTP: a user of this machine with its groups, and whether owner, group
 * and mode of a topic let it.
 *
 *     rc = http_user_by_uid(uid, &user);
 *     if (http_user_allows(user, topic->uid, topic->gid, topic->mode, HTTP_READ)) ...
 *     http_user_put(user);
 *
 * Immutable and reference-counted; any thread. The look-ups ask the system's user
 * database, which may block on a directory service.
 */
#ifndef TOPICFS_HTTP_USER_H
#define TOPICFS_HTTP_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct http_user;

enum http_want { HTTP_EXECUTE = 1, HTTP_WRITE = 2, HTTP_READ = 4 }; /* as in a mode */

/* 0 and *out, or -ENOMEM. A uid that the database lacks has no groups. */
int http_user_by_uid(uid_t uid, const struct http_user **out);
/* 0, -ENOENT (no such user), -ENOMEM, or what the database fails with. */
int http_user_by_name(const char *name, const struct http_user **out);
/* From numbers alone. NULL: no memory. */
const struct http_user *http_user_new(uid_t uid, const gid_t *groups, size_t count);

const struct http_user *http_user_get(const struct http_user *user); /* NULL is fine */
void http_user_put(const struct http_user *user);                    /* likewise */
uid_t http_user_uid(const struct http_user *user);

/* The kernel's rule: the owner's bits for the owner, else the group's for a member,
 * else the others'; root may all, as it
 * may with directories. `want`: all bits that are needed. */
bool http_user_allows(const struct http_user *user, uid_t uid, gid_t gid, mode_t mode,
                      unsigned want);

#endif
