#include "coord/store_journal.h"

#include "coord/err.h"
#include "coord/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char MAGIC[] = "topicfs-store ";

enum { CHECKSUM_DIGITS = 16 };

static void checksum_text(const char *bytes, size_t length,
                          char text[CHECKSUM_DIGITS + 1])
{
    snprintf(text, CHECKSUM_DIGITS + 1, "%016" PRIx64,
             (uint64_t)XXH3_64bits(bytes, length));
}

static bool checksum_matches(const char *text, const char *bytes, size_t length)
{
    char expected[CHECKSUM_DIGITS + 1];

    checksum_text(bytes, length, expected);
    return memcmp(text, expected, CHECKSUM_DIGITS) == 0;
}

/* Decimal digits at *at up to `end`; false: none, too many, a leading zero. */
static bool parse_number(const char **at, const char *end, int64_t *out)
{
    const char *start = *at;
    int64_t value = 0;

    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, **at - '0', &value))
            return false;
    *out = value;
    return *at > start && (*start != '0' || *at == start + 1);
}

/* "topicfs-store <version> <checksum>", without the newline. */
static bool parse_header(const char *line, size_t length, int64_t *version)
{
    const char *at = line + sizeof(MAGIC) - 1, *end = line + length;

    if (length < sizeof(MAGIC) - 1 || memcmp(line, MAGIC, sizeof(MAGIC) - 1) != 0 ||
        !parse_number(&at, end, version))
        return false;
    return end - at == 1 + CHECKSUM_DIGITS && *at == ' ' &&
           checksum_matches(at + 1, line, (size_t)(at - line));
}

static bool starts_with(const char *bytes, size_t length, const char *prefix)
{
    size_t n = strlen(prefix);

    return length >= n && memcmp(bytes, prefix, n) == 0;
}

static bool parse_record(const char *line, size_t length, struct journal_record *out)
{
    const char *at = line + CHECKSUM_DIGITS + 1, *end = line + length;

    if (length < CHECKSUM_DIGITS + 2 || line[CHECKSUM_DIGITS] != ' ' ||
        !checksum_matches(line, at, (size_t)(end - at)) ||
        !parse_number(&at, end, &out->revision) || at == end || *at != ' ')
        return false;
    out->body = at + 1;
    out->body_length = (size_t)(end - out->body);
    if (starts_with(out->body, out->body_length, "{\"snapshot\":"))
        out->kind = JOURNAL_SNAPSHOT;
    else if (starts_with(out->body, out->body_length, "{\"ops\":"))
        out->kind = JOURNAL_TRANSACTION;
    else if (starts_with(out->body, out->body_length, "\"closed\""))
        out->kind = JOURNAL_CLOSED;
    else
        return false;
    return true;
}

static void note_damage(struct journal_copy *copy, const char *what, size_t line)
{
    if (copy->what[0] == '\0')
        snprintf(copy->what, sizeof(copy->what), "line %zu: %s", line, what);
}

/* A valid line must also continue the one before it. */
static bool take_record(struct journal_copy *copy, const struct journal_record *record,
                        size_t line)
{
    int64_t last = copy->last_revision;
    bool bad_between = copy->bad_tail_lines > 0;

    if (record->kind == JOURNAL_SNAPSHOT && copy->count > 0)
        return false;
    if (record->kind == JOURNAL_TRANSACTION && record->revision <= last)
        return false;
    if (record->kind == JOURNAL_CLOSED && record->revision < last)
        return false;
    if (last >= 0 && !bad_between &&
        record->revision > last + (record->kind == JOURNAL_TRANSACTION)) {
        copy->gap = true;
        note_damage(copy, "lines before it are missing", line);
    }
    copy->records[copy->count++] = *record;
    copy->last_revision = record->revision;
    copy->closed = record->kind == JOURNAL_CLOSED;
    copy->bad_tail_lines = 0;
    return true;
}

