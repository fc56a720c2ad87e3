#include "replica/check.h"

#include "replica/check_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_FILE_MAX = 64 * 1024, META_VERSION = 1 };

/* ---- what is said -------------------------------------------------------------------
 */

static void say(struct check *check, const char *file, const char *format, va_list args)
{
    (void)fprintf(check->out, "%s: ", file);
    (void)vfprintf(check->out, format, args);
    (void)fputc('\n', check->out);
}

void check_found(struct check *check, const char *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(check, file, format, args);
    va_end(args);
    check->findings++;
}

void check_note(struct check *check, const char *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(check, file, format, args);
    va_end(args);
}

/* ---- the lock -----------------------------------------------------------------------
 */

/* A descriptor that holds the lock; -1 in *out where no process ever used the directory
 * and nothing is to be changed. */
static int take_lock(const struct check *check, int *out)
{
    char path[PATH_MAX];
    struct stat st;
    *out = -1;
    if (stat(check->path, &st) != 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    int n = snprintf(path, sizeof path, "%s/lock", check->path);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    int flags = O_RDONLY | O_CLOEXEC | (check->repair ? O_CREAT : 0);
    int fd = open(path, flags, 0600);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int rc = errno == EWOULDBLOCK ? E_IN_USE : -errno;
        (void)close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

/* ---- small files --------------------------------------------------------------------
 */

static int slurp(const struct check *check, const char *name, size_t max, char **bytes,
                 size_t *length)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", check->path, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    return disk_slurp(check->disk, path, max, bytes, length);
}

/* A small file that can be done without is damaged: repair saves and removes it. */
static int drop_file(struct check *check, const char *name, const char *what)
{
    char path[PATH_MAX];
    check_found(check, name, "%s", what);
    if (!check->repair)
        return 0;
    int rc = check_save(check, name);
    (void)snprintf(path, sizeof path, "%s/%s", check->path, name);
    if (rc == 0)
        rc = check->disk->ops->unlink(check->disk, path);
    if (rc == 0)
        rc = check->disk->ops->flush_dir(check->disk, check->path);
    check->repaired += rc == 0;
    return rc;
}

static bool is_all(const char *text, size_t length, const char *of)
{
    return strlen(text) == length && strspn(text, of) == length;
}

static int judge_meta(const char *bytes, size_t length)
{
    cJSON *json = NULL;
    int64_t version = 0;
    if (json_parse(bytes, length, &json) != 0)
        return E_CORRUPT;
    int rc = json_get_i64(json, "version", &version) != 0 ? E_CORRUPT : 0;
    const cJSON *instance = cJSON_GetObjectItemCaseSensitive(json, "instance");
    if (rc == 0 && version > META_VERSION)
        rc = E_NEWER_FORMAT;
    else if (rc == 0 && (version != META_VERSION || !cJSON_IsString(instance) ||
                         !is_all(instance->valuestring, 32, "0123456789abcdef")))
        rc = E_CORRUPT;
    cJSON_Delete(json);
    return rc;
}

static int check_meta(struct check *check)
{
    char *bytes = NULL;
    size_t length = 0;
    int rc = slurp(check, "meta.json", SMALL_FILE_MAX, &bytes, &length);
    if (rc == 0)
        rc = judge_meta(bytes, length);
    free(bytes);
    if (rc == E_CORRUPT || rc == -EFBIG)
        return drop_file(check, "meta.json",
                         "damaged; without it the next mount gives the directory a new "
                         "identity");
    return rc == -ENOENT ? 0 : rc;
}

static void read_boot_id(char *boot_id, size_t size)
{
    boot_id[0] = '\0';
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, boot_id, size - 1);
    boot_id[n > 0 ? n : 0] = '\0';
    boot_id[strcspn(boot_id, "\n")] = '\0';
    (void)close(fd);
}

static int judge_running(const char *bytes, size_t length, enum log_recovery *out)
{
    char here[64];
    cJSON *json = NULL;
    if (json_parse(bytes, length, &json) != 0)
        return E_CORRUPT;
    const cJSON *boot_id = cJSON_GetObjectItemCaseSensitive(json, "boot_id");
    const cJSON *clean = cJSON_GetObjectItemCaseSensitive(json, "clean");
    int rc = 0;
    if (!cJSON_IsString(boot_id) || !cJSON_IsBool(clean) ||
        !(boot_id->valuestring[0] == '\0' ||
          is_all(boot_id->valuestring, 36, "0123456789abcdef-")))
        rc = E_CORRUPT;
    read_boot_id(here, sizeof here);
    if (rc == 0 && cJSON_IsTrue(clean))
        *out = LOG_CLEAN;
    else if (rc == 0 && here[0] != '\0' && strcmp(here, boot_id->valuestring) == 0)
        *out = LOG_PROCESS_CRASHED;
    cJSON_Delete(json);
    return rc;
}

