#include "coord/model.h"

#include "coord/err.h"
#include "coord/json.h"
#include "coord/number.h"
#include "coord/sorted.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

enum { KEY_PARTS = 7, KEY_MAX = 600 }; /* no key of ours has so many */

struct model_state {
    struct partition_state state;
    bool valid;
    int64_t revision; /* of the key, also while malformed; 0: absent */
};

struct model_attributes {
    struct attributes value;
    bool valid;
    int64_t revision; /* of the key, also while malformed; 0: absent */
};

struct model_topic {
    char name[TOPIC_NAME_MAX + 1]; /* the hash key */
    struct assignment assignment;  /* partition_count 0: absent */
    struct model_state *states;
    int32_t state_count;
    struct topic_settings settings; /* config_version 0: absent */
    struct model_attributes attributes;
    int64_t assignment_revision, config_revision;
    bool dirty;
    UT_hash_handle hh;
};

struct model {
    const char *prefix;
    int32_t self;
    const struct topic_config *defaults;
    struct problems *problems;
    const struct clock *clock;
    struct model_topic *topics;

    struct broker_info *brokers; /* sorted by id */
    struct registration *registrations;
    uint32_t broker_count;
    int32_t *stopping; /* brokers that hand over before a clean stop */
    uint32_t stopping_count;
    struct tombstone *tombstones;
    uint32_t tombstone_count;
    const struct deposals *deposals; /* a reference, or NULL */
    int64_t deposals_revision;
    int32_t controller, controller_epoch;
    int64_t controller_revision, controller_epoch_revision;
    struct model_attributes topics_attributes;
    char *running[ADMIN_OPERATIONS], *last[ADMIN_OPERATIONS];
    int64_t running_revisions[ADMIN_OPERATIONS]; /* mod revisions; 0: absent */
};

struct model *model_new(const char *prefix, int32_t self,
                        const struct topic_config *defaults, struct problems *problems,
                        const struct clock *clock)
{
    struct model *model = calloc(1, sizeof(*model));

    if (!model)
        return NULL;
    model->prefix = prefix;
    model->self = self;
    model->defaults = defaults;
    model->problems = problems;
    model->clock = clock;
    model->controller = -1;
    return model;
}

