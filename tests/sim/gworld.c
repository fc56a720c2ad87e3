#include "tests/sim/gworld.h"

#include "tests/sim/gcheck.h"
#include "tests/sim/gnode.h"
#include "tests/sim/gtopics.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void *gworld_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (!memory)
        abort();
    return memory;
}

void gworld_log(struct gworld *world, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)printf("%8lld ", (long long)world->now_ms);
    (void)vprintf(format, args);
    (void)printf("\n");
    va_end(args);
}

void gworld_violation(struct gworld *world, const char *format, ...)
{
    va_list args;
    int at;

    if (world->failed)
        return;
    world->failed = true;
    va_start(args, format);
    at = snprintf(world->violation, sizeof world->violation,
                  "at %lld ms: ", (long long)world->now_ms);
    (void)vsnprintf(world->violation + at, sizeof world->violation - (size_t)at, format,
                    args);
    va_end(args);
}

/* ---- the queue ----------------------------------------------------------------------
 */

static bool before(const struct gevent *a, const struct gevent *b)
{
    return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order);
}

struct gevent *gworld_at(struct gworld *world, int64_t at_ms, enum gevent_kind kind,
                         int32_t who)
{
    const struct gevent event = {
        .at_ms = at_ms, .order = world->order++, .kind = kind, .who = who};
    size_t i = world->heap_count++;

    if (i == world->heap_allocated) {
        world->heap_allocated = i ? 2 * i : 512;
        world->heap =
            realloc(world->heap, world->heap_allocated * sizeof world->heap[0]);
        if (!world->heap)
            abort();
    }
    while (i > 0 && before(&event, &world->heap[(i - 1) / 2])) {
        world->heap[i] = world->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    world->heap[i] = event;
    return &world->heap[i];
}

static struct gevent pop(struct gworld *world)
{
    const struct gevent top = world->heap[0];
    const struct gevent last = world->heap[--world->heap_count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= world->heap_count)
            break;
        if (child + 1 < world->heap_count &&
            before(&world->heap[child + 1], &world->heap[child]))
            child++;
        if (before(&last, &world->heap[child]))
            break;
        world->heap[i] = world->heap[child];
        i = child;
    }
    world->heap[i] = last;
    return top;
}

/* ---- the network --------------------------------------------------------------------
 */

static void post(struct gworld *world, struct gmessage *message, int64_t at_ms)
{
    gworld_at(world, at_ms, GEVENT_MESSAGE, message->to)->message = message;
}

static int64_t delay_ms(struct gworld *world)
{
    if (!world->calm && prng_permille(&world->prng, world->profile.late))
        return prng_between(&world->prng, 500, 10000);
    return prng_between(&world->prng, 0, world->profile.delay_max_ms);
}

void gworld_send(struct gworld *world, struct gmessage *message)
{
    struct gmessage *copy;

    if (message->to < 0 ||
        world->now_ms < world->cut_until_ms[message->from][message->to] ||
        (message->from != message->to && !world->calm &&
         prng_permille(&world->prng, world->profile.loss))) {
        free(message);
        return;
    }
    if (!world->calm && prng_permille(&world->prng, world->profile.duplicate)) {
        copy = gworld_alloc(sizeof *copy);
        *copy = *message;
        post(world, copy, world->now_ms + delay_ms(world));
    }
    post(world, message, world->now_ms + delay_ms(world));
}

/* ---- the cluster's state ------------------------------------------------------------
 */

int32_t gworld_leader(const struct gworld *world)
{
    return world->leader_of[world->revision];
}

bool gworld_registered(const struct gworld *world,
                       const struct broker_incarnation *node)
{
    const struct broker_info *broker =
        cluster_snapshot_broker(&world->revisions[world->revision]->shown, node->id);

    return broker && broker->epoch == node->epoch;
}

struct snapshot *gworld_revise(struct gworld *world)
{
    struct snapshot *next = snapshot_copy(world->revisions[world->revision]);
    int32_t revision = world->revision + 1;

