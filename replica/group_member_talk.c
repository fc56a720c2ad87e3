/* What a member says to its coordinator, and is answered. The groups' thread. */
#include "replica/groups_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
    RETRY_MS = 200,
    COMMIT_EVERY_MS = 5, /* what is finished meanwhile goes along */
};

static cJSON *new_op(const char *name, const char *group, const char *member)
{
    cJSON *op = cJSON_CreateObject();
    if (!cJSON_AddStringToObject(op, "op", name) ||
        !cJSON_AddStringToObject(op, "group", group) ||
        !cJSON_AddStringToObject(op, "member", member)) {
        cJSON_Delete(op);
        op = NULL;
    }
    return op;
}

/* ---- joining ------------------------------------------------------------------------
 */

static void on_joined(struct group_ask *ask, int error, const cJSON *answer,
                      const char *why);
static void on_committed(struct group_ask *ask, int error, const cJSON *answer,
                         const char *why);
static int fill_beat(struct group_beater *beater, cJSON *op);
static bool on_beat(struct group_beater *beater, int error, const cJSON *answer,
                    int64_t sent_ms);

void group_member_talk_init(struct group_member *member)
{
    member->join.done = on_joined;
    member->join.shard = -1;
    member->join.deadline_ms = INT64_MAX;
    member->join.creates = true;
    member->commit.done = on_committed;
    member->commit.shard = -1;
    member->commit.deadline_ms = INT64_MAX;
    member->beater.group = member->params.group;
    member->beater.session_timeout_ms =
        member->groups->params.config->group.group_session_timeout_ms;
    member->beater.fill = fill_beat;
    member->beater.answered = on_beat;
}

static uint64_t next_number(struct groups *groups)
{
    pthread_mutex_lock(&groups->lock);
    uint64_t number = ++groups->member_count;
    pthread_mutex_unlock(&groups->lock);
    return number;
}

void group_member_join_now(struct group_member *member)
{
    struct groups *groups = member->groups;
    const struct cluster_snapshot *snapshot = group_client_cluster(groups->client);
    char id[sizeof member->id];
    (void)snprintf(id, sizeof id, "%" PRId32 "-%" PRId64 "-%06" PRIu64, snapshot->self,
                   snapshot->self_epoch, next_number(groups));
    cJSON *op = new_op("join", member->params.group, id);
    if (!op ||
        group_wire_add_topic(op, member->params.topic, &member->params.topic_id)) {
        cJSON_Delete(op);
        member->retry_ms = groups_now(groups) + RETRY_MS;
        return;
    }
    memcpy(member->id, id, sizeof id);
    member->epoch = snapshot->self_epoch;
    member->seen = 0;
    member->rejoin = false;
    member->phase = MEMBER_JOINING;
    member->join.op = op;
    group_client_ask(groups->client, &member->join);
}

static struct group_member *member_of_join(struct group_ask *ask)
{
    return (struct group_member *)((char *)ask - offsetof(struct group_member, join));
}

static void on_joined(struct group_ask *ask, int error, const cJSON *answer,
                      const char *why)
{
    struct group_member *member = member_of_join(ask);
    (void)answer;
    pthread_mutex_lock(&member->lock);
    if (!error) {
        member->phase = MEMBER_IN;
        member->tell = true;
        if (member->state == GROUP_JOINING) {
            member->state = GROUP_JOINED;
        }
        group_client_beat(member->groups->client, &member->beater);
    } else {
        /* Its topic may be news to the coordinator; that it is gone, the snapshot of
         * this node says. */
        if (error != E_TOPIC_DELETED) {
            diag(DIAG_WARNING, "group %s: %s can't join: %s", member->params.group,
                 member->id, *why != '\0' ? why : err_text(error));
        }
        member->phase = MEMBER_OUT;
        member->id[0] = '\0';
        member->rejoin = true;
        member->retry_ms = groups_now(member->groups) + RETRY_MS;
        if (error == -EUSERS) {
            group_member_fail(member, error);
        }
    }
    group_member_wake(member);
    pthread_mutex_unlock(&member->lock);
}

/* ---- beats --------------------------------------------------------------------------
 */

static struct group_member *member_of_beat(struct group_beater *beater)
{
    return (struct group_member *)((char *)beater -
                                   offsetof(struct group_member, beater));
}

