#include "replica/datadir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DATADIR_VERSION = 1, SMALL_FILE_MAX = 64 * 1024, BOOT_ID_SIZE = 64 };

const char *datadir_path(const struct datadir *datadir)
{
    return datadir->path;
}

const char *datadir_store_path(const struct datadir *datadir)
{
    return datadir->store_path;
}

enum node_started datadir_started(const struct datadir *datadir)
{
    static const enum node_started started[] = {
        [LOG_CLEAN] = NODE_STARTED_CLEAN,
        [LOG_PROCESS_CRASHED] = NODE_STARTED_PROCESS_CRASH,
        [LOG_MACHINE_CRASHED] = NODE_STARTED_MACHINE_CRASH,
    };
    return started[datadir->recovery];
}

const char *datadir_instance(const struct datadir *datadir)
{
    return datadir->instance;
}

char *datadir_file(const struct datadir *datadir, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", datadir->path, name) < 0 ? NULL : path;
}

/* mkdir -p; an existing directory is fine. */
static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int rc = mkdir(path, 0755);
        *slash = '/';
        if (rc && errno != EEXIST) {
            return -errno;
        }
    }
    return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

static int lock_directory(struct datadir *datadir, char *why, size_t why_size)
{
    char *path = datadir_file(datadir, "lock");
    if (!path) {
        return -ENOMEM;
    }
    datadir->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = datadir->lock_fd < 0 ? -errno : 0;
    if (rc) {
        (void)snprintf(why, why_size, "%s: %s", path, err_text(rc));
    } else if (flock(datadir->lock_fd, LOCK_EX | LOCK_NB)) {
        rc = errno == EWOULDBLOCK ? E_IN_USE : -errno;
        (void)snprintf(
            why, why_size,
            "%s is in use by another topicfs process; unmount that first, or "
            "give this mount a data directory of its own (-o data=DIR)",
            datadir->path);
    }
    free(path);
    return rc;
}

static int new_instance(struct datadir *datadir)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return -EIO;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        (void)snprintf(datadir->instance + 2 * i, 3, "%02x", bytes[i]);
    }
    return 0;
}

static int write_meta(const struct datadir *datadir, const char *path)
{
    char text[128];
    int length = snprintf(text, sizeof text, "{\"version\":%d,\"instance\":\"%s\"}\n",
                          DATADIR_VERSION, datadir->instance);
    return disk_replace(&disk_real, path, text, (size_t)length);
}

static int parse_meta(struct datadir *datadir, const char *bytes, size_t length)
{
    cJSON *json = NULL;
    int64_t version = 0;
    int rc = json_parse(bytes, length, &json) ? E_CORRUPT : 0;
    if (!rc && json_get_i64(json, "version", &version)) {
        rc = E_CORRUPT;
    }
    if (!rc && version > DATADIR_VERSION) {
        rc = E_NEWER_FORMAT;
    }
    const cJSON *instance = cJSON_GetObjectItemCaseSensitive(json, "instance");
    if (!rc && (!cJSON_IsString(instance) || strlen(instance->valuestring) != 32)) {
        rc = E_CORRUPT;
    }
    if (!rc) {
        (void)snprintf(datadir->instance, sizeof datadir->instance, "%s",
                       instance->valuestring);
    }
    cJSON_Delete(json);
    return rc;
}

/*
 * A lost or damaged identity is replaced: it only tells nodes of a cluster apart, and
 * the logs carry their own format version. A newer format stops us.
 */
static int open_meta(struct datadir *datadir, char *why, size_t why_size)
{
    char *path = datadir_file(datadir, "meta.json");
    char *bytes = NULL;
    size_t length = 0;
    if (!path) {
        return -ENOMEM;
    }
    int rc = disk_slurp(&disk_real, path, SMALL_FILE_MAX, &bytes, &length);
    bool fresh = rc == -ENOENT;
    rc = rc ? rc : parse_meta(datadir, bytes, length);
    if (rc == E_CORRUPT || rc == -EMSGSIZE) {
        diag(DIAG_WARNING, "%s is damaged: this directory gets a new identity", path);
        fresh = true;
    }
    if (fresh) {
        rc = new_instance(datadir);
        rc = rc ? rc : write_meta(datadir, path);
    }
    if (rc) {
        (void)snprintf(why, why_size, "%s: %s", path, err_text(rc));
    }
    free(bytes);
    free(path);
    return rc;
}

static void read_boot_id(char boot_id[BOOT_ID_SIZE])
{
    boot_id[0] = '\0';
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, boot_id, BOOT_ID_SIZE - 1);
        boot_id[n > 0 ? n : 0] = '\0';
        boot_id[strcspn(boot_id, "\n")] = '\0';
        (void)close(fd);
    }
}

