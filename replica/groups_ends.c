#include "replica/groups_ends.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct ends_search {
    struct group_search search; /* first */
    struct ends_query *query;
    cJSON *entry; /* borrowed from the group */
    bool latest;  /* who begins does so at the end */
    bool running;
    struct ends_search *next;
};

/* A partition of a topic, as an entry of "offsets" names it. */
struct entry {
    const char *topic;
    const char *topic_id;
    int64_t partition;
    cJSON *item; /* NULL: the group has committed nothing of it */
};

struct entries {
    struct entry *list;
    size_t count;
    size_t allocated;
};

void ends_query_init(struct ends_query *query, struct groups *groups,
                     void (*done)(struct ends_query *query))
{
    *query = (struct ends_query){.done = done, .groups = groups};
}

/* ---- entries ------------------------------------------------------------------------
 */

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static int add_entry(struct entries *entries, const struct entry *entry)
{
    if (entries->count == entries->allocated) {
        size_t allocated = entries->allocated ? entries->allocated * 2 : 16;
        struct entry *list = realloc(entries->list, allocated * sizeof *list);
        if (!list) {
            return -ENOMEM;
        }
        entries->list = list;
        entries->allocated = allocated;
    }
    entries->list[entries->count++] = *entry;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    int order = strcmp(left->topic, right->topic);
    order = order ? order : strcmp(left->topic_id, right->topic_id);
    if (order) {
        return order;
    }
    return (left->partition > right->partition) - (left->partition < right->partition);
}

/* All partitions of a topic that the group reads or read. */
static int add_topic(struct entries *entries, const struct cluster_snapshot *snapshot,
                     const cJSON *named)
{
    struct topic_id id;
    struct entry entry = {.topic = text_of(named, "topic"),
                          .topic_id = text_of(named, "topic_id")};
    const struct topic *topic = topic_id_parse(entry.topic_id, &id) == 0
                                    ? cluster_snapshot_topic_by_id(snapshot, &id)
                                    : NULL;
    int rc = 0;
    for (int32_t i = 0; topic && !rc && i < topic->partition_count; i++) {
        entry.partition = i;
        rc = add_entry(entries, &entry);
    }
    return rc;
}

static bool is_same_topic(const struct entry *entry, const cJSON *named)
{
    return strcmp(entry->topic, text_of(named, "topic")) == 0 &&
           strcmp(entry->topic_id, text_of(named, "topic_id")) == 0;
}

static int add_topics(struct entries *entries, const struct cluster_snapshot *snapshot,
                      const cJSON *list)
{
    const cJSON *item = NULL;
    int rc = 0;
    cJSON_ArrayForEach(item, list)
    {
        bool known = false;
        for (size_t i = 0; i < entries->count && !known; i++) {
            known = is_same_topic(&entries->list[i], item);
        }
        rc = rc || known ? rc : add_topic(entries, snapshot, item);
    }
    return rc;
}

/* Puts what the group has in its place among all partitions. */
static int merge_offsets(struct entries *entries, cJSON *offsets)
{
    size_t all = entries->count;
    int rc = 0;
    qsort(entries->list, all, sizeof *entries->list, compare);
    cJSON *item = offsets->child;
    while (item && !rc) {
        cJSON *next = item->next;
        struct entry entry = {.topic = text_of(item, "topic"),
                              .topic_id = text_of(item, "topic_id"),
                              .item = item};
        (void)json_get_i64(item, "partition", &entry.partition);
        struct entry *found =
            bsearch(&entry, entries->list, all, sizeof *entries->list, compare);
        if (found) {
            found->item = item;
        } else {
            rc = add_entry(entries, &entry);
        }
        item = next;
    }
    qsort(entries->list, entries->count, sizeof *entries->list, compare);
    return rc;
}

static cJSON *new_item(const struct entry *entry)
{
    cJSON *item = cJSON_CreateObject();
    if (!cJSON_AddStringToObject(item, "topic", entry->topic) ||
        !cJSON_AddStringToObject(item, "topic_id", entry->topic_id) ||
        json_add_i64(item, "partition", entry->partition) ||
        json_add_i64(item, "offset", -1)) {
        cJSON_Delete(item);
        item = NULL;
    }
    return item;
}