static int fill_beat(struct group_beater *beater, cJSON *op)
{
    struct group_member *member = member_of_beat(beater);
    pthread_mutex_lock(&member->lock);
    size_t room = member_core_count(member->core);
    struct group_released *released = calloc(room ? room : 1, sizeof *released);
    int rc = released ? 0 : -ENOMEM;
    size_t count = released ? member_core_releases(member->core, released) : 0;
    if (!rc && !cJSON_AddStringToObject(op, "member", member->id)) {
        rc = -ENOMEM;
    }
    rc = rc ? rc : json_add_i64(op, "seen", (int64_t)member->seen);
    if (!rc && count > 0) {
        rc = group_wire_add_released(op, released, count);
    }
    pthread_mutex_unlock(&member->lock);
    free(released);
    return rc;
}

/* [lock] It was removed; whoever waits for messages comes back at once. */
static void was_removed(struct group_member *member)
{
    struct group_client *client = member->groups->client;
    group_client_beat_end(client, &member->beater);
    if (member->committing) {
        group_client_cancel(client, &member->commit);
        member->committing = false;
    }
    group_member_drop_all(member);
    member->phase = MEMBER_OUT;
    member->id[0] = '\0';
    member->rejoin = member_core_is_waiting(member->core);
    member->tell = true;
    if (member->state == GROUP_JOINED) {
        member->state = GROUP_JOINING;
    }
}

static bool on_beat(struct group_beater *beater, int error, const cJSON *answer,
                    int64_t sent_ms)
{
    struct group_member *member = member_of_beat(beater);
    struct group_wire_beat beat = {0};
    bool news = true;
    pthread_mutex_lock(&member->lock);
    if (error) {
        was_removed(member);
    } else if (!group_wire_get_beat(answer, &beat)) {
        int rc = member_core_granted(member->core, &beat, sent_ms,
                                     groups_now(member->groups));
        news = beat.changes != member->seen;
        member->tell = member->tell || news || rc > 0;
        member->seen = rc < 0 ? member->seen : beat.changes;
        beater->session_timeout_ms = beat.config.group_session_timeout_ms;
        free(beat.grants);
    }
    group_member_wake(member);
    pthread_mutex_unlock(&member->lock);
    return news;
}

/* ---- commits ------------------------------------------------------------------------
 */

static cJSON *commit_op(const struct group_member *member,
                        const struct group_commit *commits, size_t count)
{
    cJSON *op = new_op("commit", member->params.group, member->id);
    if (op && group_wire_add_commits(op, commits, count)) {
        cJSON_Delete(op);
        op = NULL;
    }
    return op;
}

void group_member_commit_now(struct group_member *member)
{
    struct groups *groups = member->groups;
    size_t room = member_core_count(member->core);
    int64_t now_ms = groups_now(groups);
    struct group_commit *commits = calloc(room ? room : 1, sizeof *commits);
    size_t count = commits ? member_core_commits(member->core, commits) : 0;
    cJSON *op = count > 0 ? commit_op(member, commits, count) : NULL;
    member->commit_ms = now_ms + (op ? COMMIT_EVERY_MS : RETRY_MS);
    if (!op) {
        member_core_uncommitted(member->core);
        free(commits);
        return;
    }
    free(member->commits);
    member->commits = commits;
    member->commit_count = count;
    member->committing = true;
    member->commit.op = op;
    group_client_ask(groups->client, &member->commit);
}

/* Which of them were refused; NULL: no memory. */
static bool *refusals(const struct group_member *member, int error, const cJSON *answer)
{
    bool *refused = calloc(member->commit_count, sizeof *refused);
    if (refused && error &&
        group_wire_get_refused(answer, refused, member->commit_count)) {
        free(refused);
        refused = NULL;
    }
    return refused;
}

