#include "tests/unit/support/fake_disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR = 512, MAX_PATH = 256 };

struct bytes {
    char *data;
    size_t size;
};

struct inode {
    struct bytes live;
    struct bytes flushed;
    int64_t ctime;
    bool is_dir;
};

struct name {
    char path[MAX_PATH];
    int inode;
};

struct names {
    struct name *items;
    size_t count;
};

enum change { ADD, REMOVE, RENAME };

struct name_change {
    enum change change;
    char path[MAX_PATH];
    char to[MAX_PATH];
    int inode;
};

struct fake_disk_state {
    uint64_t random;
    struct inode *
        *inodes; /* never freed before the disk: a cut may bring a name back */
    size_t inode_count;
    struct names live;
    struct names flushed;
    struct name_change *changes; /* since `flushed` */
    size_t change_count;
    int *handles; /* file -> inode, -1 closed */
    size_t handle_count;
    int64_t done;
    int64_t fail_at;
    int fail_error;
    bool fail_sticky;
    int64_t stop_at;
    bool stopped;
    int64_t clock;
};

static void *grow(void *old, size_t count, size_t size)
{
    void *new = realloc(old, (count == 0 ? 1 : count) * size);
    if (new == NULL)
        abort();
    return new;
}

static void resize(struct bytes *bytes, size_t size)
{
    bytes->data = grow(bytes->data, size, 1);
    if (size > bytes->size)
        memset(bytes->data + bytes->size, 0, size - bytes->size);
    bytes->size = size;
}

static void copy(struct bytes *to, const struct bytes *from)
{
    resize(to, from->size);
    if (from->size > 0)
        memcpy(to->data, from->data, from->size);
}

static struct fake_disk_state *state_of(const struct disk *disk)
{
    return ((const struct fake_disk *)disk)->state;
}

static uint64_t next_random(struct fake_disk_state *state)
{
    uint64_t z = state->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t fake_disk_random(struct fake_disk *fake, uint64_t n)
{
    return n == 0 ? 0 : next_random(fake->state) % n;
}

/* Counts a change. 0, or the error that it is to end with. */
static int change(struct fake_disk_state *state)
{
    if (state->stopped)
        return -EIO;
    int64_t now = state->done++;
    if (state->stop_at >= 0 && now >= state->stop_at) {
        state->stopped = true;
        return -EIO;
    }
    if (state->fail_error == 0 || now < state->fail_at)
        return 0;
    int rc = -state->fail_error;
    if (!state->fail_sticky)
        state->fail_error = 0;
    return rc;
}

/* ---- names ----------------------------------------------------------------- */

static struct name *find_name(const struct names *names, const char *path)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i].path, path) == 0)
            return &names->items[i];
    }
    return NULL;
}

static void put_name(struct names *names, const char *path, int inode)
{
    struct name *name = find_name(names, path);
    if (name == NULL) {
        names->items = grow(names->items, names->count + 1, sizeof *names->items);
        name = &names->items[names->count++];
        snprintf(name->path, sizeof name->path, "%s", path);
    }
    name->inode = inode;
}

static void drop_name(struct names *names, const char *path)
{
    struct name *name = find_name(names, path);
    if (name != NULL)
        *name = names->items[--names->count];
}

static void apply(struct names *names, const struct name_change *entry)
{
    if (entry->change != ADD)
        drop_name(names, entry->path);
    if (entry->change != REMOVE)
        put_name(names, entry->change == RENAME ? entry->to : entry->path,
                 entry->inode);
}

static void record(struct fake_disk_state *state, enum change kind, const char *path,
                   const char *to, int inode)
{
    state->changes =
        grow(state->changes, state->change_count + 1, sizeof *state->changes);
    struct name_change *entry = &state->changes[state->change_count++];
    *entry = (struct name_change){.change = kind, .inode = inode};
    snprintf(entry->path, sizeof entry->path, "%s", path);
    snprintf(entry->to, sizeof entry->to, "%s", to);
    apply(&state->live, entry);
}

static void flush_names(struct fake_disk_state *state, size_t count)
{
    for (size_t i = 0; i < count; i++)
        apply(&state->flushed, &state->changes[i]);
    state->change_count = 0;
}

