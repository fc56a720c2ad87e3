#include "replica/member_core.h"

#include <stdlib.h>
#include <string.h>

struct member_core {
    struct member_part *parts; /* sorted by partition */
    size_t count;
    struct group_config config;
    int64_t fence_ms; /* nothing is handed out from then on */
    bool missed;      /* the user looked for messages then */
    int32_t turn;     /* the partition that was handed out of last; -1: none */
    bool waiting;
    bool polling;    /* likewise, but no longer than until it is due */
    int64_t idle_ms; /* since when the user lets something wait; -1: it does not */
    bool committing;
    uint64_t finishes; /* that changed something */
    uint64_t sent;     /* of them, in the commit under way */
    uint64_t acked;    /* of them, committed or lost */
};

struct member_core *member_core_new(void)
{
    struct member_core *core = calloc(1, sizeof *core);
    if (core) {
        core->turn = -1;
        core->idle_ms = -1;
    }
    return core;
}

void member_core_free(struct member_core *core)
{
    if (core) {
        free(core->parts);
        free(core);
    }
}

size_t member_core_count(const struct member_core *core)
{
    return core->count;
}

const struct member_part *member_core_part(const struct member_core *core, size_t i)
{
    return &core->parts[i];
}

const struct group_config *member_core_config(const struct member_core *core)
{
    return &core->config;
}

static struct member_part *find(const struct member_core *core, int32_t partition,
                                int64_t generation)
{
    for (size_t i = 0; i < core->count; i++) {
        if (core->parts[i].partition == partition) {
            return core->parts[i].generation == generation ? &core->parts[i] : NULL;
        }
    }
    return NULL;
}

const struct member_part *member_core_find(const struct member_core *core,
                                           int32_t partition, int64_t generation)
{
    return find(core, partition, generation);
}

static bool is_manual(const struct member_core *core)
{
    return core->config.commit == GROUP_COMMIT_MANUAL;
}

static bool is_dirty(const struct member_core *core, const struct member_part *part)
{
    bool commits = part->stage == MEMBER_STARTING ||
                   (part->stage == MEMBER_OPEN && !is_manual(core));
    return commits && part->finished != part->committed;
}

static bool in_hand(const struct member_part *part)
{
    return part->stage == MEMBER_OPEN && part->finished < part->handed;
}

static bool may_hand_out(const struct member_part *part)
{
    return part->stage == MEMBER_OPEN && !part->give_up;
}

/* ---- time ---------------------------------------------------------------------------
 */

/* The partition goes to another once the user has come back. */
static bool is_asked_for(const struct member_part *part)
{
    return in_hand(part) && part->give_up;
}

/* What the user has, or could have, makes it due to come back. */
static bool is_owed(const struct member_core *core)
{
    for (size_t i = 0; i < core->count; i++) {
        const struct member_part *part = &core->parts[i];
        bool has = core->polling ? is_asked_for(part) : in_hand(part);
        if (has || (may_hand_out(part) && part->data)) {
            return true;
        }
    }
    return false;
}

static void watch_user(struct member_core *core, int64_t now_ms)
{
    if (core->waiting || !is_owed(core)) {
        core->idle_ms = -1;
    } else if (core->idle_ms < 0) {
        core->idle_ms = now_ms;
    }
}

void member_core_touch(struct member_core *core, bool waiting, int64_t now_ms)
{
    core->waiting = waiting;
    core->polling = false;
    core->idle_ms = -1;
    watch_user(core, now_ms);
}

bool member_core_is_waiting(const struct member_core *core)
{
    return core->waiting || core->polling;
}

int64_t member_core_poll_ms(const struct member_core *core)
{
    return core->idle_ms < 0 || core->config.max_poll_interval_ms <= 0
               ? INT64_MAX
               : core->idle_ms + core->config.max_poll_interval_ms;
}

bool member_core_poll_expired(const struct member_core *core, int64_t now_ms)
{
    return now_ms >= member_core_poll_ms(core);
}

bool member_core_may_hand(const struct member_core *core, int64_t now_ms)
{
    return now_ms < core->fence_ms && !member_core_poll_expired(core, now_ms);
}

/* ---- grants -------------------------------------------------------------------------
 */

void member_core_reset(struct member_core *core)
{
    core->count = 0;
    core->committing = false;
    core->acked = core->finishes;
    core->fence_ms = 0;
    core->idle_ms = -1;
}

/* What was lost can't be committed, so nobody needs to wait for it. */
static void settle_acked(struct member_core *core)
{
    if (!core->committing && !member_core_is_dirty(core)) {
        core->acked = core->finishes;
    }
}

