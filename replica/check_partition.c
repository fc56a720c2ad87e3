/* One partition's directory: names, the segments in order, gaps, producer snapshots. */
#include "replica/check_internal.h"
#include "replica/log_internal.h"
#include "replica/producer_state.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_DIGITS = 20, SNAPSHOT_MAX_BYTES = 64 << 20 };

/* By base offset or, for a producer snapshot, the offset that it covers. */
struct numbers {
    int64_t *at;
    size_t count;
    size_t allocated;
};

struct listing {
    struct check *check;
    const char *name; /* of the directory */
    struct numbers segments;
    struct numbers dropped; /* segments that are half deleted: the next mount ends it */
    struct numbers snapshots;
    bool replacing; /* a compaction was interrupted */
};

struct owner {
    struct topic_id id;
    bool known;
    const struct checkpoint_entry *entry; /* NULL: the checkpoint does not have it */
};

static int add_number(struct numbers *numbers, int64_t number)
{
    if (numbers->count == numbers->allocated) {
        size_t allocated = numbers->allocated ? numbers->allocated * 2 : 64;
        int64_t *at = realloc(numbers->at, allocated * sizeof *at);
        if (at == NULL)
            return -ENOMEM;
        numbers->at = at;
        numbers->allocated = allocated;
    }
    numbers->at[numbers->count++] = number;
    return 0;
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void sort_numbers(struct numbers *numbers)
{
    size_t kept = 0;
    if (numbers->count > 0)
        qsort(numbers->at, numbers->count, sizeof *numbers->at, compare_numbers);
    for (size_t i = 0; i < numbers->count; i++) {
        if (kept == 0 || numbers->at[i] != numbers->at[kept - 1])
            numbers->at[kept++] = numbers->at[i];
    }
    numbers->count = kept;
}

static bool has_number(const struct numbers *numbers, int64_t number)
{
    return numbers->count > 0 && bsearch(&number, numbers->at, numbers->count,
                                         sizeof *numbers->at, compare_numbers) != NULL;
}

/* ---- names --------------------------------------------------------------------------
 */

static bool parse_number(const char *name, int64_t *number)
{
    if (strlen(name) <= NAME_DIGITS || strspn(name, "0123456789") != NAME_DIGITS)
        return false;
    errno = 0;
    *number = strtoll(name, NULL, 10);
    return errno == 0;
}

static int sort_name(void *arg, const char *name)
{
    struct listing *listing = arg;
    int64_t number = 0;
    char file[TOPIC_NAME_MAX + 320];
    if (strcmp(name, "replace") == 0) {
        listing->replacing = true;
        return 0;
    }
    if (parse_number(name, &number)) {
        const char *suffix = name + NAME_DIGITS;
        if (strcmp(suffix, ".log") == 0 || strcmp(suffix, ".index") == 0)
            return add_number(&listing->segments, number);
        if (strcmp(suffix, ".deleted") == 0)
            return add_number(&listing->dropped, number);
        if (strcmp(suffix, ".producers") == 0)
            return add_number(&listing->snapshots, number);
        if (strcmp(suffix, ".log.new") == 0 || strcmp(suffix, ".index.new") == 0 ||
            strcmp(suffix, ".producers.tmp") == 0)
            return 0; /* unfinished; the next mount removes it */
    }
    (void)snprintf(file, sizeof file, "%s/%s", listing->name, name);
    check_note(listing->check, file, "not a file of topicfs; it is left alone");
    return 0;
}

static int list_partition(struct listing *listing)
{
    const struct check *check = listing->check;
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", check->path, listing->name);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    int rc = check->disk->ops->list(check->disk, path, sort_name, listing);
    sort_numbers(&listing->segments);
    sort_numbers(&listing->dropped);
    sort_numbers(&listing->snapshots);
    size_t kept = 0;
    for (size_t i = 0; i < listing->segments.count; i++) {
        if (!has_number(&listing->dropped, listing->segments.at[i]))
            listing->segments.at[kept++] = listing->segments.at[i];
    }
    listing->segments.count = kept;
    return rc;
}

/* ---- what is known beforehand -------------------------------------------------------
 */

static void name_segment(struct check_segment *segment, struct check *check,
                         const char *partition, int64_t base_offset)
{
    *segment = (struct check_segment){.check = check,
                                      .partition = partition,
                                      .base_offset = base_offset,
                                      .text = -1,
                                      .index = -1};
    (void)snprintf(segment->text_name, sizeof segment->text_name,
                   "%s/%020" PRId64 ".log", partition, base_offset);
    (void)snprintf(segment->index_name, sizeof segment->index_name,
                   "%s/%020" PRId64 ".index", partition, base_offset);
}

/* "orders-0" -> "orders", 0. */
static const struct checkpoint_entry *entry_by_name(const struct check *check,
                                                    const char *name)
{
    const char *dash = strrchr(name, '-');
    for (size_t i = 0; i < check->checkpoint.count; i++) {
        const struct checkpoint_entry *entry = &check->checkpoint.entries[i];
        if (strlen(entry->topic) == (size_t)(dash - name) &&
            strncmp(entry->topic, name, (size_t)(dash - name)) == 0 &&
            entry->partition == strtol(dash + 1, NULL, 10))
            return entry;
    }
    return NULL;
}

/* The topic that most headers name; where they disagree, the checkpoint's. A log that
 * was damaged beyond that has it in the checkpoint alone. */
static int find_topic(const struct listing *listing, struct owner *topic)
{
    struct check *check = listing->check;
    const struct checkpoint_entry *named =
        check->checkpoint_good ? entry_by_name(check, listing->name) : NULL;
    size_t votes = 0; /* Boyer and Moore's: a majority is left over */
    for (size_t i = 0; i < listing->segments.count; i++) {
        struct check_segment segment;
        name_segment(&segment, check, listing->name, listing->segments.at[i]);
        int rc = check_segment_open(&segment);
        check_segment_close(&segment);
        if (rc != 0)
            return rc;
        if (!segment.header_good)
            continue;
        if (votes == 0)
            topic->id = segment.header.topic_id;
        bool same = topic_id_equal(&topic->id, &segment.header.topic_id);
        votes = same ? votes + 1 : votes - 1;
        topic->known = true;
    }
    if (named != NULL && (!topic->known || votes == 0))
        topic->id = named->topic_id;
    topic->known = topic->known || named != NULL;
    if (topic->known && named != NULL && topic_id_equal(&named->topic_id, &topic->id))
        topic->entry = named;
    return 0;
}

/* The first readable entry of a segment. */
static int first_entry(struct check *check, const char *partition, int64_t base_offset,
                       struct batch *batch)
{
    struct check_segment segment;
    struct index_reader reader;
    name_segment(&segment, check, partition, base_offset);
    int rc = check_segment_open(&segment);
    int64_t size = segment.index_size - INDEX_HEADER_BYTES;
    uint32_t count = size > 0 ? (uint32_t)(size / INDEX_ENTRY_BYTES) : 0;
    index_reader_init(&reader, check->disk, segment.index, base_offset, count);
    if (rc == 0)
        rc = E_DAMAGED;
    for (uint32_t i = 0; rc == E_DAMAGED && i < count; i++)
        rc = index_reader_get(&reader, i, batch);
    check_segment_close(&segment);
    return rc;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* From where on a tail may be what a crash tore, and how far the log must reach. */
static void set_bounds(struct check_segment *segment, const struct owner *topic)
{
    const struct check *check = segment->check;
    const struct checkpoint_entry *entry = topic->entry;
    int64_t safe = -1;
    if (entry != NULL)
        safe = larger(entry->flushed_offset, entry->high_watermark);
    segment->cut_floor = INT64_MAX;
    segment->known_end = safe;
    if (check->recovery == LOG_CLEAN && entry != NULL)
        segment->known_end = larger(safe, entry->log_end_offset);
    else if (check->recovery == LOG_MACHINE_CRASHED && check->checkpoint_good)
        segment->cut_floor = safe;
}

/* ---- segments -----------------------------------------------------------------------
 */

/* What a mended segment takes from those before it. */
struct carry {
    int64_t timestamp_ms;
    int32_t epoch;
    int64_t base_position;
};

static int set_neighbours(struct check_segment *segment, const struct listing *listing,
                          size_t i, const struct owner *topic,
                          const struct carry *carry)
{
    struct batch batch;
    segment->topic_id = topic->id;
    segment->next_base = -1;
    segment->cut_floor = INT64_MAX;
    segment->known_end = -1;
    segment->least_timestamp_ms = carry->timestamp_ms;
    segment->most_timestamp_ms = INT64_MAX;
    segment->epoch = carry->epoch;
    segment->base_position = carry->base_position;
    if (i + 1 == listing->segments.count) {
        set_bounds(segment, topic);
        return 0;
    }
    segment->next_base = listing->segments.at[i + 1];
    int rc = first_entry(segment->check, listing->name, segment->next_base, &batch);
    if (rc == 0) {
        segment->most_timestamp_ms = batch.timestamp_ms;
        if (carry->timestamp_ms == INT64_MIN)
            segment->epoch = batch.leader_epoch;
    }
    return rc == E_DAMAGED ? 0 : rc;
}

/* What no repair can mend: someone put a file where it does not belong. */
static bool is_foreign(struct check_segment *segment, const struct owner *topic)
{
    struct check *check = segment->check;
    if (!segment->header_good)
        return false;
    if (segment->header.base_offset != segment->base_offset) {
        check_found(check, segment->index_name,
                    "the index of the segment from offset %" PRId64
                    " under a wrong name: rename it back",
                    segment->header.base_offset);
        return true;
    }
    if (!topic_id_equal(&segment->header.topic_id, &topic->id)) {
        check_found(check, segment->index_name,
                    "belongs to another topic than the segments around it: move it and "
                    "its text away");
        return true;
    }
    return false;
}

static void mend(struct check_segment *segment, const struct check_plan *plan,
                 const struct owner *topic)
{
    struct check *check = segment->check;
    if (!topic->known) {
        check_note(check, segment->index_name,
                   "not repaired: nothing says to which topic the log belongs");
        return;
    }
    int rc = check_repair_segment(segment, plan);
    if (rc != 0) {
        check_note(check, segment->index_name, "not repaired: %s", err_text(rc));
        return;
    }
    check->repaired += plan->findings;
    check_note(check, segment->index_name,
               "repaired: %" PRId64 " messages up to offset %" PRId64
               "; the files as they were are in damaged/%s",
               plan->messages, plan->end_offset - 1, segment->partition);
}

static int check_one(struct check_segment *segment, const struct owner *topic,
                     struct carry *carry)
{
    struct check *check = segment->check;
    struct check_plan plan;
    int rc = check_segment_open(segment);
    if (rc == 0 && is_foreign(segment, topic))
        return 0;
    if (rc == 0)
        rc = check_segment_walk(segment, &plan);
    if (rc != 0)
        return rc;
    check->segments++;
    check->messages += plan.messages;
    check->bytes += segment->text_size + segment->index_size;
    carry->timestamp_ms = plan.last_timestamp_ms;
    carry->epoch = plan.epoch;
    carry->base_position = (segment->header_good ? segment->header.base_position
                                                 : segment->base_position) +
                           plan.text_size;
    if (plan.findings > 0 && check->repair)
        mend(segment, &plan, topic);
    return 0;
}

/* The checkpoint of a clean stop says where the log begins. */
static int check_start(const struct listing *listing, const struct owner *topic)
{
    struct check *check = listing->check;
    const struct checkpoint_entry *entry = topic->entry;
    if (entry == NULL || check->recovery != LOG_CLEAN)
        return 0;
    bool none = listing->segments.count == 0;
    int64_t first = none ? entry->log_end_offset : listing->segments.at[0];
    if (first <= entry->log_start_offset)
        return 0;
    check_found(check, listing->name,
                "segments are missing: offsets %" PRId64 " to %" PRId64 " are lost",
                entry->log_start_offset, first - 1);
    if (!check->repair)
        return 0;
    int rc = check_repair_empty(check, listing->name, &topic->id,
                                entry->log_start_offset, true);
    if (rc == 0 && none)
        rc = check_repair_empty(check, listing->name, &topic->id, first, false);
    check->repaired += rc == 0;
    return rc;
}

static int check_segments(const struct listing *listing, const struct owner *topic)
{
    struct carry carry = {.timestamp_ms = INT64_MIN};
    int rc = check_start(listing, topic);
    for (size_t i = 0; rc == 0 && i < listing->segments.count; i++) {
        struct check_segment segment;
        name_segment(&segment, listing->check, listing->name, listing->segments.at[i]);
        rc = set_neighbours(&segment, listing, i, topic, &carry);
        if (rc == 0)
            rc = check_one(&segment, topic, &carry);
        check_segment_close(&segment);
    }
    return rc;
}

/* ---- producer snapshots -------------------------------------------------------------
 */

static int check_snapshot(struct check *check, const char *partition, int64_t offset)
{
    char file[TOPIC_NAME_MAX + 64];
    char path[PATH_MAX];
    char *bytes = NULL;
    size_t length = 0;
    int64_t covered = -1;
    (void)snprintf(file, sizeof file, "%s/%020" PRId64 ".producers", partition, offset);
    (void)snprintf(path, sizeof path, "%s/%s", check->path, file);
    struct producer_state *state = producer_state_new();
    int rc = state == NULL ? -ENOMEM : 0;
    if (rc == 0)
        rc = disk_slurp(check->disk, path, SNAPSHOT_MAX_BYTES, &bytes, &length);
    if (rc == 0)
        rc = producer_state_decode(state, bytes, length, &covered);
    producer_state_free(state);
    free(bytes);
    if (rc == 0 && covered != offset)
        rc = E_CORRUPT;
    if (rc != E_CORRUPT)
        return rc;
    check_found(check, file,
                "the producer snapshot is damaged; the index has the same");
    if (!check->repair)
        return 0;
    rc = check_save(check, file);
    if (rc == 0)
        rc = check->disk->ops->unlink(check->disk, path);
    check->repaired += rc == 0;
    return rc;
}

static void listing_clear(struct listing *listing)
{
    free(listing->segments.at);
    free(listing->dropped.at);
    free(listing->snapshots.at);
    *listing = (struct listing){.check = listing->check, .name = listing->name};
}

/* The files are between two states; only the manifest tells which belong together. */
static int end_replacement(struct listing *listing)
{
    struct check *check = listing->check;
    char path[PATH_MAX];
    check_found(check, listing->name,
                "a compaction was interrupted within its last step%s",
                check->repair ? "" : "; the next mount ends it, or --repair");
    if (!check->repair)
        return 0;
    (void)snprintf(path, sizeof path, "%s/%s", check->path, listing->name);
    int rc = log_replace_recover(check->disk, path);
    listing_clear(listing);
    if (rc == 0)
        rc = list_partition(listing);
    if (rc == 0 && !listing->replacing)
        check->repaired++;
    return rc;
}

int check_partition(struct check *check, const char *name)
{
    struct listing listing = {.check = check, .name = name};
    struct owner topic = {.known = false};
    int rc = list_partition(&listing);
    check->partitions++;
    if (rc == 0 && listing.replacing)
        rc = end_replacement(&listing);
    if (rc == 0 && !listing.replacing) {
        rc = find_topic(&listing, &topic);
        if (rc == 0)
            rc = check_segments(&listing, &topic);
    }
    for (size_t i = 0; rc == 0 && i < listing.snapshots.count; i++)
        rc = check_snapshot(check, name, listing.snapshots.at[i]);
    listing_clear(&listing);
    return rc;
}
