/* What nodes say to each other about groups: any bytes are decoded or refused, and what
 * was decoded holds to the limits that the coordinator relies on. */
#include "replica/group_wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_op(const cJSON *item)
{
    struct group_op op;
    if (group_wire_get_op(item, &op)) {
        return;
    }
    if ((op.group && topic_name_check(op.group)) ||
        (op.member && strlen(op.member) > GROUP_MEMBER_ID_MAX) || op.partition < 0) {
        abort();
    }
    for (size_t i = 0; op.commits && i < op.count; i++) {
        if (op.commits[i].partition < 0 || op.commits[i].offset < 0) {
            abort();
        }
    }
    group_wire_free_op(&op);
}

static void check_request(const cJSON *object)
{
    struct group_wire_head head;
    const cJSON *item = NULL;
    if (group_wire_get_request(object, &head)) {
        return;
    }
    size_t count = 0;
    cJSON_ArrayForEach(item, head.ops)
    {
        check_op(item);
        count++;
    }
    if (count != head.count || head.wait_ms < 0) {
        abort();
    }
}

static void check_answer(const cJSON *object)
{
    const cJSON *answers = group_wire_get_answers(object, 1);
    struct group_wire_beat beat;
    bool refused[2];
    int error = 0;
    const char *why = NULL;
    (void)group_wire_get_error(object, &error, &why);
    if (!answers) {
        return;
    }
    (void)group_wire_get_refused(answers->child, refused, 2);
    if (!group_wire_get_beat(answers->child, &beat)) {
        free(beat.grants);
    }
}

static void check_places(const cJSON *object)
{
    struct peer_sender from;
    const cJSON *places = NULL;
    const cJSON *item = NULL;
    size_t count = 0;
    if (!group_wire_get_locate(object, &from, &places, &count)) {
        cJSON_ArrayForEach(item, places)
        {
            struct group_place place;
            (void)group_wire_get_place(item, &place);
        }
    }
    places = group_wire_get_places(object, 1);
    if (places) {
        struct group_found found;
        (void)group_wire_get_found(places->child, &found);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *object = NULL;
    if (group_wire_parse((const char *)data, size, &object) == 0) {
        check_request(object);
        check_answer(object);
        check_places(object);
        cJSON_Delete(object);
    }
    return 0;
}