static struct member_part new_part(const struct group_grant *grant)
{
    return (struct member_part){.partition = grant->partition,
                                .generation = grant->generation,
                                .give_up = grant->give_up,
                                .stage = MEMBER_NEW,
                                .committed = grant->committed,
                                .committed_epoch = grant->leader_epoch,
                                .next = grant->committed,
                                .handed = grant->committed,
                                .finished = grant->committed,
                                .finished_epoch = grant->leader_epoch,
                                .sending = -1};
}

static int compare_parts(const void *a, const void *b)
{
    const struct member_part *left = a;
    const struct member_part *right = b;
    return (left->partition > right->partition) - (left->partition < right->partition);
}

int member_core_granted(struct member_core *core, const struct group_wire_beat *beat,
                        int64_t sent_ms, int64_t now_ms)
{
    struct member_part *parts = calloc(beat->count ? beat->count : 1, sizeof *parts);
    if (!parts) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < beat->count; i++) {
        const struct group_grant *grant = &beat->grants[i];
        const struct member_part *had = find(core, grant->partition, grant->generation);
        parts[i] = had ? *had : new_part(grant);
        parts[i].give_up = grant->give_up;
    }
    qsort(parts, beat->count, sizeof *parts, compare_parts);
    free(core->parts);
    core->parts = parts;
    core->count = beat->count;
    core->config = beat->config;
    core->fence_ms = sent_ms + beat->config.group_session_timeout_ms;
    settle_acked(core);
    watch_user(core, now_ms);
    bool missed = core->missed;
    core->missed = false;
    return missed;
}

void member_core_lose(struct member_core *core, int32_t partition, int64_t generation)
{
    struct member_part *part = find(core, partition, generation);
    if (part) {
        part->stage = MEMBER_RELEASED;
        part->sending = -1;
        settle_acked(core);
    }
}

void member_core_begin(struct member_core *core, int32_t partition, int64_t generation,
                       int64_t offset, int32_t epoch, int64_t now_ms)
{
    struct member_part *part = find(core, partition, generation);
    if (part && part->stage == MEMBER_NEW) {
        part->stage = part->committed < 0 ? MEMBER_STARTING : MEMBER_OPEN;
        part->next = offset;
        part->handed = offset;
        part->finished = offset;
        part->finished_epoch = epoch;
        core->finishes += is_dirty(core, part);
        watch_user(core, now_ms);
    }
}

void member_core_move(struct member_core *core, int32_t partition, int64_t generation,
                      int64_t offset, int32_t epoch, int64_t now_ms)
{
    struct member_part *part = find(core, partition, generation);
    if (!part || part->stage != MEMBER_OPEN) {
        return;
    }
    bool back = offset < part->handed;
    if (back || !in_hand(part)) {
        /* Behind the end nothing in hand is worth a commit any more. */
        part->handed = offset;
        part->finished = offset;
        part->finished_epoch = epoch;
        core->finishes += is_dirty(core, part);
    }
    part->next = offset;
    watch_user(core, now_ms);
}

void member_core_data(struct member_core *core, int32_t partition, int64_t generation,
                      bool data, int64_t now_ms)
{
    struct member_part *part = find(core, partition, generation);
    if (part && part->data != data) {
        part->data = data;
        watch_user(core, now_ms);
    }
}

/* ---- handing out --------------------------------------------------------------------
 */

static int next_in_turn(struct member_core *core, int64_t now_ms)
{
    int first = -1;
    if (!member_core_may_hand(core, now_ms)) {
        core->missed = true;
        return -1;
    }
    for (size_t i = 0; i < core->count; i++) {
        const struct member_part *part = &core->parts[i];
        if (!may_hand_out(part) || !part->data) {
            continue;
        }
        if (part->partition > core->turn) {
            return (int)i;
        }
        first = first < 0 ? (int)i : first;
    }
    return first;
}

int member_core_pick(struct member_core *core, int64_t now_ms)
{
    int i = next_in_turn(core, now_ms);
    if (i >= 0) {
        core->turn = core->parts[i].partition;
    }
    return i;
}

bool member_core_poll(struct member_core *core, int64_t now_ms)
{
    bool due = next_in_turn(core, now_ms) >= 0;
    for (size_t i = 0; i < core->count; i++) {
        due = due || is_asked_for(&core->parts[i]);
    }
    if (!core->waiting) {
        core->polling = true;
        watch_user(core, now_ms);
    }
    return due;
}

