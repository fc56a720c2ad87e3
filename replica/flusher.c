#include "replica/flusher.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <utlist.h>

struct flusher {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct flusher_job *queue; /* [lock] */
    pthread_t *threads;        /* [lock] */
    unsigned max_threads;      /* [const] */
    unsigned thread_count;     /* [lock] */
    unsigned idle;             /* [lock] */
    unsigned waiting;          /* [lock] jobs in the queue */
    bool stopping;             /* [lock] */
};

static void *flusher_main(void *arg)
{
    struct flusher *flusher = arg;
    pthread_mutex_lock(&flusher->lock);
    for (;;) {
        while (!flusher->queue && !flusher->stopping) {
            flusher->idle++;
            pthread_cond_wait(&flusher->work, &flusher->lock);
            flusher->idle--;
        }
        struct flusher_job *job = flusher->queue;
        if (!job) {
            break;
        }
        DL_DELETE(flusher->queue, job);
        flusher->waiting--;
        pthread_mutex_unlock(&flusher->lock);
        job->run(job);
        pthread_mutex_lock(&flusher->lock);
    }
    pthread_mutex_unlock(&flusher->lock);
    return NULL;
}

struct flusher *flusher_start(unsigned max_threads)
{
    struct flusher *flusher = calloc(1, sizeof *flusher);
    if (!flusher) {
        return NULL;
    }
    flusher->threads = calloc(max_threads, sizeof *flusher->threads);
    flusher->max_threads = max_threads;
    pthread_mutex_init(&flusher->lock, NULL);
    pthread_cond_init(&flusher->work, NULL);
    /* One thread from the start: queueing a job can then never fail. */
    if (!flusher->threads ||
        pthread_create(&flusher->threads[0], NULL, flusher_main, flusher) != 0) {
        pthread_cond_destroy(&flusher->work);
        pthread_mutex_destroy(&flusher->lock);
        free(flusher->threads);
        free(flusher);
        return NULL;
    }
    flusher->thread_count = 1;
    return flusher;
}

void flusher_stop(struct flusher *flusher)
{
    if (!flusher) {
        return;
    }
    pthread_mutex_lock(&flusher->lock);
    flusher->stopping = true;
    pthread_cond_broadcast(&flusher->work);
    pthread_mutex_unlock(&flusher->lock);
    for (unsigned i = 0; i < flusher->thread_count; i++) {
        pthread_join(flusher->threads[i], NULL);
    }
    pthread_cond_destroy(&flusher->work);
    pthread_mutex_destroy(&flusher->lock);
    free(flusher->threads);
    free(flusher);
}

/* [flusher->lock] A thread more, if every present one has work. Failing is no harm: the
 * threads that exist will come to it. */
static void grow(struct flusher *flusher)
{
    if (flusher->waiting <= flusher->idle ||
        flusher->thread_count == flusher->max_threads) {
        return;
    }
    pthread_t *thread = &flusher->threads[flusher->thread_count];
    if (pthread_create(thread, NULL, flusher_main, flusher) == 0) {
        flusher->thread_count++;
    }
}

void flusher_queue(struct flusher *flusher, struct flusher_job *job)
{
    pthread_mutex_lock(&flusher->lock);
    DL_APPEND(flusher->queue, job);
    flusher->waiting++;
    grow(flusher);
    pthread_cond_signal(&flusher->work);
    pthread_mutex_unlock(&flusher->lock);
}
