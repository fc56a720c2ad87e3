#include "fs/jsonfile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { JSONFILE_MAX = 1024 * 1024 };

struct jsonfile {
    pthread_mutex_t lock;
    struct buf gathered; /* [lock] */
    uint64_t owner;      /* [lock] who wrote last */
    const char *what;    /* [const] */
    char name[];         /* [const] */
};

struct jsonfile *jsonfile_new(const char *what, const char *name)
{
    size_t size = strlen(name) + 1;
    struct jsonfile *file = calloc(1, sizeof *file + size);
    if (file == NULL)
        return NULL;
    file->what = what;
    memcpy(file->name, name, size);
    if (pthread_mutex_init(&file->lock, NULL) != 0) {
        free(file);
        return NULL;
    }
    buf_init(&file->gathered, JSONFILE_MAX);
    return file;
}

void jsonfile_free(struct jsonfile *file)
{
    if (file == NULL)
        return;
    buf_free(&file->gathered);
    (void)pthread_mutex_destroy(&file->lock);
    free(file);
}

static bool jsonfile_is_space(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr(" \t\r\n", bytes[i]) == NULL || bytes[i] == '\0')
            return false;
    }
    return true;
}

int jsonfile_write(struct jsonfile *file, const char *bytes, size_t length,
                   uint64_t owner, cJSON **value)
{
    int rc = 0;
    *value = NULL;
    (void)pthread_mutex_lock(&file->lock);
    if (file->gathered.length == 0 && jsonfile_is_space(bytes, length))
        goto out;
    file->owner = owner;
    rc = buf_add(&file->gathered, bytes, length);
    if (rc == 0)
        rc = json_parse(file->gathered.data, file->gathered.length, value);
    if (rc == -EAGAIN)
        rc = 0;
    else
        buf_free(&file->gathered);
out:
    (void)pthread_mutex_unlock(&file->lock);
    if (rc < 0)
        diag(DIAG_WARNING, "%s%s: refused: %s", file->what, file->name, err_text(rc));
    return rc;
}

int jsonfile_flush(struct jsonfile *file, uint64_t owner)
{
    int rc = 0;
    (void)pthread_mutex_lock(&file->lock);
    if (file->gathered.length > 0 && file->owner == owner) {
        buf_free(&file->gathered);
        rc = E_INVALID_JSON;
    }
    (void)pthread_mutex_unlock(&file->lock);
    if (rc < 0)
        diag(DIAG_WARNING, "%s%s: refused: closed before the JSON value was complete",
             file->what, file->name);
    return rc;
}
