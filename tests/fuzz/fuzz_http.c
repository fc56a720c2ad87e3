/*
 * Feeds arbitrary bytes to what reads an HTTP request beside libmicrohttpd: targets,
 * the token file and the header that names one, the Host header, and error messages.
 * The first byte chooses. What must hold for any: taken or refused, nothing out of
 * bounds, and what was made of it is well-formed.
 */
#include "replica/http_error.h"
#include "replica/http_peer.h"
#include "replica/http_target.h"
#include "replica/http_tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_REQUIRE(condition)                                                        \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static void fuzz_target(const char *text)
{
    struct http_target target;
    int64_t number = -1;
    int rc = http_target_parse(text, &target);

    FUZZ_REQUIRE(rc == 0 || rc == -EINVAL || rc == -ENAMETOOLONG || rc == -ENOMEM);
    if (rc < 0)
        return;
    FUZZ_REQUIRE(target.part_count <= HTTP_PARTS_MAX);
    for (size_t i = 0; i < target.part_count; i++)
        FUZZ_REQUIRE(*target.parts[i] != '\0');
    for (size_t i = 0; i < target.argument_count; i++) {
        const struct http_argument *argument = &target.arguments[i];

        /* Each is found again, and only once. */
        FUZZ_REQUIRE(http_target_argument(&target, argument->name) == argument->value);
        if (http_target_i64(&target, argument->name, 5, 50, &number) == 0)
            FUZZ_REQUIRE(number >= 5 && number <= 50);
    }
    FUZZ_REQUIRE(http_target_match(&target, "/**"));
    FUZZ_REQUIRE(http_target_match(&target, "/") == (target.part_count == 0));
    (void)http_target_match(&target, text);
    http_target_free(&target);
}

static int fuzz_resolve(const char *name, const struct http_user **out)
{
    if (*name > 'm')
        return -ENOENT;
    *out = http_user_new((uid_t)strlen(name), NULL, 0);
    return *out == NULL ? -ENOMEM : 0;
}

static void fuzz_tokens(const uint8_t *data, size_t size)
{
    struct http_token_list *list = NULL;
    char why[128] = "";

    if (http_token_list_parse((const char *)data, size, fuzz_resolve, &list, why,
                              sizeof why) < 0) {
        FUZZ_REQUIRE(*why != '\0');
        return;
    }
    http_user_put(http_token_list_find(list, "Bearer 0123456789abcdef"));
    http_token_list_free(list);
}

static void fuzz_authorization(const char *text)
{
    static const char file[] = "0123456789abcdef alice\nfedcba9876543210 bob\n";
    struct http_token_list *list = NULL;
    const struct http_user *user;
    char why[128] = "";

    if (http_token_list_parse(file, sizeof file - 1, fuzz_resolve, &list, why,
                              sizeof why) < 0)
        return;
    user = http_token_list_find(list, text);
    FUZZ_REQUIRE(user == NULL || strstr(text, "0123456789abcdef") != NULL ||
                 strstr(text, "fedcba9876543210") != NULL);
    http_user_put(user);
    http_token_list_free(list);
}

static void fuzz_error(const char *text)
{
    struct buf out;
    cJSON *object = NULL;

    buf_init(&out, 1 << 20);
    FUZZ_REQUIRE(http_error_render(&out, "NAME", 1, text) == 0);
    FUZZ_REQUIRE(json_parse(out.data, out.length, &object) == 0);
    cJSON_Delete(object);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0 || (text = malloc(size)) == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0]) {
    case 't':
        fuzz_target(text);
        break;
    case 'k':
        fuzz_tokens(data + 1, size - 1);
        break;
    case 'a':
        fuzz_authorization(text);
        break;
    case 'h':
        (void)http_peer_host_is_loopback(text);
        break;
    default:
        fuzz_error(text);
        break;
    }
    free(text);
    return 0;
}