static void on_committed(struct group_ask *ask, int error, const cJSON *answer,
                         const char *why)
{
    struct group_member *member =
        (struct group_member *)((char *)ask - offsetof(struct group_member, commit));
    bool *refused = NULL;
    (void)why;
    pthread_mutex_lock(&member->lock);
    member->committing = false;
    if (error == E_GROUP_MEMBER_UNKNOWN) {
        was_removed(member);
    } else if (!error || error == E_GROUP_FENCED) {
        refused = refusals(member, error, answer);
    }
    if (refused) {
        bool opened = member_core_committed(member->core, member->commits, refused,
                                            member->commit_count);
        member->tell = member->tell || opened;
    } else if (error != E_GROUP_MEMBER_UNKNOWN) {
        member_core_uncommitted(member->core);
        member->commit_ms = groups_now(member->groups) + RETRY_MS;
    }
    free(refused);
    group_member_wake(member);
    pthread_mutex_unlock(&member->lock);
}

/* ---- leaving ------------------------------------------------------------------------
 */

/* The last words, which need the member no more. */
struct farewell {
    struct groups *groups;
    struct group_ask commit;
    struct group_ask leave;
    int left;
    struct farewell *prev, *next;
};

static void farewell_end(struct farewell *farewell)
{
    if (--farewell->left == 0) {
        DL_DELETE(farewell->groups->farewells, farewell);
        free(farewell);
    }
}

void group_farewells_end(struct groups *groups)
{
    struct farewell *farewell;
    struct farewell *next;
    DL_FOREACH_SAFE(groups->farewells, farewell, next)
    {
        group_client_cancel(groups->client, &farewell->commit);
        group_client_cancel(groups->client, &farewell->leave);
        DL_DELETE(groups->farewells, farewell);
        free(farewell);
    }
}

static void on_farewell_commit(struct group_ask *ask, int error, const cJSON *answer,
                               const char *why)
{
    (void)error;
    (void)answer;
    (void)why;
    farewell_end((struct farewell *)((char *)ask - offsetof(struct farewell, commit)));
}

static void on_farewell_leave(struct group_ask *ask, int error, const cJSON *answer,
                              const char *why)
{
    (void)error;
    (void)answer;
    (void)why;
    farewell_end((struct farewell *)((char *)ask - offsetof(struct farewell, leave)));
}

static cJSON *last_commit(struct group_member *member)
{
    size_t room = member_core_count(member->core);
    struct group_commit *commits = calloc(room ? room : 1, sizeof *commits);
    /* Also what is under way already: it may have to be sent again. */
    member_core_uncommitted(member->core);
    size_t count = commits ? member_core_commits(member->core, commits) : 0;
    cJSON *op = count > 0 ? commit_op(member, commits, count) : NULL;
    free(commits);
    return op;
}

static void say_farewell(struct group_member *member)
{
    struct groups *groups = member->groups;
    struct farewell *farewell = calloc(1, sizeof *farewell);
    cJSON *commit = last_commit(member);
    cJSON *leave = new_op("leave", member->params.group, member->id);
    if (!farewell || !leave) {
        cJSON_Delete(commit);
        cJSON_Delete(leave);
        free(farewell); /* the session time-out ends it, then */
        return;
    }
    int64_t deadline_ms = groups_now(groups) + GROUPS_CALL_MS;
    farewell->groups = groups;
    farewell->commit = (struct group_ask){.done = on_farewell_commit,
                                          .op = commit,
                                          .shard = -1,
                                          .deadline_ms = deadline_ms};
    farewell->leave = (struct group_ask){.done = on_farewell_leave,
                                         .op = leave,
                                         .shard = -1,
                                         .deadline_ms = deadline_ms};
    DL_APPEND(groups->farewells, farewell);
    farewell->left = commit ? 2 : 1;
    if (commit) {
        group_client_ask(groups->client, &farewell->commit);
    }
    group_client_ask(groups->client, &farewell->leave);
}

void group_member_goodbye(struct group_member *member)
{
    struct group_client *client = member->groups->client;
    enum member_phase phase = member->phase;
    group_client_beat_end(client, &member->beater);
    if (phase == MEMBER_JOINING) {
        group_client_cancel(client, &member->join);
    }
    if (member->committing) {
        group_client_cancel(client, &member->commit);
        member->committing = false;
    }
    if (phase != MEMBER_OUT) {
        say_farewell(member);
    }
    group_member_drop_all(member);
    member->phase = MEMBER_OUT;
    member->id[0] = '\0';
    member->tell = true;
    if (member->state == GROUP_JOINED) {
        member->state = GROUP_JOINING;
    }
}
