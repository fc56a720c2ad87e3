/*
 * The command line: arguments in, a filled struct out. Pure: it reads no file and no
 * environment, prints nothing, so that every rule of it is a unit test.
 *
 *     struct cli cli;
 *     rc = cli_parse(&cli, argc, argv, geteuid(), why, sizeof why);
 *     ... cli.command, cli.path, cli.config ...
 *     cli_free(&cli);
 *
 * Mount options (-o) are of three kinds: names of settings (settings.h), words that
 * mount(8) and fstab use for every filesystem, and a few of our own (nonempty, fsname).
 * Anything else is refused. A comma inside of a value is written "\,".
 */
#ifndef TOPICFS_CLI_H
#define TOPICFS_CLI_H

#include "coord/coord.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum cli_command {
    CLI_MOUNT,
    CLI_UMOUNT,
    CLI_CHECK,
    CLI_HELP,        /* how to call it, with all settings */
    CLI_HELP_CONFIG, /* the settings as a Markdown table */
    CLI_VERSION,
};

/* Exit codes. Those of `check` are fsck's; see replica/check.h. */
enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,       /* mount, umount */
    CLI_EXIT_CHECK_FAILED = 8, /* check could not run */
    CLI_EXIT_USAGE = 16,
};

struct cli {
    enum cli_command command;
    char *path;      /* the mount point, or the data directory of `check`; as given */
    bool foreground; /* mount -f */
    bool nonempty;   /* mount -o nonempty */
    bool repair;     /* check --repair */
    bool lazy;       /* umount --lazy */
    bool release;    /* umount --release */
    bool data_given; /* else config.data is the built-in default */
    char *fsname; /* the mount's source as shown by df and mount; NULL: the data path */
    struct mount_config config;
    char **fuse_options; /* for libfuse and the kernel, e.g. "ro" */
    size_t fuse_option_count;
};

/*
 * argv[0] is skipped. `euid` decides the default of allow_other (on for root).
 * 0; -EINVAL with `why` saying what is wrong; -ENOMEM. cli_free() in every case.
 */
int cli_parse(struct cli *cli, int argc, char *const argv[], uid_t euid, char *why,
              size_t why_size);
void cli_free(struct cli *cli);

/* The text of --help. 0 or the buffer's error. */
int cli_help(struct buf *out);

/*
 * Where a user other than root keeps the data unless told otherwise: under
 * $XDG_DATA_HOME, else under ~/.local/share. `xdg` and `home` may be NULL. The caller
 * frees the result; NULL: neither is an absolute path, or no memory.
 */
char *cli_user_data(const char *xdg, const char *home);

#endif