static void scan_line(struct journal_copy *copy, const char *start, size_t length,
                      size_t line)
{
    struct journal_record record;
    int64_t version;
    bool valid;

    if (line == 1) {
        valid = parse_header(start, length, &version);
        copy->newer = valid && version != JOURNAL_FORMAT;
    } else {
        valid =
            parse_record(start, length, &record) && take_record(copy, &record, line);
    }
    if (!valid) {
        note_damage(copy, "checksum or format is wrong", line);
        copy->bad_lines++;
        copy->bad_tail_lines += line > 1;
        copy->closed = false;
    } else if (copy->bad_lines == 0) {
        copy->valid_length = (size_t)(start - copy->bytes) + length + 1;
    }
}

static size_t count_lines(const char *bytes, size_t length)
{
    size_t lines = 1;

    for (const char *at = bytes; (at = memchr(at, '\n', length - (size_t)(at - bytes)));
         at++)
        lines++;
    return lines;
}

int journal_copy_scan(struct journal_copy *copy, char *bytes, size_t length)
{
    const char *at = bytes, *end;
    size_t line = 1;

    *copy =
        (struct journal_copy){.bytes = bytes, .length = length, .last_revision = -1};
    if (!bytes)
        return 0;
    copy->records = calloc(count_lines(bytes, length), sizeof(*copy->records));
    if (!copy->records) {
        journal_copy_free(copy);
        return -ENOMEM;
    }
    for (; at < bytes + length && !copy->newer; at = end + 1, line++) {
        end = memchr(at, '\n', (size_t)(bytes + length - at));
        if (!end) {
            copy->torn = true;
            copy->bad_lines++;
            copy->bad_tail_lines += line > 1;
            copy->closed = false;
            note_damage(copy, "cut off", line);
            break;
        }
        scan_line(copy, at, (size_t)(end - at), line);
    }
    return 0;
}

void journal_copy_free(struct journal_copy *copy)
{
    free(copy->bytes);
    free(copy->records);
    *copy = (struct journal_copy){.last_revision = -1};
}

static int apply_snapshot_row(struct store_map *map, const cJSON *row)
{
    const cJSON *key = cJSON_GetArrayItem(row, 0);
    const cJSON *value = cJSON_GetArrayItem(row, 1);
    int64_t create, mod, leased;
    struct store_entry *entry;

    if (!cJSON_IsString(key) || !cJSON_IsString(value) ||
        json_i64(cJSON_GetArrayItem(row, 2), &create) != 0 ||
        json_i64(cJSON_GetArrayItem(row, 3), &mod) != 0 ||
        json_i64(cJSON_GetArrayItem(row, 4), &leased) != 0)
        return E_CORRUPT;
    entry = store_entry_new(key->valuestring, value->valuestring,
                            strlen(value->valuestring), leased != 0);
    if (!entry || store_map_reserve(map, 1) != 0) {
        store_entry_free(entry);
        return -ENOMEM;
    }
    entry->create_revision = create;
    entry->mod_revision = mod;
    store_map_load(map, entry);
    return 0;
}

static int apply_op(struct store_map *map, const cJSON *op, int64_t revision)
{
    const cJSON *verb = cJSON_GetArrayItem(op, 0);
    const cJSON *key = cJSON_GetArrayItem(op, 1);
    const cJSON *value = cJSON_GetArrayItem(op, 2);
    struct store_entry *entry;
    bool leased;

    if (!cJSON_IsString(verb) || !cJSON_IsString(key))
        return E_CORRUPT;
    if (strcmp(verb->valuestring, "delete") == 0) {
        store_map_remove(map, key->valuestring);
        return 0;
    }
    leased = strcmp(verb->valuestring, "lease") == 0;
    if (!cJSON_IsString(value) || (!leased && strcmp(verb->valuestring, "put") != 0))
        return E_CORRUPT;
    entry = store_entry_new(key->valuestring, value->valuestring,
                            strlen(value->valuestring), leased);
    if (!entry || store_map_reserve(map, 1) != 0) {
        store_entry_free(entry);
        return -ENOMEM;
    }
    store_map_put(map, entry, revision);
    return 0;
}

