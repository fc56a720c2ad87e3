#include "tests/sim/gmember.h"

#include "tests/sim/gcheck.h"
#include "tests/sim/gnode.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_MS = 20, CALL_MS = 1000, BACKOFF_MS = 100, LEAVE_MS = 2000 };

struct gmember *gmember_new(struct gworld *world, int32_t slot)
{
    struct gmember *member = gworld_alloc(sizeof *member);

    member->world = world;
    member->slot = slot;
    return member;
}

void gmember_free(struct gmember *member)
{
    free(member);
}

void gmember_reset(struct gmember *member)
{
    const struct gmember fresh = {.world = member->world,
                                  .slot = member->slot,
                                  .life = member->life + 1,
                                  .hand = -1};

    *member = fresh;
}

/* ---- partitions ---------------------------------------------------------------------
 */

static void drop(struct gmember *member, int32_t partition, bool clean)
{
    struct gholding *holding = &member->holdings[partition];

    if (!holding->has)
        return;
    holding->has = false;
    if (member->hand == partition)
        member->hand = -1;
    gcheck_stopped(member->world->check, member, partition, clean);
}

static void drop_all(struct gmember *member)
{
    for (int32_t p = 0; p < GPARTITIONS_MAX; p++)
        drop(member, p, false);
    member->hand = -1;
}

static void start(struct gmember *member, const struct group_grant *grant)
{
    const struct gholding *before = &member->holdings[grant->partition];
    int64_t from = grant->committed < 0 ? 0 : grant->committed;

    /* The same grant again, after a silence: what was acknowledged meanwhile counts. */
    if (before->generation == grant->generation && before->acked > from)
        from = before->acked;
    member->holdings[grant->partition] =
        (struct gholding){.has = true,
                          .generation = grant->generation,
                          .give_up = grant->give_up,
                          .position = from,
                          .finished = from,
                          .acked = from};
    gcheck_started(member->world->check, member, grant->partition);
}

/* Whether everything that was handed out is finished and committed. */
static bool settled(const struct gmember *member, int32_t partition)
{
    const struct gholding *holding = &member->holdings[partition];

    return holding->position == holding->finished &&
           holding->finished <= holding->acked;
}

static void take_grants(struct gmember *member, const struct ganswer *answer)
{
    size_t at = 0;

    for (int32_t p = 0; p < GPARTITIONS_MAX; p++) {
        struct gholding *holding = &member->holdings[p];
        const struct group_grant *grant = NULL;

        if (at < answer->count && answer->grants[at].partition == p)
            grant = &answer->grants[at++];
        if (holding->has && (!grant || grant->generation != holding->generation))
            drop(member, p, holding->releasing && settled(member, p));
        if (!grant)
            continue;
        if (holding->has)
            holding->give_up = grant->give_up;
        else
            start(member, grant);
    }
}

/* ---- life ---------------------------------------------------------------------------
 */

/* By a name that was never used. */
static void begin(struct gmember *member)
{
    const struct gnode *node = member->world->nodes[member->node];

    drop_all(member);
    member->incarnation = node->registration;
    (void)snprintf(member->id, sizeof member->id, "%d-%lld-%d.%u.%u", node->index + 1,
                   (long long)node->registration.epoch, member->slot, member->life,
                   member->next_id++);
    member->state = GMEMBER_JOINING;
    member->beat.out = false;
    member->commit.out = false;
    member->seen = 0;
    member->heard_epoch = -1;
    member->logged = false;
    member->outlived = false;
}

void gmember_open(struct gmember *member, int32_t node, int32_t topic)
{
    gmember_reset(member);
    member->node = node;
    member->topic = topic;
    member->hasty =
        !member->world->profile.soak && prng_below(&member->world->prng, 4) == 0;
    begin(member);
    GWORLD_TRACE(member->world, "member %s opens %s", member->id,
                 gworld_topic_name(member->world, topic));
    gworld_at(member->world, member->world->now_ms, GEVENT_MEMBER, member->slot)->life =
        member->life;
}

void gmember_close(struct gmember *member)
{
    if (member->state == GMEMBER_JOINING) {
        drop_all(member);
        member->state = GMEMBER_LEAVING;
    }
    if (member->state != GMEMBER_JOINED)
        return;
    GWORLD_TRACE(member->world, "member %s closes", member->id);
    member->state = GMEMBER_LEAVING;
    member->stop_ms = member->world->now_ms + LEAVE_MS;
    member->beat.out = false;
    member->hand = -1;
}

