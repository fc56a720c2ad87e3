#include "coord/carry_over.h"

#include "coord/err.h"
#include "coord/model.h"
#include "coord/store_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of "/topicfs/<cluster>/" in front of a key; 0: no key of ours. */
static size_t prefix_length(const char *key)
{
    static const char root[] = "/topicfs/";
    const char *end;

    if (strncmp(key, root, sizeof(root) - 1) != 0)
        return 0;
    end = strchr(key + sizeof(root) - 1, '/');
    return end ? (size_t)(end - key) + 1 : 0;
}

/*
 * The cluster's name may have been another one in each mount. Leased keys are those of
 * the last. NULL: no memory.
 */
static char *last_prefix(const struct store_map *map)
{
    const struct store_entry *found = NULL;

    for (size_t i = 0; i < map->count; i++) {
        const struct store_entry *entry = map->entries[i];

        if (prefix_length(entry->key) > 0 &&
            (!found || (entry->leased && !found->leased)))
            found = entry;
    }
    return found ? strndup(found->key, prefix_length(found->key))
                 : strdup("/topicfs//");
}

static int build(const struct store_map *map, const char *prefix, int64_t revision,
                 struct snapshot **out)
{
    struct store_kv *kvs = calloc(map->count + 1, sizeof(*kvs));
    struct snapshot *empty = snapshot_new();
    struct topic_config built_in;
    struct model *model;
    size_t count = 0;
    int rc = -ENOMEM;

    topic_config_defaults(&built_in);
    model = model_new(prefix, -1, &built_in, NULL, &clock_real);
    for (size_t i = 0; kvs && i < map->count; i++) {
        const struct store_entry *entry = map->entries[i];

        if (strncmp(entry->key, prefix, strlen(prefix)) == 0)
            kvs[count++] = (struct store_kv){.key = entry->key,
                                             .value = entry->value,
                                             .value_length = entry->value_length,
                                             .create_revision = entry->create_revision,
                                             .mod_revision = entry->mod_revision};
    }
    if (kvs && empty && model)
        rc = model_apply(model, empty, kvs, count, revision, out);
    model_free(model);
    snapshot_unref(empty);
    free(kvs);
    return rc;
}

static int read_copies(struct store_files *files, struct snapshot **out, char *why,
                       size_t why_size)
{
    struct journal_copy copies[STORE_COPIES];
    struct store_recovery recovery;
    char *prefix = NULL;
    int rc = store_files_scan(files, copies);

    if (rc != 0)
        return rc;
    rc = store_recover(copies, &recovery, why, why_size);
    for (int c = 0; c < STORE_COPIES; c++)
        journal_copy_free(&copies[c]);
    if (rc != 0)
        return rc;
    if (recovery.absent)
        rc = -ENOENT;
    else if (!(prefix = last_prefix(&recovery.map)))
        rc = -ENOMEM;
    else
        rc = build(&recovery.map, prefix, recovery.revision, out);
    free(prefix);
    store_recovery_free(&recovery);
    return rc;
}

int carry_over_read(const char *store_dir, const struct cluster_snapshot **out,
                    char *why, size_t why_size)
{
    struct snapshot *contents = NULL;
    struct store_files files;
    int rc;

    *out = NULL;
    if (why_size > 0)
        why[0] = '\0';
    rc = store_files_open(&files, store_dir, false, &store_io_real);
    if (rc == 0)
        rc = read_copies(&files, &contents, why, why_size);
    store_files_close(&files);
    if (rc == 0)
        *out = &contents->shown;
    else if (rc != -ENOENT && why_size > 0 && why[0] == '\0')
        snprintf(why, why_size, "reading the store in %s: %s", store_dir, err_text(rc));
    return rc;
}