static int check_running(struct check *check)
{
    char *bytes = NULL;
    size_t length = 0;
    check->recovery = LOG_MACHINE_CRASHED;
    int rc = slurp(check, "running.json", SMALL_FILE_MAX, &bytes, &length);
    if (rc == 0)
        rc = judge_running(bytes, length, &check->recovery);
    free(bytes);
    if (rc != E_CORRUPT && rc != -EFBIG)
        return rc == -ENOENT ? 0 : rc;
    /* How the last process ended is unknown: then nothing may be taken for a torn tail.
     */
    check->recovery = LOG_PROCESS_CRASHED;
    return drop_file(check, "running.json",
                     "damaged; without it the next mount checks as after a crash");
}

static int check_checkpoint(struct check *check)
{
    char *bytes = NULL;
    size_t length = 0;
    int rc = slurp(check, "checkpoint", CHECKPOINT_MAX_BYTES, &bytes, &length);
    if (rc == 0)
        rc = checkpoint_decode(&check->checkpoint, bytes, length);
    free(bytes);
    check->checkpoint_good = rc == 0;
    if (rc == E_CORRUPT || rc == -EFBIG)
        return drop_file(check, "checkpoint",
                         "damaged; without it the next mount checks every log from "
                         "further back");
    return rc == -ENOENT ? 0 : rc;
}

/* A store that can't be mended is reported like any damage; the logs are checked
 * anyway. */
static int check_store(struct check *check)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/store", check->path);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    int found = store_embedded_check(path, false, check->out);
    if (found == E_CORRUPT) {
        check->findings++;
        return 0;
    }
    if (found <= 0)
        return found;
    check->findings += (size_t)found;
    if (!check->repair)
        return 0;
    int left = store_embedded_check(path, true, check->out);
    if (left < 0)
        return left;
    check->repaired += (size_t)(found - left);
    return 0;
}

/* ---- the directory ------------------------------------------------------------------
 */

struct names {
    char **at;
    size_t count;
    struct check *check;
};

static bool is_partition(const char *name)
{
    char topic[TOPIC_NAME_MAX + 1];
    const char *dash = strrchr(name, '-');
    size_t length = dash != NULL ? (size_t)(dash - name) : 0;
    if (length == 0 || length > TOPIC_NAME_MAX || dash[1] == '\0' ||
        strlen(dash) > 10 || strspn(dash + 1, "0123456789") != strlen(dash + 1))
        return false;
    memcpy(topic, name, length);
    topic[length] = '\0';
    return topic_name_check(topic) == 0;
}

static bool is_known(const char *name)
{
    static const char *const known[] = {
        "meta.json",     "lock",          "running.json",
        "checkpoint",    "store",         "deleted",
        "stray",         "damaged",       "observers",
        "carried",       "replaced",      "unusable",
        "topicfs.log",   "meta.json.tmp", "running.json.tmp",
        "checkpoint.tmp"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i]) == 0)
            return true;
    }
    return false;
}