static void topic_free(struct model_topic *topic)
{
    for (int32_t p = 0; p < topic->state_count; p++)
        partition_state_free(&topic->states[p].state);
    free(topic->states);
    assignment_free(&topic->assignment);
    topic_settings_free(&topic->settings);
    free(topic);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
void model_free(struct model *model)
{
    struct model_topic *topic, *next;

    if (!model)
        return;
    HASH_ITER(hh, model->topics, topic, next)
    {
        HASH_DEL(model->topics, topic);
        topic_free(topic);
    }
    for (int i = 0; i < ADMIN_OPERATIONS; i++) {
        free(model->running[i]);
        free(model->last[i]);
    }
    free(model->brokers);
    free(model->registrations);
    free(model->stopping);
    free(model->tombstones);
    deposals_unref(model->deposals);
    free(model);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static struct model_topic *topic_get(struct model *model, const char *name)
{
    struct model_topic *topic;

    HASH_FIND_STR(model->topics, name, topic);
    if (topic || topic_name_check(name) != 0)
        return topic;
    topic = calloc(1, sizeof(*topic));
    if (!topic)
        return NULL;
    snprintf(topic->name, sizeof(topic->name), "%s", name);
    HASH_ADD_STR(model->topics, name, topic);
    return topic;
}

static bool parse_id(const char *text, int32_t *id)
{
    int64_t number;

    if (number_parse(text, INT32_MAX, &number) != 0)
        return false;
    *id = (int32_t)number;
    return true;
}

static int apply_assignment(struct model_topic *topic, const struct store_kv *kv)
{
    struct assignment assignment = {0};
    int rc = kv->value ? assignment_decode(kv->value, &assignment) : 0;

    if (rc == -ENOMEM)
        return rc;
    topic->assignment_revision = kv->value ? kv->mod_revision : 0;
    if (rc != 0) /* a topic does not vanish for that: the last good one holds */
        return rc;
    assignment_free(&topic->assignment);
    topic->assignment = assignment;
    return 0;
}

static int apply_state(struct model_topic *topic, int32_t partition,
                       const struct store_kv *kv)
{
    struct partition_state state;
    struct model_state *slot;
    int rc;

    partition_state_init(&state);
    if (partition >= PARTITIONS_MAX)
        return E_INVALID_JSON;
    if (partition >= topic->state_count) {
        int32_t count = partition + 1;

        slot = reallocarray(topic->states, (size_t)count, sizeof(*slot));
        if (!slot)
            return -ENOMEM;
        memset(&slot[topic->state_count], 0,
               (size_t)(count - topic->state_count) * sizeof(*slot));
        topic->states = slot;
        topic->state_count = count;
    }
    slot = &topic->states[partition];
    rc = kv->value ? partition_state_decode(kv->value, &state) : 0;
    if (rc == -ENOMEM)
        return rc;
    partition_state_free(&slot->state);
    slot->state = state;
    slot->valid = kv->value && rc == 0;
    slot->revision = kv->value ? kv->mod_revision : 0;
    return rc;
}

static int apply_settings(struct model_topic *topic, const struct store_kv *kv)
{
    struct topic_settings settings = {0};
    int rc = kv->value ? topic_settings_decode(kv->value, &settings) : 0;

    if (rc == -ENOMEM)
        return rc;
    topic_settings_free(&topic->settings);
    topic->settings = settings;
    topic->config_revision = kv->value ? kv->mod_revision : 0;
    return rc;
}

static int apply_attributes(struct model_attributes *attributes,
                            const struct store_kv *kv)
{
    int rc = kv->value ? attributes_decode(kv->value, &attributes->value) : 0;

    attributes->valid = kv->value && rc == 0;
    attributes->revision = kv->value ? kv->mod_revision : 0;
    return rc;
}

/* brokers/topics/<t>/assignment, brokers/topics/<t>/partitions/<p>/state */
static int apply_topic_key(struct model *model, char *parts[], int count,
                           const struct store_kv *kv)
{
    struct model_topic *topic = topic_get(model, parts[2]);
    int32_t partition;

    if (!topic)
        return topic_name_check(parts[2]) != 0 ? E_INVALID_NAME : -ENOMEM;
    topic->dirty = true;
    if (count == 4 && strcmp(parts[3], "assignment") == 0)
        return apply_assignment(topic, kv);
    if (count == 6 && strcmp(parts[3], "partitions") == 0 &&
        strcmp(parts[5], "state") == 0 && parse_id(parts[4], &partition))
        return apply_state(topic, partition, kv);
    return E_INVALID_JSON;
}

/* config/topics/<t>, attributes/topics/<t> */
static int apply_named_key(struct model *model, char *parts[],
                           const struct store_kv *kv)
{
    struct model_topic *topic = topic_get(model, parts[2]);

    if (!topic)
        return topic_name_check(parts[2]) != 0 ? E_INVALID_NAME : -ENOMEM;
    topic->dirty = true;
    if (strcmp(parts[0], "config") == 0)
        return apply_settings(topic, kv);
    return apply_attributes(&topic->attributes, kv);
}

static int compare_broker(const void *item, const void *id)
{
    int32_t a = ((const struct broker_info *)item)->id, b = *(const int32_t *)id;

    return (a > b) - (a < b);
}

static size_t broker_place(const struct model *model, int32_t id, bool *found)
{
    return sorted_place(model->brokers, model->broker_count, sizeof(*model->brokers),
                        &id, compare_broker, found);
}

static int insert_broker(struct model *model, const struct broker_info *info,
                         const struct registration *registration)
{
    size_t count = (size_t)model->broker_count + 1, at;
    void *infos, *details;
    bool found;

    infos = reallocarray(model->brokers, count, sizeof(*model->brokers));
    if (!infos)
        return -ENOMEM;
    model->brokers = infos;
    details = reallocarray(model->registrations, count, sizeof(*model->registrations));
    if (!details)
        return -ENOMEM;
    model->registrations = details;
    at = broker_place(model, info->id, &found);
    memmove(&model->brokers[at + 1], &model->brokers[at],
            (model->broker_count - at) * sizeof(*model->brokers));
    memmove(&model->registrations[at + 1], &model->registrations[at],
            (model->broker_count - at) * sizeof(*model->registrations));
    model->brokers[at] = *info;
    model->registrations[at] = *registration;
    model->broker_count++;
    return 0;
}

static void remove_broker(struct model *model, int32_t id)
{
    bool found;
    size_t at = broker_place(model, id, &found);

    if (!found)
        return;
    model->broker_count--;
    memmove(&model->brokers[at], &model->brokers[at + 1],
            (model->broker_count - at) * sizeof(*model->brokers));
    memmove(&model->registrations[at], &model->registrations[at + 1],
            (model->broker_count - at) * sizeof(*model->registrations));
}

static int apply_broker(struct model *model, const char *text,
                        const struct store_kv *kv)
{
    struct registration registration;
    struct broker_info info = {.epoch = kv->create_revision};
    int rc;

    if (!parse_id(text, &info.id))
        return E_INVALID_JSON;
    remove_broker(model, info.id);
    if (!kv->value)
        return 0;
    rc = registration_decode(kv->value, &registration);
    if (rc != 0)
        return rc;
    memcpy(info.host, registration.host, sizeof(info.host));
    memcpy(info.rack, registration.rack, sizeof(info.rack));
    memcpy(info.instance, registration.instance, sizeof(info.instance));
    info.port = registration.port;
    info.client = registration.client;
    info.started = registration.started;
    return insert_broker(model, &info, &registration);
}

/* brokers/stopping/<id>: that the key is there says all. */
static int apply_stopping(struct model *model, const char *text,
                          const struct store_kv *kv)
{
    uint32_t at = 0;
    int32_t id, *grown;

    if (!parse_id(text, &id))
        return E_INVALID_JSON;
    while (at < model->stopping_count && model->stopping[at] != id)
        at++;
    if (!kv->value) {
        if (at < model->stopping_count)
            model->stopping[at] = model->stopping[--model->stopping_count];
        return 0;
    }
    if (at < model->stopping_count)
        return 0;
    grown = reallocarray(model->stopping, (size_t)at + 1, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    model->stopping = grown;
    model->stopping[model->stopping_count++] = id;
    return 0;
}

static int apply_tombstone(struct model *model, const char *text,
                           const struct store_kv *kv)
{
    struct tombstone tombstone = {0};
    struct tombstone *grown;
    uint32_t at = 0;
    int rc;

    if (topic_id_parse(text, &tombstone.id) != 0)
        return E_INVALID_JSON;
    while (at < model->tombstone_count &&
           !topic_id_equal(&model->tombstones[at].id, &tombstone.id))
        at++;
    if (at < model->tombstone_count)
        model->tombstones[at] = model->tombstones[--model->tombstone_count];
    if (!kv->value)
        return 0;
    rc = tombstone_decode(kv->value, &tombstone.deleted_ms);
    if (rc != 0)
        return rc;
    grown = reallocarray(model->tombstones, (size_t)model->tombstone_count + 1,
                         sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    model->tombstones = grown;
    model->tombstones[model->tombstone_count++] = tombstone;
    return 0;
}

static int apply_controller(struct model *model, const char *key,
                            const struct store_kv *kv)
{
    if (strcmp(key, "controller") == 0) {
        model->controller = -1;
        model->controller_revision = kv->value ? kv->create_revision : 0;
        return kv->value ? controller_decode(kv->value, &model->controller) : 0;
    }
    model->controller_epoch_revision = kv->value ? kv->mod_revision : 0;
    return kv->value ? controller_epoch_decode(kv->value, &model->controller_epoch) : 0;
}

static int apply_deposals(struct model *model, const struct store_kv *kv)
{
    struct deposals *deposals = NULL;
    int rc = kv->value ? deposals_decode(kv->value, model->deposals,
                                         clock_mono_ms(model->clock), &deposals)
                       : 0;

    if (rc == -ENOMEM)
        return rc;
    deposals_unref(model->deposals);
    model->deposals = deposals;
    model->deposals_revision = kv->value ? kv->mod_revision : 0;
    return rc;
}

/* An outcome, or a request that runs. 0; E_INVALID_JSON; -ENOMEM. */
static int check_admin(const char *text, enum admin_operation operation, bool last)
{
    const char *list = operation == ADMIN_DELETE ? "topics" : "partitions";
    cJSON *json = NULL;
    int rc = json_parse(text, strlen(text), &json);

    if (rc == 0 &&
        (!cJSON_IsObject(json) ||
         (!last && !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(json, list)))))
        rc = E_INVALID_JSON;
    cJSON_Delete(json);
    return rc == 0 || rc == -ENOMEM ? rc : E_INVALID_JSON;
}

static int apply_admin(struct model *model, char *parts[], int count,
                       const struct store_kv *kv)
{
    bool last = count == 3 && strcmp(parts[1], "last") == 0;
    int operation = admin_operation_find(parts[count - 1]);
    char **slot;
    int rc;

    if (operation < 0 || (count == 3 && !last))
        return E_INVALID_JSON;
    slot = last ? &model->last[operation] : &model->running[operation];
    rc = kv->value ? check_admin(kv->value, (enum admin_operation)operation, last) : 0;
    if (rc == -ENOMEM)
        return rc;
    if (!last)
        model->running_revisions[operation] = kv->value ? kv->mod_revision : 0;
    if (rc == 0)
        return snapshot_set_text(slot, kv->value);
    (void)snapshot_set_text(slot, NULL);
    return rc;
}

static int split(char *path, char *parts[KEY_PARTS])
{
    int count = 0;

    for (char *part = path; part && count < KEY_PARTS; count++)
        parts[count] = strsep(&part, "/");
    return count;
}

/* Keys that mean nothing to us are another version's or another program's: ignored. */
static int apply_key(struct model *model, const struct store_kv *kv)
{
    const char *key = kv->key + strlen(model->prefix);
    char path[KEY_MAX], *parts[KEY_PARTS];
    int count;

    if (strlen(key) >= sizeof(path))
        return 0;
    memcpy(path, key, strlen(key) + 1);
    count = split(path, parts);
    if (strcmp(key, "controller") == 0 || strcmp(key, "controller_epoch") == 0)
        return apply_controller(model, key, kv);
    if (strcmp(key, "brokers/deposed") == 0)
        return apply_deposals(model, kv);
    if (strcmp(key, "attributes/topics") == 0)
        return apply_attributes(&model->topics_attributes, kv);
    if (count >= 4 && strncmp(key, "brokers/topics/", 15) == 0)
        return apply_topic_key(model, parts, count, kv);
    if (count == 3 && strncmp(key, "brokers/ids/", 12) == 0)
        return apply_broker(model, parts[2], kv);
    if (count == 3 && strncmp(key, "brokers/stopping/", 17) == 0)
        return apply_stopping(model, parts[2], kv);
    if (count == 3 && (strncmp(key, "config/topics/", 14) == 0 ||
                       strncmp(key, "attributes/topics/", 18) == 0))
        return apply_named_key(model, parts, kv);
    if (count == 2 && strcmp(parts[0], "deleted") == 0)
        return apply_tombstone(model, parts[1], kv);
    if ((count == 2 || count == 3) && strcmp(parts[0], "admin") == 0)
        return apply_admin(model, parts, count, kv);
    return 0;
}

static void report_key(struct model *model, const struct store_kv *kv, int rc)
{
    if (!model->problems)
        return;
    if (rc == 0 || !kv->value) /* a name that is malformed is so when it goes, too */
        problems_clear(model->problems, "store", kv->key);
    else
        problems_set(model->problems, "store", kv->key,
                     "the value is malformed and ignored; another program wrote it",
                     "write the value that it had, or delete the key");
}

/* The settings that hold: the built-in defaults, then the topic's own. Where those
 * can't be read, nothing goes by age or size: it may be meant to stay for ever. */
static void build_config(struct model *model, const struct model_topic *from,
                         struct topic *topic)
{
    struct topic_config *config = &topic->config;
    bool malformed = !from->settings.overrides; /* every topic is made with some */
    char why[200] = "the settings are missing or malformed";
    int rc = 0;

    *config = *model->defaults;
    if (from->settings.overrides)
        rc = settings_apply_json(config, SETTING_TOPIC, model->defaults,
                                 from->settings.overrides, 0, true, why, sizeof(why));
    malformed |= rc != 0;
    if (malformed)
        config->retention_ms = config->retention_bytes = -1;
    if (malformed && model->problems)
        problems_set(model->problems, "config", topic->name, why,
                     "the defaults are used, and nothing is deleted; write the topic's "
                     "config.json");
    else if (model->problems)
        problems_clear(model->problems, "config", topic->name);
    config->was_compacted = malformed || from->settings.was_compacted;
    config->partitions = from->assignment.partition_count;
    config->replication_factor = from->assignment.partitions[0].count;
    config->min_insync_replicas = topic_config_min_insync(config);
    topic->config_version =
        from->settings.config_version > 0 ? from->settings.config_version : 1;
}

/* Of topics/ itself, that may have none yet. Those that can't be read are not taken for
 * leave to read. */
static struct attributes topics_attributes(const struct model *model)
{
    const struct model_attributes *own = &model->topics_attributes;

    return own->valid ? own->value
                      : (struct attributes){.uid = geteuid(),
                                            .gid = getegid(),
                                            .mode = own->revision > 0 ? 0700 : 0755};
}

/* Every topic is made with some. */
static void build_attributes(const struct model *model, const struct model_topic *from,
                             struct topic *topic)
{
    struct attributes attributes = from->attributes.value;

    if (!from->attributes.valid) {
        attributes = topics_attributes(model);
        attributes.mode = 0700;
    }
    topic->uid = attributes.uid;
    topic->gid = attributes.gid;
    topic->mode = attributes.mode;
    topic->created_ms = attributes.created_ms;
}

static int copy_state(struct partition_state *out, const struct model_topic *from,
                      int32_t partition)
{
    const struct model_state *slot =
        partition < from->state_count ? &from->states[partition] : NULL;

    partition_state_init(out);
    return slot && slot->valid ? partition_state_copy(out, &slot->state) : 0;
}

static int build_partitions(const struct model_topic *from, struct snapshot_topic *out)
{
    int32_t count = from->assignment.partition_count;
    int rc = assignment_copy(&out->assignment, &from->assignment, count);

    if (rc != 0)
        return rc;
    out->states = calloc((size_t)count, sizeof(*out->states));
    out->infos = calloc((size_t)count, sizeof(*out->infos));
    if (!out->states || !out->infos)
        return -ENOMEM;
    for (int32_t p = 0; p < count && rc == 0; p++) {
        const struct id_list *replicas = &out->assignment.partitions[p];
        struct partition_state *state = &out->states[p];

        rc = copy_state(state, from, p);
        out->infos[p] = (struct partition_info){
            .replicas = replicas->ids,
            .replica_count = replicas->count,
            .isr = state->isr.ids,
            .isr_count = state->isr.count,
            .leader = state->leader,
            .leader_epoch = state->leader_epoch,
            .controller_epoch = state->controller_epoch,
            .state_revision = p < from->state_count ? from->states[p].revision : 0,
            .elr = state->elr.ids,
            .elr_count = state->elr.count,
            .suspects = state->suspects,
            .suspect_count = state->suspect_count,
            .lossy_epoch = state->lossy_epoch,
            .loss = state->loss,
        };
    }
    out->topic.partition_count = count;
    out->topic.partitions = out->infos;
    return rc;
}

static int build_topic(struct model *model, const struct model_topic *from,
                       struct snapshot *next)
{
    struct snapshot_topic *topic = snapshot_topic_new();
    int rc = topic ? build_partitions(from, topic) : -ENOMEM;

    if (rc == 0 && from->settings.overrides) {
        topic->overrides = cJSON_Duplicate(from->settings.overrides, true);
        rc = topic->overrides ? 0 : -ENOMEM;
    }
    if (rc == 0) {
        memcpy(topic->topic.name, from->name, sizeof(from->name));
        topic->topic.id = from->assignment.id;
        topic->assignment_revision = from->assignment_revision;
        topic->config_revision = from->config_revision;
        topic->attributes_revision = from->attributes.revision;
        build_config(model, from, &topic->topic);
        build_attributes(model, from, &topic->topic);
        rc = snapshot_put_topic(next, topic);
    }
    snapshot_topic_unref(topic);
    return rc;
}

static bool topic_is_empty(const struct model_topic *topic)
{
    for (int32_t p = 0; p < topic->state_count; p++)
        if (topic->states[p].revision > 0)
            return false;
    return topic->assignment_revision == 0 && topic->config_revision == 0 &&
           topic->attributes.revision == 0;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): uthash's macros
static int build_topics(struct model *model, struct snapshot *next)
{
    struct model_topic *topic, *following;
    int rc = 0;

    HASH_ITER(hh, model->topics, topic, following)
    {
        if (!topic->dirty)
            continue;
        if (topic->assignment.partition_count > 0) {
            rc = build_topic(model, topic, next);
        } else {
            snapshot_remove_topic(next, topic->name);
            if (model->problems)
                problems_clear(model->problems, "config", topic->name);
        }
        if (rc != 0)
            return rc;
        topic->dirty = false;
        if (topic_is_empty(topic)) {
            HASH_DEL(model->topics, topic);
            topic_free(topic);
        }
    }
    return 0;
}

static int build_rest(struct model *model, struct snapshot *next)
{
    struct cluster_snapshot *shown = &next->shown;
    const struct attributes topics = topics_attributes(model);
    int rc;

    shown->self = model->self;
    shown->self_epoch = 0;
    shown->controller = model->controller;
    shown->controller_epoch = model->controller_epoch;
    shown->topics_uid = topics.uid;
    shown->topics_gid = topics.gid;
    shown->topics_mode = topics.mode;
    next->topics_attributes_revision = model->topics_attributes.revision;
    next->controller_revision = model->controller_revision;
    next->controller_epoch_revision = model->controller_epoch_revision;
    deposals_unref(next->deposals);
    next->deposals = deposals_ref(model->deposals);
    next->deposals_revision = model->deposals_revision;
    for (uint32_t i = 0; i < model->broker_count; i++) {
        struct broker_info *info = &model->brokers[i];

        if (info->id == model->self)
            shown->self_epoch = info->epoch;
        info->stopping = false;
        for (uint32_t j = 0; j < model->stopping_count; j++)
            info->stopping |= model->stopping[j] == info->id;
    }
    rc = snapshot_set_brokers(next, model->brokers, model->registrations,
                              model->broker_count);
    if (rc == 0)
        rc = snapshot_set_tombstones(next, model->tombstones, model->tombstone_count);
    for (int i = 0; i < ADMIN_OPERATIONS && rc == 0; i++) {
        next->running_revisions[i] = model->running_revisions[i];
        rc = snapshot_set_text(&next->running[i], model->running[i]);
        if (rc == 0)
            rc = snapshot_set_text(&next->last[i], model->last[i]);
    }
    return rc;
}

int model_apply(struct model *model, const struct snapshot *base,
                const struct store_kv *kvs, size_t count, int64_t revision,
                struct snapshot **out)
{
    struct snapshot *next = snapshot_copy(base);
    int rc = 0;

    *out = NULL;
    for (size_t i = 0; i < count; i++) {
        int applied;

        if (strncmp(kvs[i].key, model->prefix, strlen(model->prefix)) != 0)
            continue;
        applied = apply_key(model, &kvs[i]);
        if (applied == -ENOMEM)
            rc = applied;
        else
            report_key(model, &kvs[i], applied);
    }
    if (!next)
        return -ENOMEM;
    next->shown.revision = revision;
    if (rc == 0)
        rc = build_topics(model, next);
    if (rc == 0)
        rc = build_rest(model, next);
    if (rc != 0) {
        snapshot_unref(next);
        return rc;
    }
    *out = next;
    return 0;
}
