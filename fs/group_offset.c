#include "fs/group_offset.h"

#include "fs/tree.h"
#include "fs/where.h"

#include <ctype.h>
#include <string.h>

static int offset_of_where(const char *text, int64_t now_ms, struct group_offset *out)
{
    struct where where;
    int rc = where_parse(text, &where);
    if (rc < 0)
        return rc;
    out->kind = GROUP_OFFSET_PLACE;
    switch (where.kind) {
    case WHERE_OFFSET:
        out->place = GROUPS_PLACE_OFFSET;
        out->value = where.offset;
        return 0;
    case WHERE_LAST:
        out->place = GROUPS_PLACE_LAST;
        out->value = where.count;
        return 0;
    case WHERE_AGE:
        out->place = GROUPS_PLACE_TIME;
        out->value = now_ms - where.age_ms;
        return 0;
    case WHERE_TIME:
        out->place = GROUPS_PLACE_TIME;
        out->value = where.time_ms;
        return 0;
    case WHERE_EARLIEST:
        out->place = GROUPS_PLACE_EARLIEST;
        return 0;
    case WHERE_LATEST:
        out->place = GROUPS_PLACE_LATEST;
        return 0;
    case WHERE_RANGE:
        break;
    }
    return -EINVAL;
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
    int rc = tree_number(text + 1, INT64_MAX, &out->value);
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
