/* A registration or a session that ends before its node knows that it was there. */
#include "support/cluster_rig.h"

#include "coord/coord.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has_revision(const struct cluster_snapshot *snapshot, const void *arg)
{
    return snapshot->revision >= *(const int64_t *)arg;
}

static const char own_key[] = "/topicfs/default/brokers/ids/2"; /* of node 2 */

/* Another program ends the registration of node 2, and node 2 sees that. Returns the
 * revision at which it ended. */
static int64_t end_registration(struct cluster_rig *rig)
{
    char *value = NULL;
    int64_t ended;

    for (int i = 0; i < 5000 && !value; i++) {
        value = shared_backend_get(rig->backend, own_key);
        rig_pause();
    }
    assert_non_null(value);
    free(value);
    shared_backend_put(rig->backend, own_key, NULL);
    ended = shared_backend_revision(rig->backend);
    rig_until(rig, 2, has_revision, &ended);
    return ended;
}

/* The watch is quicker than the answer to the registration. */
static void test_gone_before_the_answer_registers_anew(void **state)
{
    struct cluster_rig *rig = *state;
    int64_t ended;

    shared_store_fault(rig->nodes[2].store, SHARED_ANSWER_LATE, "brokers/ids/2");
    (void)end_registration(rig);
    ended = end_registration(rig);
    shared_store_answer(rig->nodes[2].store);
    rig_until_registered_anew(rig, 2, ended);
}

/* A registration of which the node never heard may come when the next one has ended: it
 * is no other node's. */
static void test_late_registration_does_not_take_the_id(void **state)
{
    struct cluster_rig *rig = *state;
    int64_t before = rig_self_epoch(rig, 2);
    char *value;

    shared_store_fault(rig->nodes[2].store, SHARED_UNKNOWN_NOT, "brokers/ids/2");
    (void)end_registration(rig);
    rig_until_registered_anew(rig, 2, before);
    before = rig_self_epoch(rig, 2);
    value = shared_backend_get(rig->backend, own_key);
    shared_store_hold_watch(rig->nodes[2].store, true);
    shared_store_refuse_session(rig->nodes[2].store); /* it takes two attempts */
    shared_backend_put(rig->backend, own_key, NULL);
    shared_store_put_late(rig->nodes[2].store, own_key, value);
    shared_store_hold_watch(rig->nodes[2].store, false);
    rig_until_registered_anew(rig, 2, before);
    free(value);
}

struct joining {
    struct cluster *cluster;
    char why[500];
    int rc;
};

static void *join(void *arg)
{
    struct joining *joining = arg;

    joining->rc = cluster_join(joining->cluster, joining->why, sizeof(joining->why));
    return NULL;
}

static void test_gone_before_the_answer_joins_all_the_same(void **state)
{
    struct cluster_rig *rig = *state;
    struct joining joining = {.rc = 0};
    pthread_t thread;
    int64_t ended;

    rig_start(rig, 1);
    rig->nodes[2].join_later = true;
    rig_start(rig, 2);
    joining.cluster = rig->nodes[2].cluster;
    shared_store_fault(rig->nodes[2].store, SHARED_ANSWER_LATE, "brokers/ids/2");
    assert_int_equal(pthread_create(&thread, NULL, join, &joining), 0);
    ended = end_registration(rig);
    shared_store_answer(rig->nodes[2].store);
    pthread_join(thread, NULL);
    assert_string_equal(joining.why, "");
    assert_int_equal(joining.rc, 0);
    rig_until_registered_anew(rig, 2, ended);
}

/* Recovery may take longer than the session lasts. */
static void test_session_lost_before_it_joins(void **state)
{
    struct cluster_rig *rig = *state;

    rig->nodes[2].join_later = true;
    rig_start(rig, 2);
    shared_store_end_session(rig->nodes[2].store, true);
    assert_int_equal(cluster_join(rig->nodes[2].cluster, rig->why, 500), 0);
    assert_true(rig_is(rig, 2, rig_is_member, NULL));
}

/* What the listener heard was of the session before. */
static void test_session_lost_unheard_registers_anew(void **state)
{
    struct cluster_rig *rig = *state;
    int64_t before = rig_self_epoch(rig, 2);

    shared_store_end_session(rig->nodes[2].store, false);
    rig_until_registered_anew(rig, 2, before);
}

static void test_session_lost_as_it_opens_registers_anew(void **state)
{
    struct cluster_rig *rig = *state;
    int64_t before = rig_self_epoch(rig, 2);

    shared_store_short_session(rig->nodes[2].store);
    shared_store_end_session(rig->nodes[2].store, true);
    rig_until_registered_anew(rig, 2, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gone_before_the_answer_registers_anew,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_late_registration_does_not_take_the_id,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_gone_before_the_answer_joins_all_the_same,
                                        rig_setup_empty, rig_teardown),
        cmocka_unit_test_setup_teardown(test_session_lost_before_it_joins,
                                        rig_setup_empty, rig_teardown),
        cmocka_unit_test_setup_teardown(test_session_lost_unheard_registers_anew,
                                        rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(test_session_lost_as_it_opens_registers_anew,
                                        rig_setup, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