int datadir_mark(const struct datadir *datadir, enum datadir_mark mark)
{
    char boot_id[BOOT_ID_SIZE] = "";
    char text[256];
    if (mark != DATADIR_RECOVERING) {
        read_boot_id(boot_id);
    }
    char *path = datadir_file(datadir, "running.json");
    if (!path) {
        return -ENOMEM;
    }
    int length = snprintf(text, sizeof text, "{\"boot_id\":\"%s\",\"clean\":%s}\n",
                          boot_id, mark == DATADIR_STOPPED ? "true" : "false");
    int rc = disk_replace(&disk_real, path, text, (size_t)length);
    free(path);
    return rc;
}

/* Anything but a readable record of this boot, or of a clean stop, is the worst case.
 */
static enum log_recovery judge(const char *bytes, size_t length)
{
    enum log_recovery recovery = LOG_MACHINE_CRASHED;
    char boot_id[BOOT_ID_SIZE];
    cJSON *json = NULL;
    read_boot_id(boot_id);
    if (json_parse(bytes, length, &json)) {
        return recovery;
    }
    const cJSON *then = cJSON_GetObjectItemCaseSensitive(json, "boot_id");
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "clean"))) {
        recovery = LOG_CLEAN;
    } else if (cJSON_IsString(then) && boot_id[0] &&
               !strcmp(then->valuestring, boot_id)) {
        recovery = LOG_PROCESS_CRASHED;
    }
    cJSON_Delete(json);
    return recovery;
}

static int read_marker(struct datadir *datadir)
{
    char *path = datadir_file(datadir, "running.json");
    char *bytes = NULL;
    size_t length = 0;
    if (!path) {
        return -ENOMEM;
    }
    int rc = disk_slurp(&disk_real, path, SMALL_FILE_MAX, &bytes, &length);
    datadir->recovery = rc ? LOG_MACHINE_CRASHED : judge(bytes, length);
    free(bytes);
    free(path);
    return rc == -ENOMEM ? rc : 0;
}

/*
 * A full disk is no reason not to start: after a crash the marker that is there will
 * do, and without one the worst is assumed.
 */
static int mark_running(const struct datadir *datadir)
{
    bool lost = datadir->recovery == LOG_MACHINE_CRASHED;
    int rc = datadir_mark(datadir, lost ? DATADIR_RECOVERING : DATADIR_RUNNING);
    if (rc != -ENOSPC && rc != -EDQUOT) {
        return rc;
    }
    if (datadir->recovery != LOG_CLEAN) {
        return 0;
    }
    char *path = datadir_file(datadir, "running.json");
    rc = path ? disk_real.ops->unlink(&disk_real, path) : -ENOMEM;
    rc = rc ? rc : disk_real.ops->flush_dir(&disk_real, datadir->path);
    free(path);
    return rc;
}

int datadir_open(const char *path, struct datadir **out, char *why, size_t why_size)
{
    struct datadir *datadir = calloc(1, sizeof *datadir);
    if (!datadir) {
        return -ENOMEM;
    }
    datadir->lock_fd = -1;
    datadir->path = strdup(path);
    int rc = datadir->path ? make_directories(datadir->path) : -ENOMEM;
    if (rc) {
        (void)snprintf(why, why_size, "data directory %s: %s", path, err_text(rc));
        goto fail;
    }
    datadir->store_path = datadir_file(datadir, "store");
    rc = datadir->store_path ? lock_directory(datadir, why, why_size) : -ENOMEM;
    rc = rc ? rc : open_meta(datadir, why, why_size);
    rc = rc ? rc : read_marker(datadir);
    rc = rc ? rc : mark_running(datadir);
    if (rc) {
        goto fail;
    }
    datadir->unused = datadir->recovery == LOG_CLEAN;
    *out = datadir;
    return 0;
fail:
    if (rc != E_IN_USE && why_size && why[0] == '\0') {
        (void)snprintf(why, why_size, "data directory %s: %s", path, err_text(rc));
    }
    datadir_close(datadir);
    return rc;
}

void datadir_close(struct datadir *datadir)
{
    if (!datadir) {
        return;
    }
    if (datadir->unused) {
        int rc = datadir_mark(datadir, DATADIR_STOPPED);
        if (rc) {
            diag(DIAG_WARNING, "the next start checks more: %s", err_text(rc));
        }
    }
    if (datadir->lock_fd >= 0) {
        (void)close(datadir->lock_fd);
    }
    free(datadir->store_path);
    free(datadir->path);
    free(datadir);
}