    if (!next || revision == GREVISIONS_MAX)
        abort();
    next->shown.revision = revision;
    world->revisions[revision] = next;
    world->leader_of[revision] = world->leader_of[world->revision];
    world->epoch_of[revision] = world->epoch_of[world->revision];
    world->revision = revision;
    for (int32_t i = 0; i < world->profile.node_count; i++)
        gworld_at(world,
                  world->now_ms +
                      prng_between(&world->prng, 0, world->profile.view_max_ms),
                  GEVENT_VIEW, i)
            ->value = revision;
    return next;
}

/* epoch 0: without the node. */
static void set_broker(struct gworld *world, int32_t node, bool registered)
{
    struct snapshot *next = gworld_revise(world);
    const struct cluster_snapshot *shown = &next->shown;
    struct broker_info brokers[GNODES_MAX + 1];
    struct registration registrations[GNODES_MAX + 1] = {0};
    uint32_t count = 0;

    for (int32_t id = 1; id <= GNODES_MAX; id++) {
        const struct broker_info *broker = cluster_snapshot_broker(shown, id);

        if (id == node + 1 && registered)
            brokers[count++] =
                (struct broker_info){.id = id, .epoch = next->shown.revision};
        else if (id != node + 1 && broker)
            brokers[count++] = *broker;
    }
    if (snapshot_set_brokers(next, brokers, registrations, count))
        abort();
}

/* Gives the shard a leader that is registered: another one, if there is. */
static void elect(struct gworld *world)
{
    const struct cluster_snapshot *shown;
    int32_t leader = -1;
    uint32_t first;

    (void)gworld_revise(world);
    shown = &world->revisions[world->revision]->shown;
    first = shown->broker_count ? prng_below(&world->prng, shown->broker_count) : 0;
    for (uint32_t i = 0; i < shown->broker_count; i++) {
        int32_t node = shown->brokers[(first + i) % shown->broker_count].id - 1;

        if (leader < 0 || leader == world->shard->leader)
            leader = node;
    }
    gshard_elect(world->shard, leader);
    world->leader_of[world->revision] = leader;
    world->epoch_of[world->revision] = world->shard->epoch;
    GWORLD_TRACE(world, "node %d leads in epoch %d", leader, world->shard->epoch);
}

void gworld_register(struct gworld *world, int32_t node)
{
    /* Whatever an earlier incarnation led, this one doesn't. */
    set_broker(world, node, true);
    world->nodes[node]->registration.epoch = world->revision;
    world->nodes[node]->session_end_ms = INT64_MAX;
    GWORLD_TRACE(world, "node %d registers as %d", node, world->revision);
    if (gworld_leader(world) < 0 || gworld_leader(world) == node)
        elect(world);
}

static void expire(struct gworld *world, int32_t index, int64_t epoch)
{
    struct gnode *node = world->nodes[index];
    const struct broker_incarnation registration = {index + 1, epoch};

    if (!gworld_registered(world, &registration))
        return;
    if (node->up && node->registration.epoch == epoch && !gnode_session_over(node))
        return;
    GWORLD_TRACE(world, "the session of node %d is over", index);
    set_broker(world, index, false);
    if (gworld_leader(world) == index)
        elect(world);
    if (node->up)
        gworld_at(world, gnode_silent_until(node), GEVENT_REGISTER, index)->life =
            node->life;
}

/* Neither pauses nor what keeps it from the store let it keep its session alive. */
static void silence(struct gworld *world, int32_t index, int64_t *what, int64_t until)
{
    struct gnode *node = world->nodes[index];

    if (!gnode_session_over(node) && world->now_ms >= gnode_silent_until(node))
        node->session_end_ms = world->now_ms + world->profile.session_ms;
    if (*what < until)
        *what = until;
    gworld_at(world, node->session_end_ms, GEVENT_EXPIRE, index)->value =
        node->registration.epoch;
}

/* ---- faults -------------------------------------------------------------------------
 */

enum fault {
    FAULT_PAUSE, /* SIGSTOP */
    FAULT_KILL,  /* the node, with its members */
    FAULT_DEAF,  /* cut off from the store, not from the others */
    FAULT_CUT,   /* two nodes from each other */
    FAULT_STALL, /* nothing can be committed: too few in-sync replicas */
    FAULT_ELECT, /* leadership moves */
    FAULT_GROW,  /* a topic gets another partition */
    FAULT_TOPIC, /* a topic is deleted, or made again */
    FAULT_CLOCK, /* a wall clock jumps */
    FAULT_COUNT,
};

