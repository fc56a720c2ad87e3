#include "fs/directory.h"

#include "fs/lookup.h"

#include <stdlib.h>
#include <string.h>

struct directory {
    struct directory_entry *entries;
    size_t count;
    size_t allocated;
    uint64_t generation; /* of the partition's log, for its inode number */
};

struct directory *directory_new(void)
{
    return calloc(1, sizeof(struct directory));
}

static void directory_clear(struct directory *directory)
{
    for (size_t i = 0; i < directory->count; i++)
        free(directory->entries[i].name);
    directory->count = 0;
}

void directory_free(struct directory *directory)
{
    directory_clear(directory);
    free(directory->entries);
    free(directory);
}

static int directory_add(void *arg, const char *name, const struct tree_place *place)
{
    struct directory *directory = arg;
    if (directory->count == directory->allocated) {
        size_t size = directory->allocated > 0 ? directory->allocated * 2 : 16;
        struct directory_entry *entries =
            realloc(directory->entries, size * sizeof *entries);
        if (entries == NULL)
            return -ENOMEM;
        directory->entries = entries;
        directory->allocated = size;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return -ENOMEM;
    directory->entries[directory->count++] = (struct directory_entry){
        .name = copy,
        .inode = tree_inode(place, directory->generation),
        .type = tree_is_dir(place->kind) ? S_IFDIR : S_IFREG,
    };
    return 0;
}

int directory_fill(struct directory *directory, struct mounted *mounted,
                   const struct node *node)
{
    struct tree_place parent;
    directory_clear(directory);
    directory->generation = 0;
    tree_parent(&node->place, &parent);
    int rc = directory_add(directory, ".", &node->place);
    if (rc == 0)
        rc = directory_add(directory, "..", &parent);
    if (rc < 0)
        return rc;
    if (node->place.kind == TREE_PARTITION) {
        struct partition_status status = {0};
        struct partition *partition = lookup_partition(mounted, &node->place);
        if (partition != NULL)
            partition_status_get(partition, &status);
        partition_unref(partition);
        directory->generation = status.unclean;
    }
    return tree_list(&mounted->tree, &node->place, directory_add, directory);
}

const struct directory_entry *directory_entry(const struct directory *directory,
                                              size_t index)
{
    return index < directory->count ? &directory->entries[index] : NULL;
}
