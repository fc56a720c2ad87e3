#include "replica/groups_internal.h"

#include <stdlib.h>

enum { STOP_MS = 2000, NOTES_MS = 60 * 1000 };

int64_t groups_now(const struct groups *groups)
{
    return clock_mono_ms(groups->params.clock);
}

bool groups_is_interrupted(struct groups *groups)
{
    pthread_mutex_lock(&groups->lock);
    bool interrupted = groups->interrupted;
    pthread_mutex_unlock(&groups->lock);
    return interrupted;
}

bool groups_is_silent(struct groups *groups)
{
    const struct clock *clock = groups->params.clock;
    struct cluster_session session;
    cluster_session(groups->params.cluster, &session);
    return session.lost || session.deadline_ns <= clock->mono_ns(clock);
}

static bool is_stopping(struct groups *groups)
{
    pthread_mutex_lock(&groups->lock);
    bool stopping = groups->stopping;
    pthread_mutex_unlock(&groups->lock);
    return stopping;
}

static void on_cluster(void *arg, const struct cluster_snapshot *snapshot)
{
    struct groups *groups = arg;
    group_client_snapshot(groups->client, snapshot);
}

/* ---- the thread ---------------------------------------------------------------------
 */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t step(struct groups *groups)
{
    int64_t now_ms = groups_now(groups);
    group_client_look(groups->client);
    if (now_ms >= groups->notes_ms) {
        groups_notes_tend(groups, false);
        groups->notes_ms = now_ms + NOTES_MS;
    }
    /* The client comes last: it sends what the others ask for. */
    int64_t due_ms = earlier(groups->notes_ms, groups_survey_step(groups));
    groups_calls_step(groups);
    due_ms = earlier(due_ms, group_members_step(groups));
    due_ms = earlier(due_ms, group_locator_step(groups->locator));
    return earlier(due_ms, group_client_step(groups->client));
}

/* Nobody is served any more: what comes from now on ends at once. */
static void end_service(struct groups *groups)
{
    pthread_mutex_lock(&groups->lock);
    groups->closed = true;
    pthread_mutex_unlock(&groups->lock);
    groups_calls_step(groups);
    group_members_close(groups);
}

static void *groups_main(void *arg)
{
    struct groups *groups = arg;
    while (!is_stopping(groups)) {
        group_client_wait(groups->client, step(groups));
    }
    end_service(groups);
    int64_t until_ms = groups_now(groups) + STOP_MS;
    int64_t due_ms = step(groups);
    while (groups->farewells && groups_now(groups) < until_ms) {
        group_client_wait(groups->client, earlier(due_ms, until_ms));
        due_ms = step(groups);
    }
    groups_survey_close(groups);
    group_client_close(groups->client);
    group_farewells_end(groups);
    return NULL;
}

/* ---- starting and stopping ----------------------------------------------------------
 */

static void free_groups(struct groups *groups)
{
    group_coordinator_stop(groups->coordinator);
    group_locator_free(groups->locator);
    groups_survey_free(groups);
    group_client_free(groups->client);
    groups_notes_tend(groups, true);
    pthread_mutex_destroy(&groups->lock);
    free(groups);
}

static int make_parts(struct groups *groups)
{
    const struct groups_params *params = &groups->params;
    int rc = group_coordinator_start(params, &groups->coordinator);
    rc = rc ? rc : group_client_new(params, groups->coordinator, &groups->client);
    if (!rc) {
        groups->locator = group_locator_new(params, groups->client);
        rc = groups->locator ? groups_survey_new(groups) : -ENOMEM;
    }
    return rc;
}

int groups_start(const struct groups_params *params, struct groups **out)
{
    struct groups *groups = calloc(1, sizeof *groups);
    *out = NULL;
    if (!groups) {
        return -ENOMEM;
    }
    groups->params = *params;
    pthread_mutex_init(&groups->lock, NULL);
    int rc = make_parts(groups);
    rc = rc ? rc : cluster_subscribe(params->cluster, on_cluster, groups);
    if (rc) {
        free_groups(groups);
        return rc;
    }
    rc = -pthread_create(&groups->thread, NULL, groups_main, groups);
    if (rc) {
        cluster_unsubscribe(params->cluster, on_cluster, groups);
        free_groups(groups);
        return rc;
    }
    groups->running = true;
    *out = groups;
    return 0;
}

struct group_coordinator *groups_coordinator(struct groups *groups)
{
    return groups->coordinator;
}

void groups_interrupt(struct groups *groups)
{
    if (groups) {
        pthread_mutex_lock(&groups->lock);
        groups->interrupted = true;
        pthread_mutex_unlock(&groups->lock);
        group_client_wake(groups->client);
    }
}

void groups_leave(struct groups *groups)
{
    if (!groups || !groups->running) {
        return;
    }
    pthread_mutex_lock(&groups->lock);
    groups->interrupted = true;
    groups->stopping = true;
    pthread_mutex_unlock(&groups->lock);
    group_client_wake(groups->client);
    (void)pthread_join(groups->thread, NULL);
    groups->running = false;
    cluster_unsubscribe(groups->params.cluster, on_cluster, groups);
    /* It answers what the client and the survey gave it. */
    group_coordinator_stop(groups->coordinator);
    groups->coordinator = NULL;
}

void groups_stop(struct groups *groups)
{
    if (groups) {
        groups_leave(groups);
        free_groups(groups);
    }
}