int member_core_hand(struct member_core *core, int32_t partition, int64_t generation,
                     int64_t first, int64_t next, int64_t now_ms)
{
    struct member_part *part = find(core, partition, generation);
    if (!part || !may_hand_out(part) || first < part->next || next <= first ||
        !member_core_may_hand(core, now_ms)) {
        return E_GROUP_FENCED;
    }
    part->next = next;
    part->handed = next;
    core->waiting = false;
    core->polling = false;
    core->idle_ms = now_ms;
    return 0;
}

bool member_core_take_back(struct member_core *core, int32_t partition,
                           int64_t generation, int64_t *offset, int64_t now_ms)
{
    struct member_part *part = find(core, partition, generation);
    if (!part || part->stage != MEMBER_OPEN || *offset >= part->handed) {
        return false;
    }
    *offset = *offset > part->finished ? *offset : part->finished;
    part->handed = *offset;
    part->next = *offset;
    watch_user(core, now_ms);
    return true;
}

int member_core_finish(struct member_core *core, int32_t partition, int64_t generation,
                       int64_t next, int32_t epoch, int64_t now_ms)
{
    struct member_part *part = find(core, partition, generation);
    if (!part || part->stage != MEMBER_OPEN) {
        return E_GROUP_FENCED;
    }
    int64_t finished = next < part->handed ? next : part->handed;
    if (finished > part->finished) {
        part->finished = finished;
        part->finished_epoch = epoch;
        core->finishes++;
        settle_acked(core);
        watch_user(core, now_ms);
    }
    return 0;
}

/* ---- committing and giving up -------------------------------------------------------
 */

bool member_core_is_dirty(const struct member_core *core)
{
    for (size_t i = 0; i < core->count && !core->committing; i++) {
        if (is_dirty(core, &core->parts[i])) {
            return true;
        }
    }
    return false;
}

size_t member_core_commits(struct member_core *core, struct group_commit *out)
{
    size_t n = 0;
    for (size_t i = 0; i < core->count && !core->committing; i++) {
        struct member_part *part = &core->parts[i];
        if (is_dirty(core, part)) {
            part->sending = part->finished;
            out[n++] = (struct group_commit){.partition = part->partition,
                                             .generation = part->generation,
                                             .offset = part->finished,
                                             .leader_epoch = part->finished_epoch};
        }
    }
    if (n > 0) {
        core->committing = true;
        core->sent = core->finishes;
    }
    return n;
}

bool member_core_committed(struct member_core *core, const struct group_commit *commits,
                           const bool *refused, size_t count)
{
    bool opened = false;
    core->committing = false;
    core->acked = core->sent > core->acked ? core->sent : core->acked;
    for (size_t i = 0; i < count; i++) {
        struct member_part *part =
            find(core, commits[i].partition, commits[i].generation);
        if (!part) {
            continue;
        }
        if (refused[i]) {
            member_core_lose(core, commits[i].partition, commits[i].generation);
            continue;
        }
        part->committed = commits[i].offset;
        part->committed_epoch = commits[i].leader_epoch;
        part->sending = -1;
        if (part->stage == MEMBER_STARTING) {
            part->stage = MEMBER_OPEN;
            opened = true;
        }
    }
    settle_acked(core);
    return opened;
}

void member_core_uncommitted(struct member_core *core)
{
    core->committing = false;
    for (size_t i = 0; i < core->count; i++) {
        core->parts[i].sending = -1;
    }
}

uint64_t member_core_mark(const struct member_core *core)
{
    return core->finishes;
}

bool member_core_synced(const struct member_core *core, uint64_t mark)
{
    return core->acked >= mark;
}

static bool is_releasable(const struct member_core *core,
                          const struct member_part *part)
{
    return part->give_up && part->stage != MEMBER_RELEASED && part->sending < 0 &&
           !in_hand(part) && !is_dirty(core, part);
}

bool member_core_has_releases(const struct member_core *core)
{
    for (size_t i = 0; i < core->count; i++) {
        if (is_releasable(core, &core->parts[i])) {
            return true;
        }
    }
    return false;
}

size_t member_core_releases(struct member_core *core, struct group_released *out)
{
    size_t n = 0;
    for (size_t i = 0; i < core->count; i++) {
        struct member_part *part = &core->parts[i];
        if (is_releasable(core, part)) {
            part->stage = MEMBER_RELEASED;
        }
        if (part->stage == MEMBER_RELEASED) {
            out[n++] = (struct group_released){.partition = part->partition,
                                               .generation = part->generation};
        }
    }
    return n;
}
