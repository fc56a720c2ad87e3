#include "coord/settings.h"

#include "coord/err.h"
#include "coord/json.h"
#include "coord/settings_parse.h"
#include "coord/settings_table.h"
#include "coord/settings_text.h"
#include "coord/settings_why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a scope without strings. */
static void settings_defaults(void *config, enum setting_scope scope)
{
    size_t count;
    const struct setting *table = settings_table(scope, &count);

    for (size_t i = 0; i < count; i++)
        *setting_number(&table[i], config) = table[i].initial;
}

void topic_config_defaults(struct topic_config *config)
{
    *config = (struct topic_config){0};
    settings_defaults(config, SETTING_TOPIC);
}

void group_config_defaults(struct group_config *config)
{
    *config = (struct group_config){0};
    settings_defaults(config, SETTING_GROUP);
}

int mount_config_defaults(struct mount_config *config)
{
    size_t count;
    const struct setting *table = settings_table(SETTING_MOUNT, &count);

    *config = (struct mount_config){0};
    topic_config_defaults(&config->topic);
    group_config_defaults(&config->group);
    for (size_t i = 0; i < count; i++) {
        if (table[i].type != SETTING_STRING) {
            *setting_number(&table[i], config) = table[i].initial;
            continue;
        }
        char *text = strdup(table[i].initial_text);
        if (!text) {
            mount_config_free(config);
            return -ENOMEM;
        }
        *setting_string(&table[i], config) = text;
    }
    return 0;
}

void mount_config_free(struct mount_config *config)
{
    size_t count;
    const struct setting *table = settings_table(SETTING_MOUNT, &count);

    for (size_t i = 0; i < count; i++) {
        if (table[i].type != SETTING_STRING)
            continue;
        free(*setting_string(&table[i], config));
        *setting_string(&table[i], config) = NULL;
    }
}

int64_t topic_config_min_insync(const struct topic_config *config)
{
    if (config->min_insync_replicas > 0)
        return config->min_insync_replicas;
    return config->replication_factor >= 3 ? 2 : 1;
}

/* Combinations that make no sense. */
static int settings_check(const struct topic_config *config, const struct why *why)
{
    if (config->replication_factor > 0 &&
        config->min_insync_replicas > config->replication_factor)
        return why_set(
            why, E_INVALID_CONFIG,
            "min_insync_replicas: %lld is more than replication_factor, which "
            "is %lld; allowed: 1 to %lld",
            (long long)config->min_insync_replicas,
            (long long)config->replication_factor,
            (long long)config->replication_factor);
    if ((config->cleanup_policy & CLEANUP_COMPACT) &&
        config->key_delimiter == KEY_DELIMITER_NONE)
        return why_set(why, E_INVALID_CONFIG,
                       "cleanup_policy: compact needs keys, but key_delimiter is none; "
                       "allowed: delete, or a key_delimiter such as tab");
    return 0;
}

static int settings_set_string(struct mount_config *config,
                               const struct setting *setting, const char *value,
                               const struct why *why)
{
    if (!setting->valid(value))
        return why_malformed(why, setting, value);
    char *text = strdup(value);
    if (!text)
        return why_set(why, -ENOMEM, "no memory");
    free(*setting_string(setting, config));
    *setting_string(setting, config) = text;
    return 0;
}

static int settings_set_topic(struct topic_config *config,
                              const struct setting *setting, const char *value,
                              const struct why *why)
{
    struct topic_config changed = *config;
    int rc = settings_parse(setting, value, setting_number(setting, &changed), why);

    if (rc == 0)
        rc = settings_check(&changed, why);
    if (rc == 0)
        *config = changed;
    return rc;
}

/* Where the settings of topics and groups stand in a struct of `scope`. */
static struct topic_config *settings_topic(void *config, enum setting_scope scope)
{
    return scope == SETTING_MOUNT ? &((struct mount_config *)config)->topic
                                  : (struct topic_config *)config;
}

static struct group_config *settings_group(void *config, enum setting_scope scope)
{
    return scope == SETTING_MOUNT ? &((struct mount_config *)config)->group
                                  : (struct group_config *)config;
}

/* The entry of that name that may be set in a struct of `scope`, and whose it is. */
static const struct setting *
settings_find_in(enum setting_scope scope, const char *name, enum setting_scope *owner)
{
    static const enum setting_scope scopes[] = {SETTING_MOUNT, SETTING_TOPIC,
                                                SETTING_GROUP};

    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
        const struct setting *setting;

        if (scope != SETTING_MOUNT && scope != scopes[i])
            continue;
        setting = settings_find(scopes[i], name);
        if (setting) {
            *owner = scopes[i];
            return setting;
        }
    }
    return NULL;
}

