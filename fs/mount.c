/*
 * The life of a mount. What runs, and in which order it ends:
 *
 *   signal thread   waits for SIGTERM, SIGINT, SIGHUP; sets the stop going
 *   this thread     serves (fuse_session_loop_mt) until that or an unmount, then takes
 * all apart
 *
 *   1. notifications end while requests are still served, for one that is under way may
 *      wait in the kernel for a request to be answered
 *   2. the loop ends: nothing comes in any more
 *   3. operations end; what is about to be answered gets STOP_GRACE_MS
 *   4. whatever is still parked is answered, open files are released
 *   5. the mount goes, and with it what the kernel had not sent yet
 */
#include "fs/fs.h"

#include "fs/front.h"
#include "fs/handle.h"
#include "fs/locks.h"
#include "fs/notifier.h"
#include "fs/previews.h"
#include "fs/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MOUNT_MAX_THREADS = 64,
    MOUNT_IDLE_THREADS = 12, /* fewer cost more in thread creation than they save */
    STOP_GRACE_MS = 2000,
    STOP_POLL_MS = 5,
};

struct mount {
    const struct mount_params *params;
    struct mounted mounted;
    struct fuse_args args;
    struct fuse_session *session;
    pthread_t serving; /* the thread in the loop */
    pthread_t signals;
    bool has_signals;
    bool is_mounted;
    pthread_mutex_t lock;
    bool loop_ended;       /* [lock] */
    bool notifier_stopped; /* [lock] */
};

static void mount_pause(int ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000L};
    (void)nanosleep(&pause, NULL);
}

/* ---- signals --------------------------------------------------------------------- */

static void mount_stop_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGHUP);
}

void mount_block_signals(void)
{
    sigset_t set;
    mount_stop_signals(&set);
    (void)sigaddset(&set, SIGUSR2);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Only there so that the signal interrupts the loop's wait. */
static void mount_on_kick(int signal_number)
{
    (void)signal_number;
}

static void mount_stop_notifier(struct mount *mount)
{
    (void)pthread_mutex_lock(&mount->lock);
    bool stop = !mount->notifier_stopped && mount->mounted.notifier != NULL;
    mount->notifier_stopped = true;
    (void)pthread_mutex_unlock(&mount->lock);
    if (stop)
        notifier_stop(mount->mounted.notifier);
}

static bool mount_loop_ended(struct mount *mount)
{
    (void)pthread_mutex_lock(&mount->lock);
    bool ended = mount->loop_ended;
    (void)pthread_mutex_unlock(&mount->lock);
    return ended;
}

/*
 * SIGUSR2 says here that the loop has ended by itself. In the serving thread it
 * interrupts the wait of the loop, which then sees that the session has ended; again
 * until it does, because the first may come just before the wait begins.
 */
static void *mount_signal_thread(void *arg)
{
    struct mount *mount = arg;
    sigset_t set;
    int signal_number = 0;
    mount_stop_signals(&set);
    (void)sigaddset(&set, SIGUSR2);
    while (sigwait(&set, &signal_number) != 0)
        ;
    if (signal_number != SIGUSR2) {
        diag(DIAG_INFO, "stopping on signal %d", signal_number);
        mount_stop_notifier(mount);
        fuse_session_exit(mount->session);
        while (!mount_loop_ended(mount)) {
            (void)pthread_kill(mount->serving, SIGUSR2);
            mount_pause(STOP_POLL_MS);
        }
    }
    return NULL;
}

static int mount_start_signals(struct mount *mount)
{
    struct sigaction action = {.sa_handler = mount_on_kick}; /* without SA_RESTART */
    sigset_t kick;
    mount->serving = pthread_self();
    mount_block_signals();
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGUSR2, &action, NULL) < 0)
        return -errno;
    int rc = pthread_create(&mount->signals, NULL, mount_signal_thread, mount);
    if (rc != 0)
        return -rc;
    mount->has_signals = true;
    (void)sigemptyset(&kick);
    (void)sigaddset(&kick, SIGUSR2);
    (void)pthread_sigmask(SIG_UNBLOCK, &kick, NULL);
    return 0;
}

static void mount_end_signals(struct mount *mount)
{
    if (!mount->has_signals)
        return;
    (void)pthread_mutex_lock(&mount->lock);
    mount->loop_ended = true;
    (void)pthread_mutex_unlock(&mount->lock);
    (void)pthread_kill(mount->signals, SIGUSR2);
    (void)pthread_join(mount->signals, NULL);
}

/* ---- setting up ------------------------------------------------------------------ */

static int mount_option(struct mount *mount, const char *option)
{
    if (fuse_opt_add_arg(&mount->args, "-o") != 0 ||
        fuse_opt_add_arg(&mount->args, option) != 0)
        return -ENOMEM;
    return 0;
}

static int mount_options(struct mount *mount)
{
    const struct mount_params *params = mount->params;
    int rc = fuse_opt_add_arg(&mount->args, "topicfs") != 0 ? -ENOMEM : 0;
    if (rc == 0)
        rc = mount_option(mount, "default_permissions,subtype=topicfs,fsname=topicfs");
    if (rc == 0 && params->config->allow_other)
        rc = mount_option(mount, "allow_other");
    for (size_t i = 0; rc == 0 && i < params->fuse_option_count; i++)
        rc = mount_option(mount, params->fuse_options[i]);
    return rc;
}