int journal_apply(struct store_map *map, const struct journal_record *record)
{
    bool snapshot = record->kind == JOURNAL_SNAPSHOT;
    const cJSON *rows, *row;
    cJSON *body;
    int rc = 0;

    if (record->kind == JOURNAL_CLOSED)
        return 0;
    body = cJSON_ParseWithLength(record->body, record->body_length);
    rows = cJSON_GetObjectItemCaseSensitive(body, snapshot ? "snapshot" : "ops");
    if (!cJSON_IsArray(rows))
        rc = E_CORRUPT;
    cJSON_ArrayForEach(row, rows)
    {
        rc = snapshot ? apply_snapshot_row(map, row)
                      : apply_op(map, row, record->revision);
        if (rc != 0)
            break;
    }
    cJSON_Delete(body);
    return rc;
}

/* A line is built with room for its checksum in front, filled in when it is complete.
 */
static size_t line_begin(struct buf *out, int64_t revision)
{
    size_t start = out->length;

    buf_printf(out, "%0*d %" PRId64 " ", CHECKSUM_DIGITS, 0, revision);
    return start;
}

static int line_end(struct buf *out, size_t start)
{
    char text[CHECKSUM_DIGITS + 1];
    size_t body = start + CHECKSUM_DIGITS + 1;

    if (buf_error(out))
        return buf_error(out);
    checksum_text(out->data + body, out->length - body, text);
    memcpy(out->data + start, text, CHECKSUM_DIGITS);
    return buf_adds(out, "\n");
}

static int add_quoted(struct buf *out, const char *text, size_t length)
{
    if (!json_utf8_valid(text, length))
        return -EINVAL;
    return json_quote(out, text, length);
}

int journal_encode_header(struct buf *out)
{
    char line[64], text[CHECKSUM_DIGITS + 1];
    int n = snprintf(line, sizeof(line), "%s%d", MAGIC, JOURNAL_FORMAT);

    checksum_text(line, (size_t)n, text);
    return buf_printf(out, "%s %s\n", line, text);
}

int journal_encode_snapshot(struct buf *out, const struct store_map *map,
                            int64_t revision)
{
    size_t start = line_begin(out, revision);

    buf_adds(out, "{\"snapshot\":[");
    for (size_t i = 0; i < map->count; i++) {
        const struct store_entry *entry = map->entries[i];
        int rc;

        buf_adds(out, i ? ",[" : "[");
        rc = add_quoted(out, entry->key, strlen(entry->key));
        if (rc != 0)
            return rc;
        buf_adds(out, ",");
        rc = add_quoted(out, entry->value, entry->value_length);
        if (rc != 0)
            return rc;
        buf_printf(out, ",\"%" PRId64 "\",\"%" PRId64 "\",%d]", entry->create_revision,
                   entry->mod_revision, entry->leased);
    }
    buf_adds(out, "]}");
    return line_end(out, start);
}

int journal_encode_transaction(struct buf *out, const struct store_kv *changes,
                               const bool *leased, size_t count, int64_t revision)
{
    size_t start = line_begin(out, revision);

    buf_adds(out, "{\"ops\":[");
    for (size_t i = 0; i < count; i++) {
        const struct store_kv *kv = &changes[i];
        const char *verb = !kv->value ? "delete" : leased[i] ? "lease" : "put";
        int rc;

        buf_printf(out, "%s[\"%s\",", i ? "," : "", verb);
        rc = add_quoted(out, kv->key, strlen(kv->key));
        if (rc != 0)
            return rc;
        if (kv->value) {
            buf_adds(out, ",");
            rc = add_quoted(out, kv->value, kv->value_length);
            if (rc != 0)
                return rc;
        }
        buf_adds(out, "]");
    }
    buf_adds(out, "]}");
    return line_end(out, start);
}

int journal_encode_closed(struct buf *out, int64_t revision)
{
    size_t start = line_begin(out, revision);

    buf_adds(out, "\"closed\"");
    return line_end(out, start);
}
