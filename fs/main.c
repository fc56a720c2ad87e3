/*
 * The composition root: makes the parts, wires them, and starts and stops them in
 * order.
 *
 *     start: mount point, data directory (lock), log, problems, cluster, broker,
 *            groups, HTTP server, mount
 *     stop:  mount, groups, HTTP server, cluster, broker, data directory
 *
 * The mount and the HTTP server go first when stopping, so that no request comes in any
 * more (in this order, because unmounting ends what waits in the partitions, for both);
 * the HTTP server starts before the mount, so that a node that can't serve as it was
 * told to is not mounted; the groups while the node still leads what they commit to;
 * the cluster before the broker, so that no change reaches a broker that is being taken
 * apart; the data directory's lock last, when everything is on disk.
 */
#include "fs/cli.h"
#include "fs/daemon.h"
#include "fs/fs.h"
#include "fs/mountpoint.h"
#include "fs/mounttable.h"
#include "fs/unmount.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WHY_BYTES = 1024, HELP_BYTES = 256 * 1024 };
enum { IN_USE_WAIT_MS = 10000, IN_USE_MOUNTED_WAIT_MS = 500, IN_USE_POLL_MS = 50 };

struct node {
    struct cli *cli;
    struct daemon daemon;
    struct mountpoint mountpoint;
    struct datadir *datadir;
    struct problems *problems;
    struct cluster *cluster;
    struct broker *broker;
    struct groups *groups;
    struct http_server *http;
    struct http_topics http_topics;
    struct http_status http_status;
    struct http_groups *http_groups;
    struct peer_routes *peer_routes;
    struct group_routes *group_routes;
    char why[WHY_BYTES]; /* of the first failure */
};

static int keep_why(struct node *node, int rc, const char *what)
{
    (void)snprintf(node->why, sizeof node->why, "%s: %s", what, err_text(rc));
    return rc;
}

/* Makes config.data the absolute path that is used. */
static int choose_data(struct node *node)
{
    struct mount_config *config = &node->cli->config;
    char *path = NULL;
    int rc;

    if (!node->cli->data_given && geteuid() != 0) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread yet */
        path = cli_user_data(getenv("XDG_DATA_HOME"), getenv("HOME"));
        if (path == NULL) {
            (void)snprintf(
                node->why, sizeof node->why,
                "HOME is not set: say with -o data=DIRECTORY where the data is "
                "to be kept");
            return -EINVAL;
        }
        free(config->data);
        config->data = path;
    }
    rc = mountpoint_resolve(config->data, &path);
    if (rc < 0)
        return keep_why(node, rc, config->data);
    free(config->data);
    config->data = path;
    return 0;
}

/* The daemon has another working directory than the command. */
static int absolute_files(struct node *node)
{
    struct mount_config *config = &node->cli->config;
    char **const paths[] = {
        &config->token_file, &config->tls_cert,    &config->tls_key,
        &config->tls_ca,     &config->cluster_key, &config->coord_password_file,
        &config->coord_ca,   &config->coord_cert,  &config->coord_key};

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char *path = NULL;
        int rc;

        if (**paths[i] == '\0')
            continue;
        rc = mountpoint_resolve(*paths[i], &path);
        if (rc < 0)
            return keep_why(node, rc, *paths[i]);
        free(*paths[i]);
        *paths[i] = path;
    }
    return 0;
}

/* The source in the table of mounts: tells where the data is, and `topicfs umount` uses
 * it to see the daemon off. A path that the option syntax can't carry is left out. */
static int add_source(struct cli *cli)
{
    const char *source = cli->fsname != NULL ? cli->fsname : cli->config.data;
    char **options;

    if (strpbrk(source, ",\\") != NULL)
        return 0;
    options =
        realloc(cli->fuse_options, (cli->fuse_option_count + 1) * sizeof *options);
    if (options == NULL)
        return -ENOMEM;
    cli->fuse_options = options;
    if (asprintf(&options[cli->fuse_option_count], "fsname=%s", source) < 0)
        return -ENOMEM;
    cli->fuse_option_count++;
    return 0;
}

/*
 * Directly after an unmount the former daemon may still be writing; it is waited for.
 * One whose mount is there will not go away.
 */
static int wait_for_data_directory(struct node *node)
{
    const struct timespec pause = {.tv_nsec = IN_USE_POLL_MS * 1000000L};
    const char *data = node->cli->config.data;
    int64_t wait_ms = IN_USE_WAIT_MS;
    struct mounttable_entry entry;
    int rc;

    for (int64_t waited = 0;; waited += IN_USE_POLL_MS) {
        rc = datadir_open(data, &node->datadir, node->why, sizeof node->why);
        if (rc != E_IN_USE || waited >= wait_ms)
            break;
        if (waited == 0 && mounttable_find_source(data, &entry) == 0) {
            wait_ms = IN_USE_MOUNTED_WAIT_MS;
            mounttable_entry_free(&entry);
        }
        (void)nanosleep(&pause, NULL);
    }
    if (rc == E_IN_USE && mounttable_find_source(data, &entry) == 0) {
        (void)snprintf(node->why, sizeof node->why,
                       "the data directory %s is in use by the topicfs at %s", data,
                       entry.path);
        mounttable_entry_free(&entry);
    }
    return rc;
}