static int sort_name(void *arg, const char *name)
{
    struct names *names = arg;
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", names->check->path, name);
    if (n < 0 || (size_t)n >= sizeof path || lstat(path, &st) != 0)
        return 0;
    bool partition = S_ISDIR(st.st_mode) && is_partition(name);
    if (!partition) {
        if (!is_known(name))
            check_note(names->check, name, "not a file of topicfs; it is left alone");
        return 0;
    }
    char **at = realloc(names->at, (names->count + 1) * sizeof *at);
    if (at == NULL)
        return -ENOMEM;
    names->at = at;
    at[names->count] = strdup(name);
    return at[names->count] == NULL ? -ENOMEM : (int)(names->count++, 0);
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int note_inside(void *arg, const char *name)
{
    struct names *names = arg;
    (void)name;
    names->count++;
    return 0;
}

/* Logs that lie there on purpose are told of, not checked. */
static void note_aside(struct check *check, const char *name, const char *what)
{
    char path[PATH_MAX];
    struct names names = {0};
    int n = snprintf(path, sizeof path, "%s/%s", check->path, name);
    if (n < 0 || (size_t)n >= sizeof path ||
        check->disk->ops->list(check->disk, path, note_inside, &names) < 0)
        return;
    if (names.count > 0)
        check_note(check, name, "%zu %s", names.count, what);
}

static int check_partitions(struct check *check, const struct names *names)
{
    int first = 0;
    for (size_t i = 0; i < names->count; i++) {
        int rc = check_partition(check, names->at[i]);
        if (rc == 0)
            continue;
        /* One that can't be read does not keep the others from being checked. */
        check_note(check, names->at[i], "not checked to the end: %s", err_text(rc));
        first = first != 0 ? first : rc;
    }
    return first;
}

static int check_all(struct check *check)
{
    struct names names = {.check = check};
    int rc = check->disk->ops->list(check->disk, check->path, sort_name, &names);
    if (names.count > 0)
        qsort(names.at, names.count, sizeof *names.at, compare_names);
    if (rc == 0)
        rc = check_meta(check);
    if (rc == 0)
        rc = check_store(check);
    if (rc == 0)
        rc = check_running(check);
    if (rc == 0)
        rc = check_checkpoint(check);
    if (rc == 0)
        rc = check_partitions(check, &names);
    if (rc == 0) {
        note_aside(check, "stray", "logs that no topic owns");
        note_aside(check, "replaced",
                   "replicas that could not be used; removed when the new ones are in "
                   "sync");
        note_aside(check, "deleted",
                   "logs of deleted topics; the next mount removes them");
    }
    for (size_t i = 0; i < names.count; i++)
        free(names.at[i]);
    free(names.at);
    return rc;
}

/* ---- whose directory it is ----------------------------------------------------------
 */

struct recognition {
    const struct check *check;
    bool is_ours; /* something is there that only topicfs makes */
};

static int recognise_segment(void *arg, const char *name)
{
    struct recognition *recognition = arg;
    const size_t digits = 20;
    if (strspn(name, "0123456789") == digits &&
        (strcmp(name + digits, ".log") == 0 || strcmp(name + digits, ".index") == 0))
        recognition->is_ours = true;
    return 0;
}

/* "dbus-1" would be a partition's name, too: there a segment has to be. */
static int recognise_name(void *arg, const char *name)
{
    struct recognition *recognition = arg;
    const struct check *check = recognition->check;
    char path[PATH_MAX];
    if (strcmp(name, "meta.json") == 0 || strcmp(name, "store") == 0 ||
        strcmp(name, "running.json") == 0)
        recognition->is_ours = true;
    int n = snprintf(path, sizeof path, "%s/%s", check->path, name);
    if (!recognition->is_ours && is_partition(name) && n > 0 && (size_t)n < sizeof path)
        (void)check->disk->ops->list(check->disk, path, recognise_segment, recognition);
    return 0;
}

/* Before anything is made in it, the lock included. */
static int recognise(struct check *check)
{
    struct recognition recognition = {.check = check};
    int rc =
        check->disk->ops->list(check->disk, check->path, recognise_name, &recognition);
    if (rc == 0 && !recognition.is_ours) {
        check_note(check, check->path, "not a data directory of topicfs");
        rc = -EINVAL;
    }
    return rc;
}

static int summary(struct check *check)
{
    (void)fprintf(
        check->out,
        "%zu partitions, %zu segments, %lld messages, %lld bytes: ", check->partitions,
        check->segments, (long long)check->messages, (long long)check->bytes);
    if (check->findings == 0) {
        (void)fprintf(check->out, "clean\n");
        return CHECK_CLEAN;
    }
    if (check->repaired == check->findings) {
        (void)fprintf(check->out, "%zu faults, all repaired\n", check->findings);
        return CHECK_REPAIRED;
    }
    (void)fprintf(check->out, "%zu faults, %zu repaired%s\n", check->findings,
                  check->repaired,
                  check->repair ? "" : "; --repair mends what can be mended");
    return CHECK_DAMAGED;
}

int check_data_directory(const char *path, bool repair, FILE *out)
{
    struct check check = {
        .path = path, .disk = &disk_real, .repair = repair, .out = out};
    int lock = -1;
    int rc = recognise(&check);
    if (rc == 0)
        rc = take_lock(&check, &lock);
    if (rc == 0)
        rc = check_all(&check);
    if (rc == 0)
        rc = summary(&check);
    if (rc >= 0 && (fflush(out) != 0 || ferror(out)))
        rc = -EIO;
    checkpoint_free(&check.checkpoint);
    if (lock >= 0)
        (void)close(lock);
    return rc;
}