static void kill(struct gworld *world, int32_t node, int64_t down_ms)
{
    struct gevent *event;

    for (int32_t i = 0; i < GMEMBERS_MAX; i++)
        if (world->members[i]->node == node)
            gmember_kill(world->members[i]);
    event = gworld_at(world, world->now_ms + world->profile.session_ms, GEVENT_EXPIRE,
                      node);
    event->value = world->nodes[node]->registration.epoch;
    gnode_kill(world->nodes[node]);
    event = gworld_at(world, world->now_ms + down_ms, GEVENT_START, node);
    event->life = world->nodes[node]->life;
}

static void fault(struct gworld *world)
{
    enum fault kind = (enum fault)prng_below(&world->prng, FAULT_COUNT);
    int32_t index =
        (int32_t)prng_below(&world->prng, (uint32_t)world->profile.node_count);
    int32_t other =
        (int32_t)prng_below(&world->prng, (uint32_t)world->profile.node_count);
    int64_t until = world->now_ms + prng_between(&world->prng, 100,
                                                 2 * world->profile.group_session_ms);
    struct gnode *node;

    /* The coordinator is where it hurts. */
    if (prng_below(&world->prng, 2) == 0 && gworld_leader(world) >= 0)
        index = gworld_leader(world);
    node = world->nodes[index];
    GWORLD_TRACE(world, "fault %d at node %d until %lld", (int)kind, index,
                 (long long)until);
    switch (kind) {
    case FAULT_PAUSE:
        if (node->up)
            silence(world, index, &node->paused_until_ms, until);
        break;
    case FAULT_KILL:
        if (node->up)
            kill(world, index, prng_between(&world->prng, 50, 10000));
        break;
    case FAULT_DEAF:
        if (node->up)
            silence(world, index, &node->deaf_until_ms, until);
        break;
    case FAULT_CUT:
        if (index == other)
            break;
        world->cut_until_ms[index][other] = until;
        if (prng_below(&world->prng, 2) == 0)
            world->cut_until_ms[other][index] = until;
        break;
    case FAULT_STALL:
        world->stall_until_ms = until;
        break;
    case FAULT_ELECT:
        elect(world);
        break;
    case FAULT_GROW:
        gtopics_grow(world, (int32_t)prng_below(&world->prng, GNAMES));
        break;
    case FAULT_TOPIC:
        gtopics_come_and_go(world, (int32_t)prng_below(&world->prng, GNAMES));
        break;
    case FAULT_CLOCK:
        node->wall_offset_ms = prng_between(&world->prng, -100000, 100000);
        break;
    case FAULT_COUNT:
        break;
    }
}

/* When the last pause, cut or stall ends. */
static int64_t faults_end(const struct gworld *world)
{
    int64_t end = world->stall_until_ms;

    for (int32_t i = 0; i < GNODES_MAX; i++) {
        const struct gnode *node = world->nodes[i];

        end = end > node->paused_until_ms ? end : node->paused_until_ms;
        end = end > node->deaf_until_ms ? end : node->deaf_until_ms;
        for (int32_t j = 0; j < GNODES_MAX; j++)
            end = end > world->cut_until_ms[i][j] ? end : world->cut_until_ms[i][j];
    }
    return end;
}

static void start_all(struct gworld *world)
{
    for (int32_t i = 0; i < world->profile.node_count; i++) {
        struct gnode *node = world->nodes[i];

        if (!node->up)
            gnode_start(node);
        else if (!gworld_registered(world, &node->registration))
            gworld_register(world, i);
    }
}

/* ---- users --------------------------------------------------------------------------
 */

static void open_member(struct gworld *world, int32_t topic)
{
    int32_t node =
        (int32_t)prng_below(&world->prng, (uint32_t)world->profile.node_count);

    if (topic < 0 || !world->nodes[node]->up || !gnode_knows(world->nodes[node], topic))
        return;
    for (int32_t i = 0; i < GMEMBERS_MAX; i++)
        if (world->members[i]->state == GMEMBER_GONE) {
            gmember_open(world->members[i], node, topic);
            return;
        }
}