static int open_data_directory(struct node *node)
{
    int rc = wait_for_data_directory(node);

    if ((rc == -EACCES || rc == -EPERM) && geteuid() != 0) {
        size_t length = strlen(node->why);

        (void)snprintf(node->why + length, sizeof node->why - length,
                       " (give a directory of your own with -o data=DIRECTORY)");
    }
    return rc;
}

static void on_ready(void *arg)
{
    struct node *node = arg;

    mountpoint_protect(&node->mountpoint);
    diag(DIAG_INFO, "topicfs " TOPICFS_VERSION " serves %s at %s",
         node->cli->config.data, node->mountpoint.path);
    if (!daemon_ready(&node->daemon)) {
        diag(DIAG_WARNING, "the mount command was ended while it waited: unmounting");
        (void)kill(getpid(), SIGTERM); /* the mount ends as for any SIGTERM */
    }
}

static int start_groups(struct node *node)
{
    const struct groups_params params = {
        .config = &node->cli->config,
        .cluster = node->cluster,
        .broker = node->broker,
        .problems = node->problems,
        .clock = &clock_real,
    };
    int rc = groups_start(&params, &node->groups);

    return rc < 0 ? keep_why(node, rc, "can't start the consumer groups") : 0;
}

static int node_start(struct node *node)
{
    const struct mount_config *config = &node->cli->config;
    int rc;

    rc = open_data_directory(node);
    if (rc < 0)
        return rc;
    rc = daemon_log(&node->daemon, config->data);
    if (rc < 0)
        return keep_why(node, rc, "can't write topicfs.log in the data directory");
    node->problems = problems_new(&clock_real);
    if (node->problems == NULL)
        return keep_why(node, -ENOMEM, "can't start");

    const struct cluster_params cluster_params = {
        .config = config,
        .store_dir = datadir_store_path(node->datadir),
        .instance = datadir_instance(node->datadir),
        .started = datadir_started(node->datadir),
        .join_later = true,
        .problems = node->problems,
        .clock = &clock_real,
    };
    rc = cluster_address_check(config, node->why, sizeof node->why);
    if (rc < 0)
        return rc;
    rc = cluster_open(&cluster_params, &node->cluster, node->why, sizeof node->why);
    if (rc < 0)
        return rc;

    const struct broker_params broker_params = {
        .datadir = node->datadir,
        .cluster = node->cluster,
        .problems = node->problems,
        .clock = &clock_real,
        .config = config,
    };
    rc = broker_start(&broker_params, &node->broker, node->why, sizeof node->why);
    return rc < 0 ? rc : start_groups(node);
}

static int add_peer_routes(struct node *node)
{
    const struct peer_routes_params params = {
        .config = &node->cli->config, .cluster = node->cluster, .broker = node->broker};
    const struct group_routes_params group_params = {
        .config = &node->cli->config,
        .broker = node->broker,
        .coordinator = groups_coordinator(node->groups)};
    struct cluster_session session;
    int rc;

    cluster_session(node->cluster, &session);
    if (!session.shared)
        return 0;
    rc = peer_routes_new(&params, &node->peer_routes, node->why, sizeof node->why);
    if (rc == 0)
        rc = peer_routes_add(node->peer_routes, node->http);
    if (rc == 0)
        rc = group_routes_new(&group_params, &node->group_routes, node->why,
                              sizeof node->why);
    if (rc == 0)
        rc = group_routes_add(node->group_routes, node->http);
    return rc;
}

static int add_http_groups(struct node *node)
{
    const struct http_groups_params params = {
        .cluster = node->cluster, .groups = node->groups, .clock = &clock_real};
    int rc = http_groups_new(&params, &node->http_groups);

    return rc < 0 ? rc : http_groups_add(node->http_groups, node->http);
}

static int start_http(struct node *node)
{
    const struct http_server_params params = {
        .config = &node->cli->config,
        .problems = node->problems,
        .clock = &clock_real,
    };
    int rc;

    if (*node->cli->config.listen == '\0')
        return 0;
    rc = http_server_new(&params, &node->http);
    if (rc < 0)
        return keep_why(node, rc, "can't start the HTTP server");
    node->http_topics.cluster = node->cluster;
    node->http_topics.broker = node->broker;
    node->http_topics.clock = &clock_real;
    node->http_status = (struct http_status){.cluster = node->cluster,
                                             .broker = node->broker,
                                             .problems = node->problems,
                                             .groups = node->groups};
    rc = http_topics_add(node->http, &node->http_topics);
    if (rc == 0)
        rc = http_status_add(node->http, &node->http_status);
    if (rc == 0)
        rc = add_http_groups(node);
    if (rc == 0)
        rc = add_peer_routes(node);
    if (rc == 0)
        rc = http_server_start(node->http, node->why, sizeof node->why);
    return rc;
}

/* Only now: whoever is registered can be elected, and must be able to serve. */
static int join(struct node *node)
{
    int rc = broker_take_out_suspects(node->broker);

    if (rc < 0)
        return keep_why(node, rc, "can't tell the cluster what a crash left");
    return cluster_join(node->cluster, node->why, sizeof node->why);
}

