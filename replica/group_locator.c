#include "replica/group_locator.h"

#include "replica/group_locate.h"
#include "replica/peer_thread.h"

#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

enum { RETRY_MS = 50, RETRY_MAX_MS = 1000, ANSWER_MS = 3000, PLACES_MAX = 4096 };

/* A node that is asked. */
struct locator_node {
    struct peer_call call; /* first */
    struct group_locator *locator;
    int32_t id;
    bool busy;
    struct group_search **searches; /* under way; NULL: given up meanwhile */
    size_t count;
    UT_hash_handle hh;
};

struct group_locator {
    struct groups_params params;
    struct group_client *client;
    struct group_search *waiting;
    struct locator_node *nodes; /* by id */
};

struct group_locator *group_locator_new(const struct groups_params *params,
                                        struct group_client *client)
{
    struct group_locator *locator = calloc(1, sizeof *locator);
    if (locator) {
        locator->params = *params;
        locator->client = client;
    }
    return locator;
}

void group_locator_free(struct group_locator *locator)
{
    if (!locator) {
        return;
    }
    struct locator_node *node = locator->nodes;
    struct locator_node *next;
    HASH_CLEAR(hh, locator->nodes);
    for (; node; node = next) {
        next = node->hh.next;
        peer_call_free(group_client_peers(locator->client), &node->call);
        free(node->searches);
        free(node);
    }
    free(locator);
}

static int64_t now_ms(const struct group_locator *locator)
{
    return clock_mono_ms(locator->params.clock);
}

/* ---- searches -----------------------------------------------------------------------
 */

static void put_waiting(struct group_locator *locator, struct group_search *search)
{
    search->node = NULL;
    search->waiting = true;
    DL_APPEND(locator->waiting, search);
}

static void take_waiting(struct group_locator *locator, struct group_search *search)
{
    search->waiting = false;
    DL_DELETE(locator->waiting, search);
}

void group_locator_find(struct group_locator *locator, struct group_search *search)
{
    search->retry_ms = 0;
    search->pause_ms = 0;
    search->leader = -1;
    put_waiting(locator, search);
}

void group_locator_cancel(struct group_locator *locator, struct group_search *search)
{
    if (search->waiting) {
        take_waiting(locator, search);
    } else if (search->node) {
        for (size_t i = 0; i < search->node->count; i++) {
            if (search->node->searches[i] == search) {
                search->node->searches[i] = NULL;
            }
        }
        search->node = NULL;
    }
}

static bool is_elsewhere(int error)
{
    return error == E_NOT_LEADER || error == E_NO_LEADER || error == E_OFFLINE;
}

/* It is neither waiting nor under way. */
static void end(struct group_search *search, const struct group_found *found)
{
    search->done(search, found);
}

static void end_with(struct group_search *search, int error)
{
    const struct group_found found = {.error = error};
    end(search, &found);
}

static void try_later(struct group_locator *locator, struct group_search *search)
{
    search->pause_ms = search->pause_ms > 0 ? search->pause_ms * 2 : RETRY_MS;
    search->pause_ms =
        search->pause_ms < RETRY_MAX_MS ? search->pause_ms : RETRY_MAX_MS;
    search->retry_ms = now_ms(locator) + search->pause_ms;
    put_waiting(locator, search);
}

/* ---- other nodes --------------------------------------------------------------------
 */

/* Gives each search its answer; `places` NULL: there is none. */
static void answer_all(struct locator_node *node, const cJSON *places)
{
    struct group_locator *locator = node->locator;
    const cJSON *place = places ? places->child : NULL;
    node->busy = false;
    for (size_t i = 0; i < node->count; i++, place = place ? place->next : NULL) {
        struct group_search *search = node->searches[i];
        struct group_found found = {0};
        if (!search) {
            continue;
        }
        node->searches[i] = NULL;
        search->node = NULL;
        if (!place || group_wire_get_found(place, &found) ||
            is_elsewhere(found.error)) {
            try_later(locator, search);
        } else {
            end(search, &found);
        }
    }
    node->count = 0;
}