int settings_set_text(void *config, enum setting_scope scope, const char *name,
                      const char *value, char *why_text, size_t why_size)
{
    const struct why why = {why_text, why_size};
    enum setting_scope owner = scope;
    const struct setting *setting = settings_find_in(scope, name, &owner);

    why_set(&why, 0, "%s", "");
    if (!setting)
        return why_unknown(&why, scope, name);
    if (!value) {
        if (owner != SETTING_MOUNT || setting->type != SETTING_CHOICE)
            return why_set(&why, E_INVALID_CONFIG, "%s: needs a value, as in %s=...",
                           name, name);
        value = "true";
    }
    if (owner == SETTING_TOPIC)
        return settings_set_topic(settings_topic(config, scope), setting, value, &why);
    if (owner == SETTING_GROUP)
        config = settings_group(config, scope);
    else if (setting->type == SETTING_STRING)
        return settings_set_string(config, setting, value, &why);
    return settings_parse(setting, value, setting_number(setting, config), &why);
}

/* An array of names as one text, "delete,compact". 0 or E_INVALID_CONFIG. */
static int settings_join_array(const cJSON *item, char *text, size_t size)
{
    const cJSON *child;
    size_t length = 0;

    text[0] = '\0';
    cJSON_ArrayForEach(child, item)
    {
        if (!cJSON_IsString(child))
            return E_INVALID_CONFIG;
        size_t more = strlen(child->valuestring);
        if (length + more + 2 > size || strpbrk(child->valuestring, ",+"))
            return E_INVALID_CONFIG;
        if (length > 0)
            text[length++] = ',';
        memcpy(text + length, child->valuestring, more + 1);
        length += more;
    }
    return 0;
}

/* Whether the JSON type can stand for the setting, as the text that it means. */
static bool settings_json_text(const struct setting *setting, const cJSON *item,
                               char *text, size_t size)
{
    int64_t number;

    if (cJSON_IsString(item)) {
        if (strlen(item->valuestring) >= size)
            return false;
        memcpy(text, item->valuestring, strlen(item->valuestring) + 1);
        return true;
    }
    if (cJSON_IsArray(item))
        return setting->type == SETTING_CLEANUP &&
               settings_join_array(item, text, size) == 0;
    /* A 5 would be the byte "5", and a word that stands for a set is no number. */
    if (setting->type == SETTING_DELIMITER || setting->type == SETTING_CLEANUP)
        return false;
    if (cJSON_IsBool(item)) {
        snprintf(text, size, "%s", cJSON_IsTrue(item) ? "true" : "false");
        return true;
    }
    if (json_i64(item, &number))
        return false;
    snprintf(text, size, "%lld", (long long)number);
    return true;
}

static int settings_json_malformed(const struct setting *setting, const cJSON *item,
                                   const struct why *why)
{
    char *shown = cJSON_PrintUnformatted(item);
    int rc = shown ? why_malformed(why, setting, shown) : -ENOMEM;

    cJSON_free(shown);
    return rc;
}

/* Of any scope whose settings are numbers alone. */
union settings_copy {
    struct topic_config topic;
    struct group_config group;
};

static union settings_copy settings_copy_of(const void *config,
                                            enum setting_scope scope)
{
    union settings_copy copy = {0};

    if (scope == SETTING_GROUP)
        copy.group = *(const struct group_config *)config;
    else
        copy.topic = *(const struct topic_config *)config;
    return copy;
}

/* One key of the object; the result goes to `config`. */
static int settings_apply_item(void *config, enum setting_scope scope,
                               union settings_copy *defaults, const cJSON *item,
                               bool creating, const struct why *why)
{
    const struct setting *setting = settings_find(scope, item->string);
    char text[SETTINGS_VALUE_BYTES + 1];
    int64_t value = 0;

    if (!setting)
        return why_unknown(why, scope, item->string);
    if (cJSON_IsNull(item)) {
        value = *setting_number(setting, defaults);
    } else {
        if (!settings_json_text(setting, item, text, sizeof text))
            return settings_json_malformed(setting, item, why);
        int rc = settings_parse(setting, text, &value, why);
        if (rc)
            return rc;
    }
    int64_t *field = setting_number(setting, config);
    if (setting->read_only && !creating && value != *field)
        return why_set(why, E_READ_ONLY,
                       "%s: it is %lld and can't be changed once the topic is made%s",
                       setting->name, (long long)*field,
                       strcmp(setting->name, "partitions") == 0
                           ? "; mkdir of the next partition adds one"
                           : "");
    *field = value;
    return 0;
}