static int node_serve(struct node *node)
{
    const struct mount_params params = {
        .mountpoint = node->mountpoint.path,
        .cluster = node->cluster,
        .broker = node->broker,
        .groups = node->groups,
        .problems = node->problems,
        .clock = &clock_real,
        .config = &node->cli->config,
        .fuse_options = (const char *const *)node->cli->fuse_options,
        .fuse_option_count = node->cli->fuse_option_count,
        .ready = on_ready,
        .ready_arg = node,
    };

    return mount_serve(&params, node->why, sizeof node->why);
}

static void node_stop(struct node *node)
{
    http_groups_end(node->http_groups);
    group_routes_end(node->group_routes);
    groups_leave(node->groups);
    cluster_stop(node->cluster);
    http_server_stop(node->http);
    broker_leave(node->broker);
    cluster_close(node->cluster);
    groups_stop(node->groups);
    broker_stop(node->broker);
    peer_routes_free(node->peer_routes);
    group_routes_free(node->group_routes);
    http_groups_free(node->http_groups);
    if (node->datadir != NULL)
        datadir_close(node->datadir);
    problems_free(node->problems);
}

static int run_daemon(struct node *node)
{
    int rc;

    (void)signal(SIGPIPE, SIG_IGN);
    mount_block_signals(); /* before the first thread */
    (void)umask(077);      /* the data is for readers of the mount, by its modes */
    rc = node_start(node);
    if (rc == 0)
        rc = start_http(node);
    if (rc == 0)
        rc = join(node);
    if (rc == 0)
        rc = node_serve(node);
    if (rc < 0)
        daemon_failed(&node->daemon, node->why[0] != '\0' ? node->why : err_text(rc));
    daemon_stopping(&node->daemon);
    node_stop(node);
    if (rc == 0)
        diag(DIAG_INFO, "%s is unmounted, everything is written",
             node->mountpoint.path);
    return rc < 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static int command_mount(struct cli *cli)
{
    struct node node = {.cli = cli, .mountpoint = {.fd = -1}};
    int status = CLI_EXIT_FAILED;
    int rc;

    if (!cli->foreground)
        daemon_close_inherited();
    rc = choose_data(&node);
    if (rc == 0)
        rc = absolute_files(&node);
    if (rc == 0)
        rc = add_source(cli);
    if (rc == 0)
        rc = mountpoint_prepare(&node.mountpoint, cli->path, cli->config.data,
                                cli->nonempty, node.why, sizeof node.why);
    if (rc == 0) {
        rc = daemon_start(&node.daemon, !cli->foreground, &status);
        if (rc == DAEMON_CHILD)
            status = run_daemon(&node);
        else if (rc == DAEMON_PARENT)
            node.mountpoint.mounted = true; /* the child sees to the directory */
        else
            (void)keep_why(&node, rc, "can't start the daemon");
    }
    if (rc < 0)
        (void)fprintf(stderr, "topicfs: %s\n",
                      node.why[0] != '\0' ? node.why : err_text(rc));
    mountpoint_close(&node.mountpoint);
    return status;
}

static int command_check(const struct cli *cli)
{
    int rc = check_data_directory(cli->path, cli->repair, stdout);

    if (rc >= 0)
        return rc;
    (void)fprintf(stderr, "topicfs: can't check %s: %s\n", cli->path, err_text(rc));
    return CLI_EXIT_CHECK_FAILED;
}

static int print_text(int (*render)(struct buf *out))
{
    struct buf text;
    int status = CLI_EXIT_FAILED;

    buf_init(&text, HELP_BYTES);
    if (render(&text) == 0 &&
        fwrite(text.data, 1, text.length, stdout) == text.length && fflush(stdout) == 0)
        status = CLI_EXIT_OK;
    buf_free(&text);
    return status;
}

static int print_version(void)
{
    bool printed = puts("topicfs " TOPICFS_VERSION) >= 0 && fflush(stdout) == 0;

    return printed ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

static int run_command(struct cli *cli)
{
    switch (cli->command) {
    case CLI_MOUNT:
        return command_mount(cli);
    case CLI_UMOUNT:
        return unmount_command(cli->path, cli->lazy, cli->release) < 0 ? CLI_EXIT_FAILED
                                                                       : CLI_EXIT_OK;
    case CLI_CHECK:
        return command_check(cli);
    case CLI_HELP:
        return print_text(cli_help);
    case CLI_HELP_CONFIG:
        return print_text(settings_markdown);
    case CLI_VERSION:
        return print_version();
    }
    return CLI_EXIT_USAGE;
}

int main(int argc, char *argv[])
{
    char why[WHY_BYTES] = "";
    struct cli cli;
    int status = CLI_EXIT_USAGE;

    if (cli_parse(&cli, argc, argv, geteuid(), why, sizeof why) == 0)
        status = run_command(&cli);
    else
        (void)fprintf(stderr, "topicfs: %s\nTry \"topicfs --help\".\n", why);
    cli_free(&cli);
    return status;
}
