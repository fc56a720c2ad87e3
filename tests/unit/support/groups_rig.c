#include "tests/unit/support/groups_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t mono_ns(const struct clock *clock)
{
    const struct groups_clock *test = (const struct groups_clock *)clock;
    return clock_real.mono_ns(&clock_real) +
           atomic_load(&test->ahead_ms) * INT64_C(1000000);
}

static int64_t wall_ms(const struct clock *clock)
{
    (void)clock;
    return clock_real.wall_ms(&clock_real);
}

static void start_groups(struct groups_rig *f)
{
    const struct groups_params params = {.config = &f->node.config,
                                         .cluster = f->node.cluster,
                                         .broker = f->node.broker,
                                         .problems = f->node.problems,
                                         .clock = &f->clock.clock};
    assert_int_equal(groups_start(&params, &f->groups), 0);
}

int groups_rig_setup(void **state)
{
    struct groups_rig *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->clock.clock = (struct clock){.mono_ns = mono_ns, .wall_ms = wall_ms};
    node_make(&f->node);
    node_start(&f->node);
    partition_unref(node_topic(&f->node, "t", "{\"partitions\":4,\"flush\":\"os\"}"));
    f->topic = node_topic_id(&f->node, "t");
    start_groups(f);
    *state = f;
    return 0;
}

int groups_rig_teardown(void **state)
{
    struct groups_rig *f = *state;
    groups_stop(f->groups);
    node_stop(&f->node);
    node_remove(&f->node);
    free(f);
    return 0;
}

void groups_rig_restart(struct groups_rig *f)
{
    groups_stop(f->groups);
    node_stop(&f->node);
    node_start(&f->node);
    start_groups(f);
}

struct group_user *groups_rig_join(struct groups_rig *f, const char *group)
{
    return group_user_join(f->groups, group, "t", &f->topic);
}

void groups_rig_append(struct groups_rig *f, int32_t partition, const char *lines)
{
    struct partition *handle = node_partition(&f->node, "t", partition);
    assert_non_null(handle);
    assert_int_equal(node_append(handle, lines, NULL), 0);
    partition_unref(handle);
}

void group_user_expect(struct group_user *user, const char *text,
                       struct group_chunk *chunk)
{
    char *taken = NULL;
    group_user_take(user, &taken, chunk);
    assert_string_equal(taken, text);
    free(taken);
}

void groups_rig_configure(struct groups_rig *f, const char *group, const char *text)
{
    struct user_call call;
    cJSON *object = cJSON_Parse(text);
    cJSON *answer = NULL;
    assert_non_null(object);
    user_call_init(&call);
    groups_configure(f->groups, group, object, &call.call);
    cJSON_Delete(object);
    assert_int_equal(user_call_await(&call, &answer), 0);
    assert_true(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(answer, "commit")));
    cJSON_Delete(answer);
}