static int32_t count_members(const struct gworld *world, int32_t topic)
{
    int32_t count = 0;

    for (int32_t i = 0; i < GMEMBERS_MAX; i++)
        count += world->members[i]->state != GMEMBER_GONE &&
                 world->members[i]->state != GMEMBER_LEAVING &&
                 (topic < 0 || world->members[i]->topic == topic);
    return count;
}

static void churn(struct gworld *world)
{
    int32_t members = count_members(world, -1);
    uint32_t least = world->profile.soak ? 4 : 0;
    struct gmember *member = world->members[prng_below(&world->prng, GMEMBERS_MAX)];

    if (members < world->profile.members &&
        prng_below(&world->prng, (uint32_t)world->profile.members) >=
            (uint32_t)members / 2) {
        open_member(world, gtopics_any(world));
        return;
    }
    if (members <= (int32_t)least)
        return;
    for (int32_t i = 0; i < GMEMBERS_MAX && member->state != GMEMBER_JOINED; i++)
        member = world->members[(member->slot + 1) % GMEMBERS_MAX];
    gmember_close(member);
}

static void produce(struct gworld *world)
{
    int32_t topic = gtopics_any(world);
    int32_t partition;

    if (topic < 0)
        return;
    partition =
        (int32_t)prng_below(&world->prng, (uint32_t)gworld_partitions(world, topic));
    world->ends[topic][partition] += prng_between(&world->prng, 1, 10);
}

/* ---- a run --------------------------------------------------------------------------
 */

static void profile(struct gworld *world)
{
    struct prng *prng = &world->prng;
    struct gprofile *profile = &world->profile;
    static const uint32_t losses[] = {0, 5, 30, 100};

    *profile = (struct gprofile){
        .node_count = (int32_t)prng_between(prng, 2, GNODES_MAX),
        .partitions = {(int32_t)prng_between(prng, 1, 8),
                       (int32_t)prng_between(prng, 1, 3)},
        .members = (int32_t)prng_between(prng, 1, 8),
        .run_ms = prng_between(prng, 10000, 40000),
        .session_ms = prng_between(prng, 1000, 6000),
        .group_session_ms = prng_between(prng, 2000, 8000),
        .loss = losses[prng_below(prng, 4)],
        .duplicate = losses[prng_below(prng, 4)],
        .late = losses[prng_below(prng, 3)],
        .refuse = losses[prng_below(prng, 3)],
        .delay_max_ms = prng_between(prng, 1, 100),
        .commit_max_ms = prng_between(prng, 1, 200),
        .view_max_ms = prng_between(prng, 10, 3000),
        .fault_every_ms = prng_between(prng, 500, 6000),
        .churn_every_ms = prng_between(prng, 200, 4000),
        .produce_every_ms = prng_between(prng, 20, 400),
        .set_every_ms = prng_between(prng, 200, 4000),
    };
}

/* 50 joins and leaves a minute for five minutes, on nodes that stay up. */
static void profile_soak(struct gworld *world)
{
    world->profile = (struct gprofile){
        .node_count = 3,
        .partitions = {32, 1},
        .members = 16,
        .run_ms = 300000,
        .session_ms = 6000,
        .group_session_ms = 10000,
        .loss = 5,
        .delay_max_ms = 20,
        .commit_max_ms = 50,
        .view_max_ms = 100,
        .churn_every_ms = 1200,
        .produce_every_ms = 20,
        .soak = true,
    };
}

static void again(struct gworld *world, enum gevent_kind kind, int64_t every_ms)
{
    if (every_ms > 0 && !world->calm)
        gworld_at(world, world->now_ms + prng_between(&world->prng, 1, 2 * every_ms),
                  kind, 0);
}

/* What happens to a node whose process is stopped happens when it goes on. */
static bool deferred(struct gworld *world, const struct gevent *event, int32_t node)
{
    const struct gnode *stopped = world->nodes[node];
    struct gevent *later;
    uint64_t order;

    if (!stopped->up || world->now_ms >= stopped->paused_until_ms)
        return false;
    later = gworld_at(world, stopped->paused_until_ms, event->kind, event->who);
    order = later->order;
    *later = *event;
    later->at_ms = stopped->paused_until_ms;
    later->order = order;
    return true;
}

