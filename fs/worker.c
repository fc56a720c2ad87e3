#include "fs/worker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct worker {
    pthread_t thread; /* [const] */
    pthread_mutex_t lock;
    pthread_cond_t added;
    struct work *first; /* [lock] */
    struct work **last; /* [lock] where the next one goes */
    bool stopping;      /* [lock] */
};

static void *worker_thread(void *arg)
{
    struct worker *worker = arg;
    (void)pthread_mutex_lock(&worker->lock);
    for (;;) {
        struct work *work = worker->first;
        if (work == NULL) {
            if (worker->stopping)
                break;
            (void)pthread_cond_wait(&worker->added, &worker->lock);
            continue;
        }
        worker->first = work->next;
        if (worker->first == NULL)
            worker->last = &worker->first;
        (void)pthread_mutex_unlock(&worker->lock);
        work->run(work);
        (void)pthread_mutex_lock(&worker->lock);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}

struct worker *worker_start(void)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return NULL;
    worker->last = &worker->first;
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->added, NULL);
    if (pthread_create(&worker->thread, NULL, worker_thread, worker) != 0) {
        (void)pthread_cond_destroy(&worker->added);
        (void)pthread_mutex_destroy(&worker->lock);
        free(worker);
        return NULL;
    }
    return worker;
}

void worker_add(struct worker *worker, struct work *work)
{
    work->next = NULL;
    (void)pthread_mutex_lock(&worker->lock);
    *worker->last = work;
    worker->last = &work->next;
    (void)pthread_cond_signal(&worker->added);
    (void)pthread_mutex_unlock(&worker->lock);
}

void worker_stop(struct worker *worker)
{
    if (worker == NULL)
        return;
    (void)pthread_mutex_lock(&worker->lock);
    worker->stopping = true;
    (void)pthread_cond_signal(&worker->added);
    (void)pthread_mutex_unlock(&worker->lock);
    (void)pthread_join(worker->thread, NULL);
    (void)pthread_cond_destroy(&worker->added);
    (void)pthread_mutex_destroy(&worker->lock);
    free(worker);
}
