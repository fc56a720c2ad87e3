#include "replica/group_client_internal.h"

#include <stdlib.h>
#include <time.h>

enum { ATTEMPTS = 20, PAUSE_MS = 250 };

struct topic_maker {
    struct group_client *client; /* [const] */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread; /* [client's thread] */
    bool started;     /* [client's thread] the thread is to be joined */
    bool running;     /* [lock] */
    bool stopping;    /* [lock] */
};

int topic_maker_new(struct group_client *client, struct topic_maker **out)
{
    struct topic_maker *maker = calloc(1, sizeof *maker);
    if (!maker) {
        return -ENOMEM;
    }
    maker->client = client;
    pthread_mutex_init(&maker->lock, NULL);
    pthread_cond_init(&maker->changed, NULL);
    *out = maker;
    return 0;
}

/* false: it is to end. */
static bool pause_between(struct topic_maker *maker)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PAUSE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    int rc = 0;
    pthread_mutex_lock(&maker->lock);
    while (!maker->stopping && rc == 0) {
        rc = pthread_cond_timedwait(&maker->changed, &maker->lock, &until);
    }
    bool go_on = !maker->stopping;
    pthread_mutex_unlock(&maker->lock);
    return go_on;
}

static void *make_topic(void *arg)
{
    struct topic_maker *maker = arg;
    char why[256] = "";
    int rc = -EAGAIN;
    for (int i = 0; rc && i < ATTEMPTS; i++) {
        if (i > 0 && !pause_between(maker)) {
            break;
        }
        rc = group_coordinator_ensure_topic(maker->client->params.cluster, why,
                                            sizeof why);
    }
    if (rc) {
        diag(DIAG_WARNING, "%s: not made: %s", GROUPS_TOPIC,
             why[0] != '\0' ? why : err_text(rc));
    }
    pthread_mutex_lock(&maker->lock);
    maker->running = false;
    pthread_mutex_unlock(&maker->lock);
    return NULL;
}

static bool is_running(struct topic_maker *maker)
{
    pthread_mutex_lock(&maker->lock);
    bool running = maker->running;
    pthread_mutex_unlock(&maker->lock);
    return running;
}

void topic_maker_begin(struct topic_maker *maker)
{
    if (is_running(maker)) {
        return;
    }
    if (maker->started) {
        (void)pthread_join(maker->thread, NULL);
        maker->started = false;
    }
    maker->running = true;
    if (pthread_create(&maker->thread, NULL, make_topic, maker)) {
        maker->running = false;
    } else {
        maker->started = true;
    }
}

void topic_maker_free(struct topic_maker *maker)
{
    if (!maker) {
        return;
    }
    pthread_mutex_lock(&maker->lock);
    maker->stopping = true;
    pthread_cond_signal(&maker->changed);
    pthread_mutex_unlock(&maker->lock);
    if (maker->started) {
        (void)pthread_join(maker->thread, NULL);
    }
    pthread_cond_destroy(&maker->changed);
    pthread_mutex_destroy(&maker->lock);
    free(maker);
}