static void deliver(struct gworld *world, const struct gevent *event)
{
    struct gmessage *message = event->message;
    struct gnode *node = world->nodes[message->to];

    if (deferred(world, event, message->to))
        return;
    if (node->up && message->answers && message->answer.op == GOP_SET)
        gcheck_set_answered(world->check, &message->answer);
    else if (node->up && message->answers)
        gmember_answered(world->members[message->answer.slot], &message->answer);
    else if (node->up)
        gnode_receive(node, message);
    free(message);
}

static void see(struct gworld *world, const struct gevent *event)
{
    struct gnode *node = world->nodes[event->who];

    if (deferred(world, event, event->who))
        return;
    if (world->now_ms < node->deaf_until_ms) {
        gworld_at(world, node->deaf_until_ms, GEVENT_VIEW, event->who)->value =
            event->value;
        return;
    }
    gnode_see(node, (int32_t)event->value);
}

static void happen_at_node(struct gworld *world, const struct gevent *event)
{
    struct gnode *node = world->nodes[event->who];

    switch (event->kind) {
    case GEVENT_NODE:
        if (node->up && node->life == event->life &&
            !deferred(world, event, event->who))
            gnode_tick(node);
        break;
    case GEVENT_START:
        if (!node->up && node->life == event->life)
            gnode_start(node);
        break;
    case GEVENT_REGISTER:
        if (node->up && node->life == event->life &&
            !gworld_registered(world, &node->registration))
            gworld_register(world, event->who);
        break;
    case GEVENT_HW:
        if (!deferred(world, event, event->who))
            gnode_committed(node, (int32_t)event->life, (size_t)event->value);
        break;
    default:
        abort();
    }
}

static void happen_to_member(struct gworld *world, const struct gevent *event)
{
    struct gmember *member = world->members[event->who];

    if (member->life == event->life && !deferred(world, event, member->node))
        gmember_step(member);
}

static void stir(struct gworld *world, enum gevent_kind kind)
{
    const struct gprofile *profile = &world->profile;

    if (kind == GEVENT_PRODUCE) {
        produce(world);
        again(world, kind, profile->produce_every_ms);
    } else if (kind == GEVENT_CHURN) {
        churn(world);
        again(world, kind, profile->churn_every_ms);
    } else if (kind == GEVENT_SET) {
        gtopics_set_offset(world);
        again(world, kind, profile->set_every_ms);
    } else {
        fault(world);
        again(world, kind, profile->fault_every_ms);
    }
}

static void happen(struct gworld *world, const struct gevent *event)
{
    switch (event->kind) {
    case GEVENT_MESSAGE:
        deliver(world, event);
        break;
    case GEVENT_VIEW:
        see(world, event);
        break;
    case GEVENT_NODE:
    case GEVENT_START:
    case GEVENT_REGISTER:
    case GEVENT_HW:
        happen_at_node(world, event);
        break;
    case GEVENT_EXPIRE:
        expire(world, event->who, event->value);
        break;
    case GEVENT_MEMBER:
        happen_to_member(world, event);
        break;
    case GEVENT_COMMIT:
        gshard_commit(world->shard, event->who, (size_t)event->value);
        break;
    case GEVENT_PRODUCE:
    case GEVENT_CHURN:
    case GEVENT_SET:
    case GEVENT_FAULT:
        if (!world->calm)
            stir(world, event->kind);
        break;
    }
}

static void run_until(struct gworld *world, int64_t end_ms)
{
    while (!world->failed && world->heap_count > 0 && world->heap[0].at_ms <= end_ms) {
        const struct gevent event = pop(world);

        world->now_ms = event.at_ms;
        world->steps++;
        happen(world, &event);
    }
    if (world->now_ms < end_ms)
        world->now_ms = end_ms;
}

static void clear(struct gworld *world)
{
    for (size_t i = 0; i < world->heap_count; i++)
        if (world->heap[i].kind == GEVENT_MESSAGE)
            free(world->heap[i].message);
    world->heap_count = 0;
    for (int32_t i = 0; i < GMEMBERS_MAX; i++)
        gmember_reset(world->members[i]);
    for (int32_t i = 0; i < GNODES_MAX; i++)
        gnode_reset(world->nodes[i]);
    for (int32_t i = 0; i <= world->revision; i++)
        snapshot_unref(world->revisions[i]);
    world->revisions[0] = NULL;
    world->revision = 0;
    gshard_reset(world->shard);
    gcheck_reset(world->check);
}

