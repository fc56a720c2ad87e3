/*
 * Feeds arbitrary names to the parser of places and checks what must hold for any: it
 * is taken or refused with EINVAL, the numbers are in range, and a name that is made of
 * numbers alone says the same when printed again.
 */
#include "fs/where.h"

#include <errno.h>
#include <inttypes.h>
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

static void fuzz_check(const char *name, const struct where *where)
{
    char again[64] = "";
    FUZZ_REQUIRE(where->offset >= 0 && where->last_offset >= 0);
    FUZZ_REQUIRE(where->count >= 0 && where->age_ms >= 0);
    switch (where->kind) {
    case WHERE_OFFSET:
        (void)snprintf(again, sizeof again, "%" PRId64, where->offset);
        break;
    case WHERE_RANGE:
        FUZZ_REQUIRE(where->offset <= where->last_offset);
        (void)snprintf(again, sizeof again, "%" PRId64 "-%" PRId64, where->offset,
                       where->last_offset);
        break;
    case WHERE_LAST:
        (void)snprintf(again, sizeof again, "%s%" PRId64, name[0] == '-' ? "-" : "last",
                       where->count);
        break;
    case WHERE_AGE:
        FUZZ_REQUIRE(where->age_ms % 1000 == 0);
        return;
    case WHERE_TIME:
        return;
    case WHERE_EARLIEST:
        (void)snprintf(again, sizeof again, "earliest");
        break;
    case WHERE_LATEST:
        (void)snprintf(again, sizeof again, "latest");
        break;
    }
    FUZZ_REQUIRE(strcmp(name, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct where where;
    char *name = malloc(size + 1);
    int rc;
    if (name == NULL)
        return 0;
    if (size > 0)
        memcpy(name, data, size);
    name[size] = '\0';
    rc = where_parse(name, &where);
    FUZZ_REQUIRE(rc == 0 || rc == -EINVAL);
    if (rc == 0)
        fuzz_check(name, &where);
    free(name);
    return 0;
}