static bool starts_latest(const cJSON *group)
{
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(group, "config");
    return strcmp(text_of(config, "start"), "latest") == 0;
}

static int add_search(struct ends_query *query, const struct entry *entry, bool latest)
{
    struct ends_search *search = calloc(1, sizeof *search);
    if (!search || topic_id_parse(entry->topic_id, &search->search.place.topic_id)) {
        free(search);
        return search ? 0 : -ENOMEM;
    }
    search->query = query;
    search->entry = entry->item;
    search->latest = latest;
    search->search.place.partition = (int32_t)entry->partition;
    search->search.place.kind = GROUPS_PLACE_LATEST;
    LL_PREPEND(query->searches, search);
    return 0;
}

int ends_query_add(struct ends_query *query, cJSON *group)
{
    const struct cluster_snapshot *snapshot =
        group_client_cluster(query->groups->client);
    cJSON *offsets = cJSON_GetObjectItemCaseSensitive(group, "offsets");
    struct entries entries = {0};
    bool latest = starts_latest(group);
    if (!cJSON_IsArray(offsets)) {
        return 0;
    }
    int rc = add_topics(&entries, snapshot, offsets);
    rc = rc ? rc
            : add_topics(&entries, snapshot,
                         cJSON_GetObjectItemCaseSensitive(group, "members"));
    rc = rc || !entries.list ? rc : merge_offsets(&entries, offsets);
    for (size_t i = 0; entries.list && i < entries.count && !rc; i++) {
        struct entry *entry = &entries.list[i];
        /* Detached, and back in order. */
        cJSON *item = entry->item ? cJSON_DetachItemViaPointer(offsets, entry->item)
                                  : new_item(entry);
        entry->item = item;
        if (!item || !cJSON_AddItemToArray(offsets, item)) {
            cJSON_Delete(item);
            rc = -ENOMEM;
        }
        rc = rc ? rc : add_search(query, entry, latest);
    }
    free(entries.list);
    return rc;
}

/* ---- asking -------------------------------------------------------------------------
 */

static void add_found(const struct ends_search *search, const struct group_found *found)
{
    cJSON *entry = search->entry;
    int64_t offset = -1;
    int64_t end = found->high_watermark;
    (void)json_get_i64(entry, "offset", &offset);
    if (found->error) {
        (void)cJSON_AddNullToObject(entry, "log_start");
        (void)cJSON_AddNullToObject(entry, "end");
        (void)cJSON_AddNullToObject(entry, "lag");
        return;
    }
    /* A new leader may not know yet all that was committed under the one before. */
    end = end < offset ? offset : end;
    (void)json_add_i64(entry, "log_start", found->log_start);
    (void)json_add_i64(entry, "end", end);
    int64_t from = offset < 0 && search->latest ? end : offset;
    from = from < found->log_start ? found->log_start : from;
    (void)json_add_i64(entry, "lag", from < end ? end - from : 0);
}

static void on_end(struct group_search *search, const struct group_found *found)
{
    struct ends_search *mine = (struct ends_search *)search;
    struct ends_query *query = mine->query;
    mine->running = false;
    add_found(mine, found);
    if (--query->left == 0) {
        query->done(query);
    }
}

bool ends_query_run(struct ends_query *query, int64_t deadline_ms)
{
    struct ends_search *search;
    LL_FOREACH(query->searches, search)
    {
        search->search.done = on_end;
        search->search.deadline_ms = deadline_ms;
        search->running = true;
        query->left++;
        group_locator_find(query->groups->locator, &search->search);
    }
    return query->left > 0;
}

void ends_query_free(struct ends_query *query)
{
    while (query->searches) {
        struct ends_search *search = query->searches;
        LL_DELETE(query->searches, search);
        if (search->running) {
            group_locator_cancel(query->groups->locator, &search->search);
        }
        free(search);
    }
}
