#include "fs/procscan.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_below(const char *file, const char *path)
{
    size_t length = strlen(path);

    return strncmp(file, path, length) == 0 &&
           (file[length] == '\0' || file[length] == '/');
}

static bool link_is_below(const char *link, const char *path, char target[PATH_MAX])
{
    ssize_t length = readlink(link, target, PATH_MAX - 1);

    if (length < 0)
        return false;
    target[length] = '\0';
    return is_below(target, path);
}

static bool any_open_file(pid_t pid, const char *path, char target[PATH_MAX])
{
    char name[PATH_MAX];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    (void)snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
    dir = opendir(name);
    if (dir == NULL)
        return false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this DIR */
    while (!found && (entry = readdir(dir)) != NULL) {
        (void)snprintf(name, sizeof name, "/proc/%d/fd/%s", (int)pid, entry->d_name);
        found = link_is_below(name, path, target);
    }
    (void)closedir(dir);
    return found;
}

static bool any_mapping(pid_t pid, const char *path, char target[PATH_MAX])
{
    char name[64];
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *maps;

    (void)snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    maps = fopen(name, "re");
    if (maps == NULL)
        return false;
    while (!found && getline(&line, &size, maps) >= 0) {
        const char *file = strchr(line, '/');

        if (file == NULL)
            continue;
        (void)snprintf(target, PATH_MAX, "%s", file);
        target[strcspn(target, "\n")] = '\0';
        found = is_below(target, path);
    }
    free(line);
    (void)fclose(maps);
    return found;
}

static const char *how_used(pid_t pid, const char *path, char target[PATH_MAX])
{
    char name[64];

    (void)snprintf(name, sizeof name, "/proc/%d/cwd", (int)pid);
    if (link_is_below(name, path, target))
        return "works in";
    if (any_open_file(pid, path, target))
        return "has open";
    (void)snprintf(name, sizeof name, "/proc/%d/root", (int)pid);
    if (link_is_below(name, path, target))
        return "has as root";
    if (any_mapping(pid, path, target))
        return "has mapped";
    return NULL;
}

static void read_name(struct procscan_user *user)
{
    char file[64];
    FILE *comm;

    (void)snprintf(user->name, sizeof user->name, "?");
    (void)snprintf(file, sizeof file, "/proc/%d/comm", (int)user->pid);
    comm = fopen(file, "re");
    if (comm == NULL)
        return;
    if (fgets(user->name, sizeof user->name, comm) != NULL)
        user->name[strcspn(user->name, "\n")] = '\0';
    (void)fclose(comm);
}

int procscan(const char *path, procscan_fn *fn, void *arg)
{
    char target[PATH_MAX];
    struct dirent *entry;
    int rc = 0;
    DIR *proc = opendir("/proc");

    if (proc == NULL)
        return -errno;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this DIR */
    while (rc == 0 && (entry = readdir(proc)) != NULL) {
        struct procscan_user user = {.path = target};

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        user.pid = (pid_t)strtol(entry->d_name, NULL, 10);
        user.how = how_used(user.pid, path, target);
        if (user.how == NULL)
            continue;
        read_name(&user);
        rc = fn(arg, &user);
    }
    (void)closedir(proc);
    return rc;
}