static int new_inode(struct fake_disk_state *state, bool is_dir)
{
    state->inodes = grow(state->inodes, state->inode_count + 1, sizeof(struct inode *));
    struct inode *inode = calloc(1, sizeof *inode);
    if (inode == NULL)
        abort();
    inode->is_dir = is_dir;
    inode->ctime = ++state->clock;
    state->inodes[state->inode_count] = inode;
    return (int)state->inode_count++;
}

/* ---- operations ------------------------------------------------------------ */

static struct inode *inode_of(struct fake_disk_state *state, int file)
{
    if (file < 0 || (size_t)file >= state->handle_count || state->handles[file] < 0)
        return NULL;
    return state->inodes[state->handles[file]];
}

static int fake_open(const struct disk *disk, const char *path, int flags)
{
    struct fake_disk_state *state = state_of(disk);
    const struct name *name = find_name(&state->live, path);
    int inode = name != NULL ? name->inode : -1;
    if (state->stopped)
        return -EIO;
    if (inode >= 0 && (flags & DISK_EXCLUSIVE))
        return -EEXIST;
    if (inode < 0 && !(flags & DISK_CREATE))
        return -ENOENT;
    if (inode < 0) {
        int rc = change(state);
        if (rc != 0)
            return rc;
        inode = new_inode(state, false);
        record(state, ADD, path, "", inode);
    }
    state->handles = grow(state->handles, state->handle_count + 1, sizeof(int));
    state->handles[state->handle_count] = inode;
    return (int)state->handle_count++;
}

static int fake_close(const struct disk *disk, int file)
{
    struct fake_disk_state *state = state_of(disk);
    if (inode_of(state, file) == NULL)
        return -EBADF;
    state->handles[file] = -1;
    return 0;
}

static ssize_t fake_pread(const struct disk *disk, int file, void *bytes, size_t n,
                          int64_t at)
{
    struct fake_disk_state *state = state_of(disk);
    const struct inode *inode = inode_of(state, file);
    if (inode == NULL || state->stopped)
        return inode == NULL ? -EBADF : -EIO;
    if (at >= (int64_t)inode->live.size)
        return 0;
    if (n > inode->live.size - (size_t)at)
        n = inode->live.size - (size_t)at;
    memcpy(bytes, inode->live.data + at, n);
    return (ssize_t)n;
}

static ssize_t fake_pwrite(const struct disk *disk, int file, const void *bytes,
                           size_t n, int64_t at)
{
    struct fake_disk_state *state = state_of(disk);
    struct inode *inode = inode_of(state, file);
    if (inode == NULL)
        return -EBADF;
    bool was_stopped = state->stopped;
    int rc = change(state);
    size_t put = rc == 0 ? n : was_stopped ? 0 : n / 2;
    if (put > 0) {
        if ((size_t)at + put > inode->live.size)
            resize(&inode->live, (size_t)at + put);
        memcpy(inode->live.data + at, bytes, put);
        inode->ctime = ++state->clock;
    }
    return rc != 0 ? rc : (ssize_t)put;
}

static int fake_truncate(const struct disk *disk, int file, int64_t size)
{
    struct fake_disk_state *state = state_of(disk);
    struct inode *inode = inode_of(state, file);
    int rc = inode == NULL ? -EBADF : change(state);
    if (rc == 0) {
        resize(&inode->live, (size_t)size);
        inode->ctime = ++state->clock;
    }
    return rc;
}

static int fake_flush(const struct disk *disk, int file)
{
    struct fake_disk_state *state = state_of(disk);
    struct inode *inode = inode_of(state, file);
    int rc = inode == NULL ? -EBADF : change(state);
    if (rc == 0)
        copy(&inode->flushed, &inode->live);
    return rc;
}

static void fake_flush_begin(const struct disk *disk, int file)
{
    (void)disk, (void)file; /* promises nothing, so nothing counts as flushed */
}

static void fill_stat(const struct inode *inode, struct disk_stat *out)
{
    *out = (struct disk_stat){.size = (int64_t)inode->live.size,
                              .mtime_ms = inode->ctime,
                              .ctime_ns = inode->ctime,
                              .is_dir = inode->is_dir};
}

