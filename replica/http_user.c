#include "replica/http_user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct http_user {
    atomic_uint references;
    uid_t uid;
    size_t group_count;
    gid_t groups[];
};

enum { ENTRY_BYTES = 16384, GROUPS_FIRST = 64, GROUPS_MAX = 65536 };

const struct http_user *http_user_new(uid_t uid, const gid_t *groups, size_t count)
{
    struct http_user *user = malloc(sizeof *user + count * sizeof *groups);

    if (user == NULL)
        return NULL;
    atomic_init(&user->references, 1);
    user->uid = uid;
    user->group_count = count;
    if (count > 0)
        memcpy(user->groups, groups, count * sizeof *groups);
    return user;
}

static int from_entry(const struct passwd *entry, const struct http_user **out)
{
    int room = GROUPS_FIRST;
    gid_t *groups = NULL;

    for (;;) {
        int count = room;
        gid_t *larger = realloc(groups, (size_t)room * sizeof *groups);

        if (larger == NULL)
            break;
        groups = larger;
        if (getgrouplist(entry->pw_name, entry->pw_gid, groups, &count) >= 0) {
            *out = http_user_new(entry->pw_uid, groups, (size_t)count);
            free(groups);
            return *out == NULL ? -ENOMEM : 0;
        }
        if (room >= GROUPS_MAX)
            break;
        room = count > room ? count : room * 2;
    }
    free(groups);
    return -ENOMEM;
}

int http_user_by_uid(uid_t uid, const struct http_user **out)
{
    struct passwd entry, *found = NULL;
    char *text;
    int rc;

    text = malloc(ENTRY_BYTES);
    if (text == NULL)
        return -ENOMEM;
    if (getpwuid_r(uid, &entry, text, ENTRY_BYTES, &found) == 0 && found != NULL) {
        rc = from_entry(found, out);
    } else {
        *out = http_user_new(uid, NULL, 0);
        rc = *out == NULL ? -ENOMEM : 0;
    }
    free(text);
    return rc;
}

int http_user_by_name(const char *name, const struct http_user **out)
{
    struct passwd entry, *found = NULL;
    char *text = malloc(ENTRY_BYTES);
    int rc;

    if (text == NULL)
        return -ENOMEM;
    rc = -getpwnam_r(name, &entry, text, ENTRY_BYTES, &found);
    if (rc == 0)
        rc = found != NULL ? from_entry(found, out) : -ENOENT;
    free(text);
    return rc;
}

const struct http_user *http_user_get(const struct http_user *user)
{
    if (user != NULL)
        (void)atomic_fetch_add_explicit(&((struct http_user *)user)->references, 1,
                                        memory_order_relaxed);
    return user;
}

void http_user_put(const struct http_user *user)
{
    struct http_user *mine = (struct http_user *)user;

    if (mine != NULL &&
        atomic_fetch_sub_explicit(&mine->references, 1, memory_order_acq_rel) == 1)
        free(mine);
}

uid_t http_user_uid(const struct http_user *user)
{
    return user->uid;
}

static bool is_member(const struct http_user *user, gid_t gid)
{
    for (size_t i = 0; i < user->group_count; i++)
        if (user->groups[i] == gid)
            return true;
    return false;
}

bool http_user_allows(const struct http_user *user, uid_t uid, gid_t gid, mode_t mode,
                      unsigned want)
{
    unsigned bits = mode & 07;

    if (user->uid == 0)
        return true;
    if (user->uid == uid)
        bits = mode >> 6 & 07;
    else if (is_member(user, gid))
        bits = mode >> 3 & 07;
    return (bits & want) == want;
}