static int mount_make_parts(struct mount *mount)
{
    const struct mount_params *params = mount->params;
    struct mounted *mounted = &mount->mounted;
    mounted->tree = (struct tree){
        .cluster = params->cluster,
        .uid = getuid(),
        .gid = getgid(),
        .mounted_ms = params->clock->wall_ms(params->clock),
    };
    mounted->cluster = params->cluster;
    mounted->broker = params->broker;
    mounted->groups = params->groups;
    mounted->clock = params->clock;
    mounted->nodes = node_table_new();
    mounted->handles = handle_table_new();
    mounted->parking = parking_start(params->clock);
    mounted->operations =
        operations_start(params->cluster, params->broker, mounted->parking);
    mounted->locks = locks_new(mounted->parking);
    mounted->worker = worker_start();
    mounted->previews = previews_new();
    if (mounted->nodes == NULL || mounted->handles == NULL ||
        mounted->parking == NULL || mounted->operations == NULL ||
        mounted->locks == NULL || mounted->worker == NULL || mounted->previews == NULL)
        return -ENOMEM;
    return 0;
}

static int mount_set_up(struct mount *mount, char *why, size_t why_size)
{
    int rc = mount_make_parts(mount);
    if (rc == 0)
        rc = mount_options(mount);
    if (rc < 0) {
        (void)snprintf(why, why_size, "can't start serving: %s", err_text(rc));
        return rc;
    }
    mount->session = fuse_session_new(&mount->args, &front_operations,
                                      sizeof front_operations, &mount->mounted);
    if (mount->session == NULL) {
        (void)snprintf(why, why_size, "libfuse refuses the mount options");
        return -EINVAL;
    }
    if (fuse_session_mount(mount->session, mount->params->mountpoint) != 0) {
        (void)snprintf(why, why_size,
                       "can't mount on %s: see the message of libfuse or fusermount3",
                       mount->params->mountpoint);
        return -ENODEV;
    }
    mount->is_mounted = true;
    rc = notifier_start(mount->session, mount->mounted.nodes, mount->mounted.cluster,
                        &mount->mounted.notifier);
    /* Last: it stops what stands above. A signal that came meanwhile is still pending,
     * for main() has blocked them. */
    if (rc == 0)
        rc = mount_start_signals(mount);
    if (rc < 0)
        (void)snprintf(why, why_size, "can't start serving: %s", err_text(rc));
    return rc;
}

static int mount_loop(struct mount *mount, char *why, size_t why_size)
{
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    if (config == NULL)
        return -ENOMEM;
    fuse_loop_cfg_set_max_threads(config, MOUNT_MAX_THREADS);
    fuse_loop_cfg_set_idle_threads(config, MOUNT_IDLE_THREADS);
    if (mount->params->ready != NULL)
        mount->params->ready(mount->params->ready_arg);
    int rc = fuse_session_loop_mt(mount->session, config);
    fuse_loop_cfg_destroy(config);
    if (rc < 0)
        (void)snprintf(why, why_size, "serving the mount failed: %s", err_text(rc));
    return rc < 0 ? rc : 0;
}

/* ---- taking down ----------------------------------------------------------------- */

static bool mount_wait_zero(const atomic_size_t *count)
{
    for (int waited = 0; waited < STOP_GRACE_MS; waited += STOP_POLL_MS) {
        if (atomic_load(count) == 0)
            return true;
        mount_pause(STOP_POLL_MS);
    }
    return atomic_load(count) == 0;
}

static void mount_interrupt(struct mounted *mounted)
{
    groups_interrupt(mounted->groups);
    broker_interrupt_waiters(mounted->broker);
}

static void mount_stop_requests(struct mount *mount)
{
    struct mounted *mounted = &mount->mounted;
    if (mounted->operations != NULL)
        operations_stop(mounted->operations);
    if (mounted->parking == NULL || mounted->handles == NULL)
        return;
    /* What waits for a flush or a commit is given a while. */
    if (!mount_wait_zero(&mounted->answers.soon)) {
        mount_interrupt(mounted);
        parking_drain(mounted->parking);
    }
    handle_table_release_all(mounted->handles);
    mount_interrupt(mounted);
    parking_drain(mounted->parking);
}

static void mount_take_down(struct mount *mount)
{
    struct mounted *mounted = &mount->mounted;
    mount_end_signals(mount);
    mount_stop_notifier(mount);
    mount_stop_requests(mount);
    if (mount->is_mounted)
        fuse_session_unmount(mount->session);
    /* Whoever still sends an answer needs the session. All have been told to. */
    if (!mount_wait_zero(&mounted->answers.all))
        diag(DIAG_ERROR, "%zu requests were left unanswered",
             atomic_load(&mounted->answers.all));
    else if (mount->session != NULL)
        fuse_session_destroy(mount->session);
    parking_stop(mounted->parking);
    worker_stop(mounted->worker);
    previews_free(mounted->previews);
    locks_free(mounted->locks);
    notifier_free(mounted->notifier);
    operations_free(mounted->operations);
    handle_table_free(mounted->handles);
    node_table_free(mounted->nodes);
    fuse_opt_free_args(&mount->args);
}

int mount_serve(const struct mount_params *params, char *why, size_t why_size)
{
    struct mount mount = {.params = params, .args = FUSE_ARGS_INIT(0, NULL)};
    (void)pthread_mutex_init(&mount.lock, NULL);
    int rc = mount_set_up(&mount, why, why_size);
    if (rc == 0)
        rc = mount_loop(&mount, why, why_size);
    mount_take_down(&mount);
    (void)pthread_mutex_destroy(&mount.lock);
    return rc;
}