void gmember_kill(struct gmember *member)
{
    drop_all(member);
    member->state = GMEMBER_GONE;
    member->life++;
}

/* ---- asking -------------------------------------------------------------------------
 */

static struct gmessage *ask(struct gmember *member, enum gop op, struct gasked *asked)
{
    struct gmessage *message = gworld_alloc(sizeof *message);
    struct grequest *request = &message->request;

    asked->out = true;
    asked->number = ++member->next_number;
    asked->sent_ms = member->world->now_ms;
    asked->until_ms =
        asked->sent_ms + CALL_MS + member->world->profile.group_session_ms / 4;
    message->from = member->node;
    message->to = gnode_coordinator(member->world->nodes[member->node]);
    request->op = op;
    request->slot = member->slot;
    request->life = member->life;
    request->number = asked->number;
    memcpy(request->member, member->id, sizeof request->member);
    request->node = member->incarnation;
    request->topic = member->topic;
    request->seen = member->seen;
    return message;
}

static void ask_beat(struct gmember *member)
{
    struct gmessage *message = ask(member, GOP_BEAT, &member->beat);
    struct grequest *request = &message->request;

    for (int32_t p = 0; p < GPARTITIONS_MAX; p++) {
        const struct gholding *holding = &member->holdings[p];

        if (holding->has && holding->releasing)
            request->u.released[request->count++] =
                (struct group_released){p, holding->generation};
    }
    gworld_send(member->world, message);
}

static void ask_commit(struct gmember *member)
{
    struct gmessage *message = NULL;
    struct grequest *request;

    for (int32_t p = 0; p < GPARTITIONS_MAX; p++) {
        const struct gholding *holding = &member->holdings[p];

        if (!holding->has || holding->finished <= holding->acked)
            continue;
        if (!message)
            message = ask(member, GOP_COMMIT, &member->commit);
        request = &message->request;
        member->commits[request->count] =
            (struct group_commit){p, holding->generation, holding->finished, 0};
        request->u.commits[request->count] = member->commits[request->count];
        request->count++;
    }
    if (message)
        gworld_send(member->world, message);
}

static bool may_ask(struct gmember *member, struct gasked *asked)
{
    const int64_t now = member->world->now_ms;

    if (asked->out && now >= asked->until_ms) {
        asked->out = false;
        member->seen = 0;
    }
    return !asked->out && now >= member->backoff_ms &&
           gnode_coordinator(member->world->nodes[member->node]) >= 0;
}

/* ---- the user -----------------------------------------------------------------------
 */

static int64_t work_ms(struct gworld *world)
{
    if (!world->calm && prng_permille(&world->prng, 10))
        return prng_between(&world->prng, 1000, 8000);
    return prng_between(&world->prng, 1, 200);
}

static void hand_out(struct gmember *member)
{
    struct gworld *world = member->world;

    for (int32_t i = 0; i < GPARTITIONS_MAX; i++) {
        int32_t p = (member->turn + i) % GPARTITIONS_MAX;
        struct gholding *holding = &member->holdings[p];
        int64_t end = world->ends[member->topic][p];

        if (!holding->has || holding->give_up || holding->position >= end)
            continue;
        if (end > holding->position + 8)
            end = holding->position + prng_between(&world->prng, 1, 8);
        gcheck_delivered(world->check, member, p, holding->position, end);
        holding->position = end;
        member->hand = p;
        member->hand_generation = holding->generation;
        member->hand_end = end;
        member->hand_until_ms = world->now_ms + work_ms(world);
        member->turn = p + 1;
        return;
    }
}

static void use(struct gmember *member)
{
    if (member->hand >= 0 && member->world->now_ms >= member->hand_until_ms) {
        struct gholding *holding = &member->holdings[member->hand];

        if (holding->has && holding->generation == member->hand_generation)
            holding->finished = member->hand_end;
        member->hand = -1;
    }
    if (member->hand < 0)
        hand_out(member);
}

/* ---- time ---------------------------------------------------------------------------
 */

static void step_joined(struct gmember *member)
{
    struct gworld *world = member->world;
    bool news = false;

    if (world->now_ms >= member->heard_ms + world->profile.group_session_ms ||
        gnode_session_over(world->nodes[member->node]))
        drop_all(member);
    use(member);
    for (int32_t p = 0; p < GPARTITIONS_MAX; p++) {
        struct gholding *holding = &member->holdings[p];

        if (!holding->has || !holding->give_up || holding->releasing ||
            !(member->hasty || settled(member, p)))
            continue;
        holding->releasing = true;
        news = true;
    }
    if (news)
        member->beat.out = false; /* what is parked says nothing new */
    if (may_ask(member, &member->beat))
        ask_beat(member);
    if (may_ask(member, &member->commit))
        ask_commit(member);
}

