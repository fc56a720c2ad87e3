#include "fs/cli.h"

#include <fuse_opt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum word_use { WORD_PASS, WORD_IGNORE };

/* What mount(8), fstab and systemd put into an option string for any filesystem. */
static const struct word {
    const char *text;
    enum word_use use;
} words[] = {
    {"ro", WORD_PASS},           {"rw", WORD_PASS},
    {"suid", WORD_PASS},         {"nosuid", WORD_PASS},
    {"dev", WORD_PASS},          {"nodev", WORD_PASS},
    {"exec", WORD_PASS},         {"noexec", WORD_PASS},
    {"noatime", WORD_PASS},      {"nodiratime", WORD_PASS},
    {"sync", WORD_PASS},         {"dirsync", WORD_PASS},
    {"async", WORD_IGNORE},      {"atime", WORD_IGNORE},
    {"diratime", WORD_IGNORE},   {"relatime", WORD_IGNORE},
    {"norelatime", WORD_IGNORE}, {"strictatime", WORD_IGNORE},
    {"lazytime", WORD_IGNORE},   {"nolazytime", WORD_IGNORE},
    {"iversion", WORD_IGNORE},   {"noiversion", WORD_IGNORE},
    {"mand", WORD_IGNORE},       {"nomand", WORD_IGNORE},
    {"silent", WORD_IGNORE},     {"loud", WORD_IGNORE},
    {"defaults", WORD_IGNORE},   {"default_permissions", WORD_IGNORE},
    {"auto", WORD_IGNORE},       {"noauto", WORD_IGNORE},
    {"user", WORD_IGNORE},       {"nouser", WORD_IGNORE},
    {"users", WORD_IGNORE},      {"nousers", WORD_IGNORE},
    {"owner", WORD_IGNORE},      {"noowner", WORD_IGNORE},
    {"group", WORD_IGNORE},      {"nogroup", WORD_IGNORE},
    {"_netdev", WORD_IGNORE},    {"nofail", WORD_IGNORE},
};

/* Options with a value that belong to the tools above us. */
static const char *const ignored_prefixes[] = {
    "x-", "X-", "comment=", "user=", "helper=", "uhelper="};

struct parsing {
    struct cli *cli;
    char *why;
    size_t why_size;
    int rc;
    bool after_coord; /* the option before was coord, or a host that goes with it */
};

static int refuse(struct parsing *parsing, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Keeps the first reason; -1 makes fuse_opt_parse() stop. */
static int refuse(struct parsing *parsing, const char *format, ...)
{
    va_list args;

    if (parsing->rc == 0) {
        parsing->rc = -EINVAL;
        va_start(args, format);
        (void)vsnprintf(parsing->why, parsing->why_size, format, args);
        va_end(args);
    }
    return -1;
}

static int no_memory(struct parsing *parsing)
{
    parsing->rc = -ENOMEM;
    (void)snprintf(parsing->why, parsing->why_size, "out of memory");
    return -1;
}

static int pass_to_fuse(struct parsing *parsing, const char *option)
{
    struct cli *cli = parsing->cli;
    char **options =
        realloc(cli->fuse_options, (cli->fuse_option_count + 1) * sizeof *options);

    if (options == NULL)
        return no_memory(parsing);
    cli->fuse_options = options;
    options[cli->fuse_option_count] = strdup(option);
    if (options[cli->fuse_option_count] == NULL)
        return no_memory(parsing);
    cli->fuse_option_count++;
    return 0;
}

static const struct word *find_word(const char *option)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].text, option) == 0)
            return &words[i];
    return NULL;
}

static bool is_ignored(const char *option)
{
    for (size_t i = 0; i < sizeof ignored_prefixes / sizeof ignored_prefixes[0]; i++)
        if (strncmp(option, ignored_prefixes[i], strlen(ignored_prefixes[i])) == 0)
            return true;
    return false;
}

static int set_setting(struct parsing *parsing, const char *name, const char *value)
{
    int rc = settings_set_text(&parsing->cli->config, SETTING_MOUNT, name, value,
                               parsing->why, parsing->why_size);

    if (rc == -ENOMEM)
        return no_memory(parsing);
    if (rc < 0) {
        parsing->rc = -EINVAL;
        return -1;
    }
    if (strcmp(name, "data") == 0)
        parsing->cli->data_given = true;
    return 0;
}

/* "h2:2379" behind "coord=etcd://h1:2379": the comma before it is one of a list of
 * hosts, which nobody wants to escape. */
static bool is_next_host(const struct parsing *parsing, const char *option)
{
    const char *port = strrchr(option, ':');

    return parsing->after_coord && strchr(option, '=') == NULL && port != NULL &&
           port != option && port[1] != '\0' &&
           strspn(port + 1, "0123456789") == strlen(port + 1);
}

static int add_host(struct parsing *parsing, const char *option)
{
    char *value = NULL;
    int rc;

    if (asprintf(&value, "%s,%s", parsing->cli->config.coord, option) < 0)
        return no_memory(parsing);
    rc = set_setting(parsing, "coord", value);
    free(value);
    return rc;
}

