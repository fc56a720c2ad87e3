#include "tests/unit/support/group_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { PATIENCE_S = 15, PAUSE_MS = 5, TEXT_BYTES = 1024 };

cJSON *desk_request(const struct group_desk *desk, const char *group, int64_t wait_ms,
                    const char *ops)
{
    struct buf text;
    cJSON *request = NULL;
    buf_init(&text, GROUP_WIRE_MAX);
    assert_int_equal(
        buf_printf(&text,
                   "{\"version\":1,\"cluster\":\"c\",\"node\":%d,\"epoch\":%lld,"
                   "\"shard\":%d,\"wait_ms\":%lld,\"ops\":[%s]}",
                   desk->node, (long long)desk->epoch,
                   group_wire_shard(group, GROUP_SHARDS), (long long)wait_ms, ops),
        0);
    assert_int_equal(group_wire_parse(text.data, text.length, &request), 0);
    buf_free(&text);
    return request;
}

static void on_answer(struct coordinator_call *base, cJSON *answer)
{
    struct desk_call *call = (struct desk_call *)base;
    pthread_mutex_lock(&call->lock);
    call->answer = answer;
    call->done = true;
    pthread_cond_signal(&call->answered);
    pthread_mutex_unlock(&call->lock);
}

void desk_send(const struct group_desk *desk, struct desk_call *call, cJSON *request)
{
    memset(call, 0, sizeof *call);
    call->call.done = on_answer;
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->answered, NULL);
    group_coordinator_submit(desk->coordinator, request, &call->call);
}

cJSON *desk_await(struct desk_call *call)
{
    struct timespec until;
    int timed_out = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&call->lock);
    while (!call->done && !timed_out) {
        timed_out = pthread_cond_timedwait(&call->answered, &call->lock, &until);
    }
    pthread_mutex_unlock(&call->lock);
    assert_int_equal(timed_out, 0);
    pthread_cond_destroy(&call->answered);
    pthread_mutex_destroy(&call->lock);
    return call->answer;
}

bool desk_is_answered(struct desk_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool done = call->done;
    pthread_mutex_unlock(&call->lock);
    return done;
}

cJSON *desk_ask(const struct group_desk *desk, const char *group, const char *op)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    for (int i = 0; i < PATIENCE_S * 1000 / PAUSE_MS; i++) {
        struct desk_call call;
        int error = 1;
        const char *why = NULL;
        desk_send(desk, &call, desk_request(desk, group, 0, op));
        cJSON *answer = desk_await(&call);
        assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
        if (error == 0) {
            cJSON *answers = cJSON_GetObjectItemCaseSensitive(answer, "answers");
            assert_int_equal(cJSON_GetArraySize(answers), 1);
            cJSON *item = cJSON_DetachItemFromArray(answers, 0);
            cJSON_Delete(answer);
            return item;
        }
        cJSON_Delete(answer);
        assert_int_equal(error, E_NOT_COORDINATOR);
        (void)nanosleep(&pause, NULL);
    }
    fail_msg("there is no coordinator of %s", group);
    return NULL;
}

int desk_error(const struct group_desk *desk, const char *group, const char *op)
{
    int error = 1;
    const char *why = NULL;
    cJSON *answer = desk_ask(desk, group, op);
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    cJSON_Delete(answer);
    return error;
}

void desk_ok(const struct group_desk *desk, const char *group, const char *op)
{
    int error = desk_error(desk, group, op);
    if (error) {
        fail_msg("%s: %s", op, err_text(error));
    }
}

int desk_join(const struct group_desk *desk, const char *group, const char *member,
              const char *topic, const struct topic_id *id)
{
    char op[TEXT_BYTES];
    char text[TOPIC_ID_TEXT];
    topic_id_format(id, text);
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"join\",\"group\":\"%s\",\"member\":\"%s\","
                   "\"topic\":\"%s\",\"topic_id\":\"%s\"}",
                   group, member, topic, text);
    return desk_error(desk, group, op);
}

int desk_beat(const struct group_desk *desk, const char *group, const char *member,
              struct group_wire_beat *out)
{
    char op[TEXT_BYTES];
    int error = 1;
    const char *why = NULL;
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"beat\",\"group\":\"%s\",\"member\":\"%s\",\"seen\":0}",
                   group, member);
    cJSON *answer = desk_ask(desk, group, op);
    assert_int_equal(group_wire_get_error(answer, &error, &why), 0);
    if (!error) {
        assert_int_equal(group_wire_get_beat(answer, out), 0);
    }
    cJSON_Delete(answer);
    return error;
}

int desk_commit(const struct group_desk *desk, const char *group, const char *member,
                int32_t partition, int64_t generation, int64_t offset)
{
    char op[TEXT_BYTES];
    (void)snprintf(op, sizeof op,
                   "{\"op\":\"commit\",\"group\":\"%s\",\"member\":\"%s\","
                   "\"commits\":[{\"partition\":%d,\"generation\":%lld,"
                   "\"offset\":%lld,\"leader_epoch\":0}]}",
                   group, member, partition, (long long)generation, (long long)offset);
    return desk_error(desk, group, op);
}

int64_t desk_offset(const struct group_desk *desk, const char *group, int32_t partition)
{
    char op[TEXT_BYTES];
    int64_t offset = -1;
    const cJSON *item = NULL;
    (void)snprintf(op, sizeof op, "{\"op\":\"describe\",\"group\":\"%s\"}", group);
    cJSON *answer = desk_ask(desk, group, op);
    const cJSON *described = cJSON_GetObjectItemCaseSensitive(answer, "group");
    assert_non_null(described);
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(described, "offsets"))
    {
        int64_t number = -1;
        assert_int_equal(json_get_i64(item, "partition", &number), 0);
        if (number == partition) {
            assert_int_equal(json_get_i64(item, "offset", &offset), 0);
        }
    }
    cJSON_Delete(answer);
    return offset;
}