static void step_leaving(struct gmember *member)
{
    bool open = false;

    for (int32_t p = 0; p < GPARTITIONS_MAX; p++) {
        const struct gholding *holding = &member->holdings[p];

        open = open || (holding->has && holding->finished > holding->acked);
    }
    if (open && member->world->now_ms < member->stop_ms) {
        if (may_ask(member, &member->commit))
            ask_commit(member);
        return;
    }
    /* It says so once: if that is lost, the session runs out. */
    gworld_send(member->world, ask(member, GOP_LEAVE, &member->beat));
    gmember_kill(member);
}

void gmember_step(struct gmember *member)
{
    /* Its topic was deleted: the user's read fails. */
    if (member->state != GMEMBER_GONE &&
        !gnode_knows(member->world->nodes[member->node], member->topic)) {
        gmember_kill(member);
        return;
    }
    /* What an earlier incarnation of its node had is gone. */
    if (member->incarnation.epoch !=
            member->world->nodes[member->node]->registration.epoch &&
        (member->state == GMEMBER_JOINING || member->state == GMEMBER_JOINED))
        begin(member);
    switch (member->state) {
    case GMEMBER_GONE:
        return;
    case GMEMBER_JOINING:
        if (may_ask(member, &member->beat))
            gworld_send(member->world, ask(member, GOP_JOIN, &member->beat));
        break;
    case GMEMBER_JOINED:
        step_joined(member);
        break;
    case GMEMBER_LEAVING:
        step_leaving(member);
        break;
    }
    gworld_at(member->world, member->world->now_ms + STEP_MS, GEVENT_MEMBER,
              member->slot)
        ->life = member->life;
}

/* ---- answers ------------------------------------------------------------------------
 */

static void beat_answered(struct gmember *member, const struct ganswer *answer)
{
    const int64_t sent_ms = member->beat.sent_ms;

    member->beat.out = false;
    if (answer->error == E_NOT_COORDINATOR || answer->error == E_STALE_BROKER_EPOCH) {
        member->backoff_ms = member->world->now_ms + BACKOFF_MS;
        member->seen = 0;
        return;
    }
    if (answer->error && member->state != GMEMBER_LEAVING) {
        begin(member);
        return;
    }
    if (member->state == GMEMBER_JOINING)
        member->state = GMEMBER_JOINED;
    member->heard_ms = sent_ms;
    member->heard_epoch = answer->epoch;
    if (answer->op == GOP_BEAT && member->state == GMEMBER_JOINED &&
        !gnode_session_over(member->world->nodes[member->node])) {
        member->seen = answer->changes;
        take_grants(member, answer);
    }
}

/* What was begun again before it was acknowledged need not be handed out again. */
static void acknowledge(struct gholding *holding, int64_t offset)
{
    holding->acked = offset;
    if (holding->position < offset)
        holding->position = offset;
    if (holding->finished < offset && holding->position == offset)
        holding->finished = offset;
}

static void commit_answered(struct gmember *member, const struct ganswer *answer)
{
    member->commit.out = false;
    if (answer->error == E_NOT_COORDINATOR) {
        member->backoff_ms = member->world->now_ms + BACKOFF_MS;
        return;
    }
    if (answer->error == E_GROUP_MEMBER_UNKNOWN) {
        if (member->state == GMEMBER_LEAVING)
            drop_all(member);
        else
            begin(member);
        return;
    }
    for (size_t i = 0; i < answer->count; i++) {
        const struct group_commit *commit = &member->commits[i];
        struct gholding *holding = &member->holdings[commit->partition];

        if (!answer->refused[i])
            gcheck_acked(member->world->check, member, commit);
        if (holding->generation != commit->generation)
            continue;
        if (answer->refused[i])
            drop(member, commit->partition, false);
        else if (commit->offset > holding->acked)
            acknowledge(holding, commit->offset);
    }
}

void gmember_answered(struct gmember *member, const struct ganswer *answer)
{
    if (member->life != answer->life || member->state == GMEMBER_GONE)
        return;
    if (member->beat.out && member->beat.number == answer->number)
        beat_answered(member, answer);
    else if (member->commit.out && member->commit.number == answer->number)
        commit_answered(member, answer);
}
