#include "fs/group_offset.h"

#include "fs/tree.h"
#include "fs/where.h"

#include <ctype.h>
#include <string.h>

static int offset_of_where(const char *text, int64_t now_ms, struct group_offset *out)
{
    static const enum groups_place_kind places[] = {
        [WHERE_OFFSET] = GROUPS_PLACE_OFFSET,     [WHERE_LAST] = GROUPS_PLACE_LAST,
        [WHERE_AGE] = GROUPS_PLACE_TIME,          [WHERE_TIME] = GROUPS_PLACE_TIME,
        [WHERE_EARLIEST] = GROUPS_PLACE_EARLIEST, [WHERE_LATEST] = GROUPS_PLACE_LATEST,
    };
    struct where where;
    int rc = where_parse(text, &where);
    if (rc < 0 || where.kind == WHERE_RANGE)
        return rc < 0 ? rc : -EINVAL;
    const int64_t values[] = {
        [WHERE_OFFSET] = where.offset,
        [WHERE_LAST] = where.count,
        [WHERE_AGE] = now_ms - where.age_ms,
        [WHERE_TIME] = where.time_ms,
        [WHERE_LATEST] = 0,
    };
    out->kind = GROUP_OFFSET_PLACE;
    out->place = places[where.kind];
    out->value = values[where.kind];
    return 0;
}

int group_offset_parse(const char *bytes, size_t length, int64_t now_ms,
                       struct group_offset *out)
{
    char text[64];
    *out = (struct group_offset){.kind = GROUP_OFFSET_NONE};
    while (length > 0 && isspace((unsigned char)bytes[length - 1]))
        length--;
    while (length > 0 && isspace((unsigned char)*bytes)) {
        bytes++;
        length--;
    }
    if (length == 0 || length >= sizeof text || memchr(bytes, '\0', length) != NULL)
        return -EINVAL;
    memcpy(text, bytes, length);
    text[length] = '\0';
    if (strcmp(text, "none") == 0)
        return 0;
    if (text[0] != '+' && text[0] != '-')
        return offset_of_where(text, now_ms, out);
    out->kind = GROUP_OFFSET_STEP;
    int rc = number_parse(text + 1, INT64_MAX, &out->value);
    if (text[0] == '-')
        out->value = -out->value;
    return rc;
}

int group_offset_step(int64_t committed, int64_t step, int64_t *out)
{
    if (committed < 0 || __builtin_add_overflow(committed, step, out) || *out < 0)
        return -EINVAL;
    return 0;
}
