/*
 * Feeds arbitrary bytes to the JSON reader and to the settings, as config.json and the
 * mount options do, and checks what must hold for any input:
 *
 * - a refusal leaves the config as it was, and tells why in one line of valid UTF-8;
 * - a prefix of JSON that was taken is taken or not complete, never malformed;
 * - what is rendered from a config, applied to it, changes nothing; applied to a fresh
 *   one it gives a config that renders the same.
 *
 * The first byte chooses the path: "c" a new topic's JSON, "t" options as "name=value",
 * each ended by a NUL, anything else a made topic's JSON. The rest is the input.
 */
#include "coord/err.h"
#include "coord/json.h"
#include "coord/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_VERSION = 7, FUZZ_FRESH_FACTOR = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_REQUIRE(condition)                                                        \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static void fuzz_check_why(int rc, const char *why)
{
    FUZZ_REQUIRE((rc == 0) == (why[0] == '\0'));
    FUZZ_REQUIRE(json_utf8_valid(why, strlen(why)));
    for (const char *c = why; *c; c++)
        FUZZ_REQUIRE((unsigned char)*c >= 0x20);
}

static void fuzz_check_round_trip(const struct topic_config *config)
{
    struct topic_config defaults;
    struct topic_config same = *config;
    struct topic_config fresh;
    char why[512];
    cJSON *shown = settings_to_json(config, SETTING_TOPIC, FUZZ_VERSION);
    cJSON *parsed = NULL;

    topic_config_defaults(&defaults);
    FUZZ_REQUIRE(shown);
    char *text = cJSON_PrintUnformatted(shown);
    FUZZ_REQUIRE(text);
    FUZZ_REQUIRE(json_parse(text, strlen(text), &parsed) == 0);

    FUZZ_REQUIRE(settings_apply_json(&same, SETTING_TOPIC, &defaults, parsed,
                                     FUZZ_VERSION, false, why, sizeof why) == 0);
    FUZZ_REQUIRE(memcmp(&same, config, sizeof same) == 0);

    topic_config_defaults(&fresh);
    FUZZ_REQUIRE(settings_apply_json(&fresh, SETTING_TOPIC, &defaults, parsed,
                                     FUZZ_VERSION, true, why, sizeof why) == 0);
    cJSON *again = settings_to_json(&fresh, SETTING_TOPIC, FUZZ_VERSION);
    char *text_again = cJSON_PrintUnformatted(again);
    FUZZ_REQUIRE(text_again && strcmp(text, text_again) == 0);

    cJSON_free(text_again);
    cJSON_Delete(again);
    cJSON_free(text);
    cJSON_Delete(parsed);
    cJSON_Delete(shown);
}

static void fuzz_check_prefixes(const char *bytes, size_t length)
{
    /* A few cuts, for speed. */
    size_t step = length / 16 + 1;

    for (size_t cut = 0; cut < length; cut += step) {
        cJSON *tree;
        int rc = json_parse(bytes, cut, &tree);

        FUZZ_REQUIRE(rc == 0 || rc == -EAGAIN);
        cJSON_Delete(tree);
    }
}

static void fuzz_json(const char *bytes, size_t length, bool creating)
{
    struct topic_config defaults;
    struct topic_config config;
    char why[512];
    cJSON *tree;
    int rc = json_parse(bytes, length, &tree);

    FUZZ_REQUIRE(rc == 0 || rc == -EAGAIN || rc == E_INVALID_JSON);
    FUZZ_REQUIRE((rc == 0) == (tree != NULL));
    if (rc)
        return;
    fuzz_check_prefixes(bytes, length);

    topic_config_defaults(&defaults);
    topic_config_defaults(&config);
    config.replication_factor = FUZZ_FRESH_FACTOR;
    struct topic_config before = config;
    rc = settings_apply_json(&config, SETTING_TOPIC, &defaults, tree, FUZZ_VERSION,
                             creating, why, sizeof why);
    fuzz_check_why(rc, why);
    if (rc)
        FUZZ_REQUIRE(memcmp(&config, &before, sizeof config) == 0);
    else
        fuzz_check_round_trip(&config);
    cJSON_Delete(tree);
}

/* One "name=value" to a mount's settings; both parts are NUL-terminated here. */
static void fuzz_option(struct mount_config *config, const char *option)
{
    const char *equals = strchr(option, '=');
    struct mount_config before = *config;
    char name[256];
    char why[512];
    int rc;

    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - option) : 255, option);
    rc = settings_set_text(config, SETTING_MOUNT, name, equals ? equals + 1 : NULL, why,
                           sizeof why);
    fuzz_check_why(rc, why);
    /* Strings are replaced only by success, so that the pointers too are the same. */
    if (rc)
        FUZZ_REQUIRE(memcmp(config, &before, sizeof before) == 0);
}

static void fuzz_text(const char *bytes, size_t length)
{
    struct mount_config config;
    size_t start = 0;
    char *text = malloc(length + 1);

    FUZZ_REQUIRE(text);
    FUZZ_REQUIRE(mount_config_defaults(&config) == 0);
    memcpy(text, bytes, length);
    text[length] = '\0';
    while (start <= length) {
        fuzz_option(&config, text + start);
        start += strlen(text + start) + 1;
    }
    fuzz_check_round_trip(&config.topic);
    mount_config_free(&config);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;

    if (data[0] == 't')
        fuzz_text(bytes, size - 1);
    else
        fuzz_json(bytes, size - 1, data[0] == 'c');
    return 0;
}
