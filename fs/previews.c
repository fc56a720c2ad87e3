#include "fs/previews.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct preview {
    struct topic_id topic_id;
    int32_t partition;
    int64_t offset;
    uint64_t age; /* when it was set, by the count; 0: unused */
    char group[TOPIC_NAME_MAX + 1];
};

struct previews {
    pthread_mutex_t lock;
    uint64_t count;                     /* [lock] of all sets */
    struct preview entry[PREVIEWS_MAX]; /* [lock] */
};

struct previews *previews_new(void)
{
    struct previews *previews = calloc(1, sizeof *previews);
    if (previews != NULL)
        (void)pthread_mutex_init(&previews->lock, NULL);
    return previews;
}

void previews_free(struct previews *previews)
{
    if (previews == NULL)
        return;
    (void)pthread_mutex_destroy(&previews->lock);
    free(previews);
}

static bool preview_is(const struct preview *preview, const struct tree_place *place)
{
    return preview->age > 0 && preview->partition == place->partition &&
           topic_id_equal(&preview->topic_id, &place->topic_id) &&
           strcmp(preview->group, place->name) == 0;
}

/* [lock] The entry of the place, or NULL; *oldest the one to be used for a new place.
 */
static struct preview *previews_find(struct previews *previews,
                                     const struct tree_place *place,
                                     struct preview **oldest)
{
    *oldest = &previews->entry[0];
    for (size_t i = 0; i < PREVIEWS_MAX; i++) {
        struct preview *preview = &previews->entry[i];
        if (preview_is(preview, place))
            return preview;
        if (preview->age < (*oldest)->age)
            *oldest = preview;
    }
    return NULL;
}

void previews_set(struct previews *previews, const struct tree_place *place,
                  int64_t offset)
{
    struct preview *oldest;
    (void)pthread_mutex_lock(&previews->lock);
    struct preview *preview = previews_find(previews, place, &oldest);
    if (preview == NULL)
        preview = oldest;
    preview->topic_id = place->topic_id;
    preview->partition = place->partition;
    preview->offset = offset;
    preview->age = ++previews->count;
    memcpy(preview->group, place->name, sizeof preview->group - 1);
    preview->group[sizeof preview->group - 1] = '\0';
    (void)pthread_mutex_unlock(&previews->lock);
}

bool previews_get(struct previews *previews, const struct tree_place *place,
                  int64_t *offset)
{
    struct preview *oldest;
    (void)pthread_mutex_lock(&previews->lock);
    const struct preview *preview = previews_find(previews, place, &oldest);
    if (preview != NULL)
        *offset = preview->offset;
    (void)pthread_mutex_unlock(&previews->lock);
    return preview != NULL;
}