static void begin(struct gworld *world, uint64_t seed, const struct goptions *options)
{
    clear(world);
    world->seed = seed;
    world->prng = (struct prng){seed};
    world->now_ms = 0;
    world->order = 0;
    world->calm = false;
    world->trace = options->trace;
    world->failed = false;
    world->violation[0] = '\0';
    world->stall_until_ms = 0;
    gtopics_reset(world);
    memset(world->cut_until_ms, 0, sizeof world->cut_until_ms);
    if (options->soak)
        profile_soak(world);
    else
        profile(world);
    world->revisions[0] = snapshot_new();
    if (!world->revisions[0])
        abort();
    world->leader_of[0] = -1;
    world->epoch_of[0] = 0;
    gtopics_create_missing(world);
    for (int32_t i = 0; i < world->profile.node_count; i++)
        gnode_start(world->nodes[i]);
    again(world, GEVENT_PRODUCE, world->profile.produce_every_ms);
    again(world, GEVENT_CHURN, world->profile.churn_every_ms);
    again(world, GEVENT_SET, world->profile.set_every_ms);
    again(world, GEVENT_FAULT, world->profile.fault_every_ms);
    for (int32_t i = 0; world->profile.soak && i < 8; i++)
        open_member(world, 0);
}

/* The faults are over: whoever was there by then reads on, and somebody reads each
 * topic. */
static void finish(struct gworld *world)
{
    const struct gprofile *profile = &world->profile;
    char why[256];

    world->calm = true;
    run_until(world, faults_end(world));
    if (world->failed)
        return;
    start_all(world);
    gtopics_create_missing(world);
    run_until(world, world->now_ms + profile->view_max_ms);
    for (int32_t name = 0; name < GNAMES; name++)
        if (count_members(world, world->present[name]) == 0)
            open_member(world, world->present[name]);
    /* Sessions run out, a leader loads, and members that were silent come again. */
    run_until(world, world->now_ms + profile->session_ms + profile->view_max_ms +
                         profile->group_session_ms + 3000);
    if (!world->failed && !gcheck_all_read(world->check, why, sizeof why))
        gworld_violation(world, "%s", why);
    for (int32_t i = 0; i < GMEMBERS_MAX; i++)
        if (world->members[i]->state != GMEMBER_GONE)
            GWORLD_TRACE(world, "at the end: member %s, %s, state %d, heard at %lld",
                         world->members[i]->id,
                         gworld_topic_name(world, world->members[i]->topic),
                         (int)world->members[i]->state,
                         (long long)world->members[i]->heard_ms);
    for (int32_t i = 0; i < 30 && !world->failed; i++) {
        if (gcheck_all_done(world->check, why, sizeof why))
            return;
        run_until(world, world->now_ms + 10000);
    }
    gworld_violation(world, "%s", why);
}

bool gworld_run(struct gworld *world, uint64_t seed, const struct goptions *options)
{
    begin(world, seed, options);
    run_until(world, world->profile.run_ms);
    if (!world->failed)
        finish(world);
    return !world->failed;
}

struct gworld *gworld_new(void)
{
    struct gworld *world = gworld_alloc(sizeof *world);

    world->shard = gshard_new(world);
    world->check = gcheck_new(world);
    for (int32_t i = 0; i < GNODES_MAX; i++)
        world->nodes[i] = gnode_new(world, i);
    for (int32_t i = 0; i < GMEMBERS_MAX; i++)
        world->members[i] = gmember_new(world, i);
    gshard_reset(world->shard);
    return world;
}

void gworld_free(struct gworld *world)
{
    clear(world);
    for (int32_t i = 0; i < GMEMBERS_MAX; i++)
        gmember_free(world->members[i]);
    for (int32_t i = 0; i < GNODES_MAX; i++)
        gnode_free(world->nodes[i]);
    gcheck_free(world->check);
    gshard_free(world->shard);
    free(world->heap);
    free(world);
}