static bool has_name(const struct fake_disk_state *state, const struct inode *inode)
{
    for (size_t i = 0; i < state->live.count; i++) {
        if (state->inodes[state->live.items[i].inode] == inode)
            return true;
    }
    return false;
}

static int fake_stat(const struct disk *disk, int file, struct disk_stat *out)
{
    const struct inode *inode = inode_of(state_of(disk), file);
    if (inode == NULL)
        return -EBADF;
    fill_stat(inode, out);
    out->is_removed = !has_name(state_of(disk), inode);
    return 0;
}

static int fake_stat_path(const struct disk *disk, const char *path,
                          struct disk_stat *out)
{
    struct fake_disk_state *state = state_of(disk);
    const struct name *name = find_name(&state->live, path);
    if (state->stopped || name == NULL)
        return state->stopped ? -EIO : -ENOENT;
    fill_stat(state->inodes[name->inode], out);
    return 0;
}

static int fake_mkdir(const struct disk *disk, const char *path)
{
    struct fake_disk_state *state = state_of(disk);
    if (find_name(&state->live, path) != NULL)
        return -EEXIST;
    int rc = change(state);
    if (rc == 0)
        record(state, ADD, path, "", new_inode(state, true));
    return rc;
}

static int remove_name(const struct disk *disk, const char *path)
{
    struct fake_disk_state *state = state_of(disk);
    if (find_name(&state->live, path) == NULL)
        return -ENOENT;
    int rc = change(state);
    if (rc == 0)
        record(state, REMOVE, path, "", -1);
    return rc;
}

static int fake_rename(const struct disk *disk, const char *from, const char *to)
{
    struct fake_disk_state *state = state_of(disk);
    const struct name *name = find_name(&state->live, from);
    if (name == NULL)
        return -ENOENT;
    int inode = name->inode;
    int rc = change(state);
    if (rc == 0)
        record(state, RENAME, from, to, inode);
    return rc;
}

static int fake_flush_dir(const struct disk *disk, const char *path)
{
    struct fake_disk_state *state = state_of(disk);
    (void)path; /* a journal is flushed as a whole */
    int rc = change(state);
    if (rc == 0)
        flush_names(state, state->change_count);
    return rc;
}

static int fake_list(const struct disk *disk, const char *path,
                     int (*fn)(void *arg, const char *name), void *arg)
{
    struct fake_disk_state *state = state_of(disk);
    size_t length = strlen(path);
    if (state->stopped || find_name(&state->live, path) == NULL)
        return state->stopped ? -EIO : -ENOENT;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < state->live.count; i++) {
        const char *name = state->live.items[i].path;
        if (strncmp(name, path, length) == 0 && name[length] == '/' &&
            strchr(name + length + 1, '/') == NULL)
            rc = fn(arg, name + length + 1);
    }
    return rc;
}

static const struct disk_ops fake_ops = {
    .open = fake_open,
    .close = fake_close,
    .pread = fake_pread,
    .pwrite = fake_pwrite,
    .truncate = fake_truncate,
    .flush = fake_flush,
    .flush_begin = fake_flush_begin,
    .stat = fake_stat,
    .stat_path = fake_stat_path,
    .mkdir = fake_mkdir,
    .rmdir = remove_name,
    .rename = fake_rename,
    .unlink = remove_name,
    .flush_dir = fake_flush_dir,
    .list = fake_list,
};

/* ---- faults ---------------------------------------------------------------- */

int64_t fake_disk_changes(const struct fake_disk *fake)
{
    return fake->state->done;
}

void fake_disk_fail_after(struct fake_disk *fake, int64_t n, int error, bool sticky)
{
    fake->state->fail_at = fake->state->done + n;
    fake->state->fail_error = error;
    fake->state->fail_sticky = sticky;
}

void fake_disk_stop_after(struct fake_disk *fake, int64_t n)
{
    fake->state->stop_at = fake->state->done + n;
}

static void restart(struct fake_disk_state *state)
{
    state->handle_count = 0;
    state->stopped = false;
    state->stop_at = -1;
    state->fail_error = 0;
}