static void on_reply(struct peer_call *call, const struct peer_reply *reply)
{
    struct locator_node *node = (struct locator_node *)call;
    cJSON *whole = NULL;
    const char *why = "";
    int error = 0;
    if (!reply->error) {
        (void)group_wire_parse((const char *)reply->bytes, reply->length, &whole);
    }
    bool good = whole && !group_wire_get_error(whole, &error, &why) && !error;
    answer_all(node, good ? group_wire_get_places(whole, node->count) : NULL);
    cJSON_Delete(whole);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static struct locator_node *node_of(struct group_locator *locator, int32_t id)
{
    struct locator_node *node = NULL;
    HASH_FIND(hh, locator->nodes, &id, sizeof id, node);
    if (!node) {
        node = calloc(1, sizeof *node);
        if (!node) {
            return NULL;
        }
        node->locator = locator;
        node->id = id;
        node->searches = calloc(PLACES_MAX, sizeof(struct group_search *));
        if (!node->searches) {
            free(node);
            return NULL;
        }
        peer_call_init(&node->call, on_reply);
        HASH_ADD(hh, locator->nodes, id, sizeof node->id, node);
    }
    return node;
}

static int send_places(struct locator_node *node)
{
    struct group_locator *locator = node->locator;
    const struct cluster_snapshot *snapshot = group_client_cluster(locator->client);
    struct peer_sender from;
    struct peer_address address;
    struct buf body;
    peer_sender_set(&from, locator->params.config->cluster, snapshot);
    cJSON *request = group_wire_locate(&from);
    int rc = request ? 0 : -ENOMEM;
    for (size_t i = 0; !rc && i < node->count; i++) {
        rc = group_wire_add_place(request, &node->searches[i]->place);
    }
    buf_init(&body, GROUP_WIRE_MAX);
    rc = rc ? rc : group_wire_print(request, &body);
    cJSON_Delete(request);
    if (!rc && !peer_address_find(snapshot, node->id, &address)) {
        rc = E_NO_LEADER;
    }
    if (rc) {
        buf_free(&body);
        return rc;
    }
    return peer_client_send(group_client_peers(locator->client), &node->call, &address,
                            "/replica/locate", &body, GROUP_WIRE_MAX, ANSWER_MS);
}

static void send_all(struct group_locator *locator)
{
    struct locator_node *node;
    struct locator_node *next;
    HASH_ITER(hh, locator->nodes, node, next)
    {
        if (!node->busy && node->count > 0) {
            node->busy = send_places(node) == 0;
            if (!node->busy) {
                answer_all(node, NULL);
            }
        }
    }
}

/* ---- running ------------------------------------------------------------------------
 */

/* Sets search->leader, -1: there is none. false: the topic was deleted. */
static bool find_leader(const struct group_locator *locator,
                        struct group_search *search)
{
    const struct group_place *place = &search->place;
    const struct topic *topic = cluster_snapshot_topic_by_id(
        group_client_cluster(locator->client), &place->topic_id);
    bool there =
        topic && place->partition >= 0 && place->partition < topic->partition_count;
    int32_t leader = there ? topic->partitions[place->partition].leader : -1;
    int32_t epoch = there ? topic->partitions[place->partition].leader_epoch : -1;
    if (leader != search->leader || epoch != search->leader_epoch) {
        search->leader = leader;
        search->leader_epoch = epoch;
        search->retry_ms = 0;
        search->pause_ms = 0;
    }
    return topic != NULL;
}

/* Answered here, given to a node, or waits on. */
static void look_at(struct group_locator *locator, struct group_search *search)
{
    int64_t now = now_ms(locator);
    bool there = find_leader(locator, search);
    if (!there || now >= search->deadline_ms) {
        take_waiting(locator, search);
        end_with(search, there ? E_NO_LEADER : E_TOPIC_DELETED);
        return;
    }
    if (search->leader < 0 || now < search->retry_ms) {
        return;
    }
    if (search->leader == group_client_cluster(locator->client)->self) {
        struct group_found found;
        group_locate(locator->params.broker, &search->place, &found);
        take_waiting(locator, search);
        if (is_elsewhere(found.error)) {
            try_later(locator, search);
        } else {
            end(search, &found);
        }
        return;
    }
    struct locator_node *node = node_of(locator, search->leader);
    if (node && !node->busy && node->count < PLACES_MAX) {
        take_waiting(locator, search);
        search->node = node;
        node->searches[node->count++] = search;
    }
}

/* When to look at one that waits. Who has no leader is brought here by the snapshot
 * that has one, who waits for a busy node by its answer. */
static int64_t due_of(const struct group_locator *locator,
                      const struct group_search *search)
{
    bool pauses = search->leader >= 0 && now_ms(locator) < search->retry_ms;
    return pauses && search->retry_ms < search->deadline_ms ? search->retry_ms
                                                            : search->deadline_ms;
}

/* Those that are under way, too, end in time. */
static int64_t expire_node(struct group_locator *locator, struct locator_node *node)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < node->count; i++) {
        struct group_search *search = node->searches[i];
        if (search && now_ms(locator) >= search->deadline_ms) {
            node->searches[i] = NULL;
            search->node = NULL;
            end_with(search, E_NO_LEADER);
        } else if (search && search->deadline_ms < first) {
            first = search->deadline_ms;
        }
    }
    return first;
}

int64_t group_locator_step(struct group_locator *locator)
{
    struct group_search *search;
    struct group_search *next;
    struct locator_node *node;
    struct locator_node *next_node;
    int64_t first = INT64_MAX;
    DL_FOREACH_SAFE(locator->waiting, search, next)
    {
        look_at(locator, search);
    }
    send_all(locator);
    DL_FOREACH(locator->waiting, search)
    {
        int64_t due = due_of(locator, search);
        first = due < first ? due : first;
    }
    HASH_ITER(hh, locator->nodes, node, next_node)
    {
        int64_t due = expire_node(locator, node);
        first = due < first ? due : first;
    }
    return first;
}