static int take_setting(struct parsing *parsing, const char *option)
{
    const char *equals = strchr(option, '=');
    char *name;
    int rc;

    if (equals == NULL && strcmp(option, "allow_other") == 0)
        return set_setting(parsing, option, "true");
    if (equals == NULL)
        return refuse(parsing,
                      "unknown mount option \"%s\" (settings are given as name=value; "
                      "topicfs --help lists them)",
                      option);
    name = strndup(option, (size_t)(equals - option));
    if (name == NULL)
        return no_memory(parsing);
    rc = set_setting(parsing, name, equals + 1);
    parsing->after_coord = strcmp(name, "coord") == 0;
    free(name);
    return rc;
}

/* One option of an -o list, with its escapes already resolved. */
static int take_mount_option(struct parsing *parsing, const char *option)
{
    static const char fsname[] = "fsname=";
    struct cli *cli = parsing->cli;
    const struct word *word = find_word(option);

    if (cli->command != CLI_MOUNT)
        return refuse(parsing, "-o is an option of \"topicfs mount\" only");
    if (option[0] == '\0')
        return 0;
    if (is_next_host(parsing, option))
        return add_host(parsing, option);
    parsing->after_coord = false;
    if (word != NULL)
        return word->use == WORD_PASS ? pass_to_fuse(parsing, option) : 0;
    if (is_ignored(option))
        return 0;
    if (strcmp(option, "remount") == 0)
        return refuse(parsing,
                      "a topicfs can't be remounted: unmount it, then mount it "
                      "with the new options");
    if (strcmp(option, "nonempty") == 0) {
        cli->nonempty = true;
        return 0;
    }
    if (strncmp(option, fsname, strlen(fsname)) == 0) {
        free(cli->fsname);
        cli->fsname = strdup(option + strlen(fsname));
        return cli->fsname == NULL ? no_memory(parsing) : 0;
    }
    return take_setting(parsing, option);
}

static int take_flag(struct parsing *parsing, const char *flag)
{
    struct cli *cli = parsing->cli;
    const struct {
        enum cli_command command;
        const char *brief, *full;
        bool *target;
    } flags[] = {
        {CLI_MOUNT, "-f", "--foreground", &cli->foreground},
        {CLI_CHECK, "-r", "--repair", &cli->repair},
        {CLI_UMOUNT, "-l", "--lazy", &cli->lazy},
        {CLI_UMOUNT, "-r", "--release", &cli->release},
    };

    if (strcmp(flag, "-h") == 0 || strcmp(flag, "--help") == 0) {
        cli->command = CLI_HELP;
        return 0;
    }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].command == cli->command &&
            (strcmp(flags[i].brief, flag) == 0 || strcmp(flags[i].full, flag) == 0)) {
            *flags[i].target = true;
            return 0;
        }
    return refuse(parsing, "unknown option \"%s\"", flag);
}

static int take_path(struct parsing *parsing, const char *path)
{
    struct cli *cli = parsing->cli;

    if (cli->path != NULL)
        return refuse(parsing, "one path is enough: \"%s\" is too many", path);
    if (path[0] == '\0')
        return refuse(parsing, "the path is empty");
    cli->path = strdup(path);
    return cli->path == NULL ? no_memory(parsing) : 0;
}

/* Called by fuse_opt_parse() for everything; 0 = taken, -1 = stop. */
static int take_argument(void *data, const char *arg, int key, struct fuse_args *unused)
{
    struct parsing *parsing = data;

    (void)unused;
    if (parsing->cli->command == CLI_HELP)
        return 0; /* --help answers whatever else was given */
    if (key == FUSE_OPT_KEY_NONOPT)
        return take_path(parsing, arg);
    if (arg[0] == '-')
        return take_flag(parsing, arg);
    return take_mount_option(parsing, arg);
}

static int find_command(struct parsing *parsing, const char *word)
{
    static const struct {
        const char *word;
        enum cli_command command;
    } commands[] = {
        {"mount", CLI_MOUNT}, {"umount", CLI_UMOUNT},   {"unmount", CLI_UMOUNT},
        {"check", CLI_CHECK}, {"help", CLI_HELP},       {"--help", CLI_HELP},
        {"-h", CLI_HELP},     {"version", CLI_VERSION}, {"--version", CLI_VERSION},
        {"-V", CLI_VERSION},
    };

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].word, word) == 0) {
            parsing->cli->command = commands[i].command;
            return 0;
        }
    return refuse(
        parsing,
        "unknown command \"%s\"; there are mount, umount, check, help, version", word);
}

/* fuse_opt drops any backslash: "\\t" would silently become the letter t. */
static int check_escapes(struct parsing *parsing, int argc, char *const argv[])
{
    for (int i = 2; i < argc; i++) {
        const char *at = argv[i];

        if (strcmp(argv[i - 1], "-o") != 0 && strncmp(at, "-o", 2) != 0)
            continue;
        while ((at = strchr(at, '\\')) != NULL) {
            if (at[1] != ',' && at[1] != '\\')
                return refuse(
                    parsing,
                    "\"%s\": a backslash stands before a comma or a backslash only "
                    "(a tab is written as the word tab)",
                    argv[i]);
            at += 2;
        }
    }
    return 0;
}