void fake_disk_process_crash(struct fake_disk *fake)
{
    restart(fake->state);
}

enum outcome { LOSE, KEEP, TEAR };

static void cut_inode(struct fake_disk_state *state, struct inode *inode,
                      enum outcome outcome)
{
    const struct bytes *live = &inode->live;
    const struct bytes *flushed = &inode->flushed;
    size_t size = outcome == KEEP ? live->size : flushed->size;
    if (outcome == TEAR) {
        size_t low = live->size < flushed->size ? live->size : flushed->size;
        size_t high = live->size + flushed->size - low;
        size_t choice = next_random(state) % 3;
        size = choice == 0   ? flushed->size
               : choice == 1 ? live->size
                             : low + next_random(state) % (high - low + 1);
    }
    struct bytes result = {0};
    resize(&result, size);
    for (size_t at = 0; at < size; at += SECTOR) {
        bool new = outcome == KEEP || (outcome == TEAR && next_random(state) % 2 == 0);
        const struct bytes *from = new ? live : flushed;
        size_t n = size - at < SECTOR ? size - at : SECTOR;
        if (at >= from->size)
            continue;
        memcpy(result.data + at, from->data + at,
               n < from->size - at ? n : from->size - at);
    }
    copy(&inode->live, &result);
    copy(&inode->flushed, &result);
    free(result.data);
    inode->ctime = ++state->clock;
}

void fake_disk_power_cut(struct fake_disk *fake)
{
    struct fake_disk_state *state = fake->state;
    enum outcome outcome = (enum outcome)(next_random(state) % 3);
    size_t kept = outcome == LOSE   ? 0
                  : outcome == KEEP ? state->change_count
                                    : next_random(state) % (state->change_count + 1);
    flush_names(state, kept);
    state->live.count = 0;
    for (size_t i = 0; i < state->flushed.count; i++)
        put_name(&state->live, state->flushed.items[i].path,
                 state->flushed.items[i].inode);
    for (size_t i = 0; i < state->inode_count; i++)
        cut_inode(state, state->inodes[i], outcome);
    restart(state);
}

bool fake_disk_flip(struct fake_disk *fake, const char *path, int64_t bit)
{
    struct fake_disk_state *state = fake->state;
    const struct name *name = find_name(&state->live, path);
    if (name == NULL)
        return false;
    struct inode *inode = state->inodes[name->inode];
    if (bit / 8 >= (int64_t)inode->live.size)
        return false;
    inode->live.data[bit / 8] ^= (char)(1 << (bit % 8));
    inode->ctime = ++state->clock;
    return true;
}

static bool has_handle(const struct fake_disk_state *state, size_t inode)
{
    for (size_t i = 0; i < state->handle_count; i++) {
        if (state->handles[i] == (int)inode)
            return true;
    }
    return false;
}

int64_t fake_disk_freed(const struct fake_disk *fake)
{
    const struct fake_disk_state *state = fake->state;
    int64_t bytes = 0;
    for (size_t i = 0; i < state->inode_count; i++) {
        if (!has_name(state, state->inodes[i]) && !has_handle(state, i))
            bytes += (int64_t)state->inodes[i]->live.size;
    }
    return bytes;
}

struct fake_disk *fake_disk_new(uint64_t seed)
{
    struct fake_disk *fake = calloc(1, sizeof *fake);
    struct fake_disk_state *state = calloc(1, sizeof *state);
    if (fake == NULL || state == NULL)
        abort();
    fake->disk.ops = &fake_ops;
    fake->state = state;
    state->random = seed;
    state->stop_at = -1;
    return fake;
}

void fake_disk_free(struct fake_disk *fake)
{
    struct fake_disk_state *state = fake->state;
    for (size_t i = 0; i < state->inode_count; i++) {
        free(state->inodes[i]->live.data);
        free(state->inodes[i]->flushed.data);
        free(state->inodes[i]);
    }
    free(state->inodes);
    free(state->live.items);
    free(state->flushed.items);
    free(state->changes);
    free(state->handles);
    free(state);
    free(fake);
}
