#include "coord/settings.h"

#include "coord/err.h"
#include "coord/json.h"
#include "coord/settings_table.h"
#include "coord/settings_why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest text of a value that isn't a string setting; longer ones are malformed. */
enum { SETTINGS_VALUE_BYTES = 256 };

void topic_config_defaults(struct topic_config *config)
{
    size_t count;
    const struct setting *table = settings_table(SETTING_TOPIC, &count);

    *config = (struct topic_config){0};
    for (size_t i = 0; i < count; i++)
        *setting_number(&table[i], config) = table[i].initial;
}

int mount_config_defaults(struct mount_config *config)
{
    size_t count;
    const struct setting *table = settings_table(SETTING_MOUNT, &count);

    *config = (struct mount_config){0};
    topic_config_defaults(&config->topic);
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

/* What the text forms of numbers multiply by; 0: no such unit. */
static int64_t settings_unit(enum setting_type type, const char *unit)
{
    static const struct {
        enum setting_type type;
        const char *unit;
        int64_t factor;
    } units[] = {
        {SETTING_SIZE, "k", 1024},
        {SETTING_SIZE, "K", 1024},
        {SETTING_SIZE, "m", 1024 * 1024},
        {SETTING_SIZE, "M", 1024 * 1024},
        {SETTING_SIZE, "g", 1024 * 1024 * 1024},
        {SETTING_SIZE, "G", 1024 * 1024 * 1024},
        {SETTING_TIME, "ms", 1},
        {SETTING_TIME, "s", 1000},
        {SETTING_TIME, "m", 60 * 1000},
        {SETTING_TIME, "h", 60 * 60 * 1000},
        {SETTING_TIME, "d", 24 * 60 * 60 * 1000},
    };

    if (!*unit)
        return 1;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (units[i].type == type && strcmp(units[i].unit, unit) == 0)
            return units[i].factor;
    return 0;
}

static int settings_parse_number(const struct setting *setting, const char *value,
                                 int64_t *out, const struct why *why)
{
    const char *digits = value + (*value == '-');
    size_t length = strspn(digits, "0123456789");
    int64_t factor = settings_unit(setting->type, digits + length);
    int64_t number;

    if (length == 0 || factor == 0)
        return why_malformed(why, setting, value);
    errno = 0;
    number = strtoll(value, NULL, 10);
    if (errno || __builtin_mul_overflow(number, factor, &number))
        return why_range(why, setting, value, *value == '-');
    if (number < setting->minimum || number > setting->maximum)
        return why_range(why, setting, value, number < setting->minimum);
    *out = number;
    return 0;
}

static bool settings_parse_name(const struct setting *setting, const char *value,
                                size_t length, int64_t *out)
{
    if (!setting->names)
        return false;
    for (const struct setting_name *name = setting->names; name->name; name++) {
        if (strlen(name->name) == length && memcmp(name->name, value, length) == 0) {
            *out = name->value;
            return true;
        }
    }
    return false;
}

/* One or more of the names, with , or + between (a comma ends a mount option). */
static int settings_parse_set(const struct setting *setting, const char *value,
                              int64_t *out, const struct why *why)
{
    int64_t set = 0;

    for (const char *at = value;;) {
        size_t length = strcspn(at, ",+");
        int64_t bit;

        if (!settings_parse_name(setting, at, length, &bit))
            return why_malformed(why, setting, value);
        set |= bit;
        if (!at[length])
            break;
        at += length + 1;
    }
    *out = set;
    return 0;
}

static int settings_parse(const struct setting *setting, const char *value,
                          int64_t *out, const struct why *why)
{
    if (strlen(value) > SETTINGS_VALUE_BYTES)
        return why_malformed(why, setting, value);
    if (setting->type == SETTING_CLEANUP)
        return settings_parse_set(setting, value, out, why);
    if (settings_parse_name(setting, value, strlen(value), out))
        return 0;
    if (setting->type == SETTING_CHOICE)
        return why_malformed(why, setting, value);
    if (setting->type != SETTING_DELIMITER)
        return settings_parse_number(setting, value, out, why);

    unsigned char byte = (unsigned char)value[0];
    if (value[1] || byte > setting->maximum || byte == '\n')
        return why_malformed(why, setting, value);
    *out = byte;
    return 0;
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

int settings_set_text(void *config, enum setting_scope scope, const char *name,
                      const char *value, char *why_text, size_t why_size)
{
    const struct why why = {why_text, why_size};
    const struct setting *mount = NULL;
    const struct setting *topic = settings_find(SETTING_TOPIC, name);

    why_set(&why, 0, "%s", "");
    if (scope == SETTING_MOUNT)
        mount = settings_find(SETTING_MOUNT, name);
    if (!mount && !topic)
        return why_unknown(&why, scope, name);
    if (!value) {
        if (!mount || mount->type != SETTING_CHOICE)
            return why_set(&why, E_INVALID_CONFIG, "%s: needs a value, as in %s=...",
                           name, name);
        value = "true";
    }
    if (!mount)
        return settings_set_topic(scope == SETTING_MOUNT
                                      ? &((struct mount_config *)config)->topic
                                      : (struct topic_config *)config,
                                  topic, value, &why);
    if (mount->type == SETTING_STRING)
        return settings_set_string(config, mount, value, &why);
    return settings_parse(mount, value, setting_number(mount, config), &why);
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

/* One key of the object; the result goes to `config`. */
static int settings_apply_item(struct topic_config *config,
                               const struct topic_config *defaults, const cJSON *item,
                               bool creating, const struct why *why)
{
    const struct setting *setting = settings_find(SETTING_TOPIC, item->string);
    char text[SETTINGS_VALUE_BYTES + 1];
    int64_t value = 0;

    if (!setting)
        return why_unknown(why, SETTING_TOPIC, item->string);
    if (cJSON_IsNull(item)) {
        struct topic_config copy = *defaults;

        value = *setting_number(setting, &copy);
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

int settings_apply_json(struct topic_config *config,
                        const struct topic_config *defaults, const cJSON *object,
                        int64_t version, bool creating, char *why_text, size_t why_size)
{
    const struct why why = {why_text, why_size};
    struct topic_config changed = *config;
    const cJSON *item;
    int rc;

    why_set(&why, 0, "%s", "");
    if (!cJSON_IsObject(object))
        return why_set(
            &why, E_INVALID_CONFIG,
            "a JSON object is needed, for example {\"retention_ms\":\"7d\"}");
    rc = settings_check_version(object, version, &why);
    if (rc)
        return rc;
    cJSON_ArrayForEach(item, object)
    {
        if (strcmp(item->string, "version") == 0)
            continue;
        rc = settings_apply_item(&changed, defaults, item, creating, &why);
        if (rc)
            return rc;
    }
    /* What is shown for a default, written back, leaves it the default. */
    if (config->min_insync_replicas == 0 && changed.replication_factor > 0) {
        struct topic_config shown = changed;

        shown.min_insync_replicas = 0;
        if (changed.min_insync_replicas == topic_config_min_insync(&shown))
            changed.min_insync_replicas = 0;
    }
    rc = settings_check(&changed, &why);
    if (rc == 0)
        *config = changed;
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

cJSON *settings_to_json(const struct topic_config *config, int64_t version)
{
    size_t count;
    const struct setting *table = settings_table(SETTING_TOPIC, &count);
    struct topic_config shown = *config;
    cJSON *object = cJSON_CreateObject();

    if (!object || json_add_i64(object, "version", version))
        goto fail;
    if (shown.replication_factor > 0)
        shown.min_insync_replicas = topic_config_min_insync(config);
    for (size_t i = 0; i < count; i++)
        if (settings_add_json(object, &table[i], *setting_number(&table[i], &shown)))
            goto fail;
    return object;
fail:
    cJSON_Delete(object);
    return NULL;
}