static int parse_arguments(struct parsing *parsing, int argc, char *const argv[])
{
    struct cli *cli = parsing->cli;
    /* argv[1], the command, stands where fuse_opt_parse() expects the program's name.
     */
    struct fuse_args args = FUSE_ARGS_INIT(argc - 1, (char **)argv + 1);
    static const struct fuse_opt no_templates[] = {FUSE_OPT_END};
    int rc;

    if (check_escapes(parsing, argc, argv) < 0)
        return parsing->rc;
    rc = fuse_opt_parse(&args, parsing, no_templates, take_argument);
    fuse_opt_free_args(&args);
    if (parsing->rc < 0)
        return parsing->rc;
    if (rc < 0)
        return refuse(parsing, "-o needs a list of options after it");
    if (cli->command != CLI_HELP && cli->path == NULL)
        return refuse(parsing, cli->command == CLI_CHECK ? "which data directory?"
                                                         : "which mount point?");
    return 0;
}

int cli_parse(struct cli *cli, int argc, char *const argv[], uid_t euid, char *why,
              size_t why_size)
{
    struct parsing parsing = {.cli = cli, .why = why, .why_size = why_size};

    memset(cli, 0, sizeof *cli);
    if (mount_config_defaults(&cli->config) < 0)
        (void)no_memory(&parsing);
    else if (argc < 2)
        (void)refuse(&parsing,
                     "what is to be done? There are mount, umount, check, help, "
                     "version");
    else
        (void)find_command(&parsing, argv[1]);
    if (parsing.rc < 0)
        return parsing.rc;

    cli->config.allow_other = euid == 0;
    if (cli->command == CLI_VERSION)
        return 0;
    if (cli->command == CLI_HELP) {
        if (argc == 3 && strcmp(argv[2], "config") == 0)
            cli->command = CLI_HELP_CONFIG;
        return 0;
    }
    (void)parse_arguments(&parsing, argc, argv);
    return parsing.rc;
}

void cli_free(struct cli *cli)
{
    for (size_t i = 0; i < cli->fuse_option_count; i++)
        free(cli->fuse_options[i]);
    free(cli->fuse_options);
    free(cli->fsname);
    free(cli->path);
    mount_config_free(&cli->config);
    memset(cli, 0, sizeof *cli);
}

static const char usage_text[] =
    "Usage:\n"
    "  topicfs mount [-f] [-o OPTIONS] MOUNTPOINT\n"
    "  topicfs umount [--lazy] [--release] MOUNTPOINT\n"
    "  topicfs check [--repair] DATADIR\n"
    "  topicfs help [config]\n"
    "  topicfs version\n"
    "\n"
    "mount    Mounts the message log of a data directory. Returns 0 once the mount\n"
    "         answers; the daemon goes on in the background and logs to topicfs.log "
    "in\n"
    "         the data directory.\n"
    "  -f, --foreground   stay in the foreground, log to standard error\n"
    "  -o NAME=VALUE,...  settings (below); also the usual words of mount(8) and "
    "fstab.\n"
    "                     A comma within a value is written \\,\n"
    "     nonempty        mount over a directory that has something in it\n"
    "     fsname=TEXT     what df and mount show as the source\n"
    "umount   Unmounts, and waits for the daemon to have stopped.\n"
    "  -l, --lazy         detach now, end when the last user of the mount has gone\n"
    "  -r, --release      also take the write protection off the mount point "
    "directory\n"
    "check    Verifies a data directory that is not mounted.\n"
    "  -r, --repair       repair what can be repaired, keeping every line it can\n"
    "  Exits with 0 clean, 1 repaired, 4 damage left, 8 could not run.\n"
    "\n"
    "Exit status: 0 done, 1 failed, 16 wrong usage; for check see there.\n"
    "\n"
    "Settings of a mount (-o):\n";

int cli_help(struct buf *out)
{
    buf_adds(out, usage_text);
    settings_help(out, SETTING_MOUNT);
    buf_adds(
        out,
        "\nSettings of a topic (config.json; with -o: defaults for new topics):\n");
    settings_help(out, SETTING_TOPIC);
    buf_adds(out, "\nSettings of a consumer group (config.json; with -o: defaults for "
                  "groups):\n");
    settings_help(out, SETTING_GROUP);
    return buf_error(out);
}

char *cli_user_data(const char *xdg, const char *home)
{
    char *path = NULL;
    int length = -1;

    if (xdg != NULL && xdg[0] == '/')
        length = asprintf(&path, "%s/topicfs", xdg);
    else if (home != NULL && home[0] == '/')
        length = asprintf(&path, "%s/.local/share/topicfs", home);
    return length < 0 ? NULL : path;
}