/* First of all: who compares an old version gets to know that, whatever else is wrong.
 */
static int settings_check_version(const cJSON *object, int64_t version,
                                  const struct why *why)
{
    int64_t given;
    int rc = json_get_i64(object, "version", &given);

    if (rc == -ENOENT)
        return 0;
    if (rc)
        return why_set(why, E_INVALID_CONFIG, "version: it must be an integer");
    if (given != version)
        return why_set(
            why, E_CONFLICT,
            "version: it is %lld now, not %lld; read the file again and retry",
            (long long)version, (long long)given);
    return 0;
}

/* What the settings say together. */
static int settings_finish_topic(const struct topic_config *before,
                                 struct topic_config *changed, const struct why *why)
{
    /* What is shown for a default, written back, leaves it the default. */
    if (before->min_insync_replicas == 0 && changed->replication_factor > 0) {
        struct topic_config shown = *changed;

        shown.min_insync_replicas = 0;
        if (changed->min_insync_replicas == topic_config_min_insync(&shown))
            changed->min_insync_replicas = 0;
    }
    return settings_check(changed, why);
}

int settings_apply_json(void *config, enum setting_scope scope, const void *defaults,
                        const cJSON *object, int64_t version, bool creating,
                        char *why_text, size_t why_size)
{
    const struct why why = {why_text, why_size};
    union settings_copy changed = settings_copy_of(config, scope);
    union settings_copy base = settings_copy_of(defaults, scope);
    const cJSON *item;
    int rc;

    why_set(&why, 0, "%s", "");
    if (!cJSON_IsObject(object))
        return why_set(&why, E_INVALID_CONFIG,
                       "a JSON object is needed, for example %s",
                       scope == SETTING_GROUP ? "{\"commit\":\"manual\"}"
                                              : "{\"retention_ms\":\"7d\"}");
    rc = settings_check_version(object, version, &why);
    if (rc)
        return rc;
    cJSON_ArrayForEach(item, object)
    {
        if (strcmp(item->string, "version") == 0)
            continue;
        rc = settings_apply_item(&changed, scope, &base, item, creating, &why);
        if (rc)
            return rc;
    }
    if (scope == SETTING_GROUP) {
        *(struct group_config *)config = changed.group;
        return 0;
    }
    rc = settings_finish_topic(config, &changed.topic, &why);
    if (rc == 0)
        *(struct topic_config *)config = changed.topic;
    return rc;
}

/* A word that is also a JSON value is written as that: false, 1. */
static int settings_add_word(cJSON *object, const struct setting *setting,
                             const char *word, int64_t value)
{
    const cJSON *added;

    if (strspn(word, "0123456789") == strlen(word))
        return json_add_i64(object, setting->name, value);
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        added = cJSON_AddBoolToObject(object, setting->name, *word == 't');
    else
        added = cJSON_AddStringToObject(object, setting->name, word);
    return added ? 0 : -ENOMEM;
}

static int settings_add_json(cJSON *object, const struct setting *setting,
                             int64_t value)
{
    const char *name = setting_name_of(setting, value);
    struct buf text;

    if (setting->type == SETTING_DELIMITER) {
        const char byte[2] = {value == KEY_DELIMITER_NONE ? '\0' : (char)value, '\0'};

        return cJSON_AddStringToObject(object, setting->name, byte) ? 0 : -ENOMEM;
    }
    if (name)
        return settings_add_word(object, setting, name, value);
    if (setting->type != SETTING_CLEANUP)
        return json_add_i64(object, setting->name, value);

    buf_init(&text, SETTINGS_VALUE_BYTES);
    int rc = setting_add_value(&text, setting, value);
    if (rc == 0 && !cJSON_AddStringToObject(object, setting->name, text.data))
        rc = -ENOMEM;
    buf_free(&text);
    return rc;
}

cJSON *settings_to_json(const void *config, enum setting_scope scope, int64_t version)
{
    size_t count;
    const struct setting *table = settings_table(scope, &count);
    union settings_copy shown = settings_copy_of(config, scope);
    cJSON *object = cJSON_CreateObject();

    if (!object || json_add_i64(object, "version", version))
        goto fail;
    if (scope == SETTING_TOPIC && shown.topic.replication_factor > 0)
        shown.topic.min_insync_replicas = topic_config_min_insync(config);
    for (size_t i = 0; i < count; i++)
        if (settings_add_json(object, &table[i], *setting_number(&table[i], &shown)))
            goto fail;
    return object;
fail:
    cJSON_Delete(object);
    return NULL;
}
