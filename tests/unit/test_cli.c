/* The command line: commands, flags, mount options, what is refused and why. */
#include "fs/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARGS_MAX = 12 };

static char why[512];

/* Parses "topicfs" and the words given, as `euid`. */
static int parse_as(uid_t euid, struct cli *cli, const char *const *words)
{
    char *argv[ARGS_MAX] = {strdup("topicfs")};
    int argc = 1;
    int rc;

    for (; words[argc - 1] != NULL; argc++) {
        assert_true(argc < ARGS_MAX - 1);
        argv[argc] = strdup(words[argc - 1]);
    }
    why[0] = '\0';
    rc = cli_parse(cli, argc, argv, euid, why, sizeof why);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return rc;
}

#define PARSE(cli, ...) parse_as(0, cli, (const char *const[]){__VA_ARGS__, NULL})

#define ASSERT_REFUSED(text, ...)                                                      \
    do {                                                                               \
        struct cli refused;                                                            \
        assert_int_equal(PARSE(&refused, __VA_ARGS__), -EINVAL);                       \
        if (strstr(why, text) == NULL)                                                 \
            fail_msg("\"%s\" does not say \"%s\"", why, text);                         \
        cli_free(&refused);                                                            \
    } while (0)

static void test_commands(void **state)
{
    static const struct {
        const char *word;
        enum cli_command command;
    } plain[] = {
        {"help", CLI_HELP},       {"--help", CLI_HELP},       {"-h", CLI_HELP},
        {"version", CLI_VERSION}, {"--version", CLI_VERSION}, {"-V", CLI_VERSION},
    };
    struct cli cli;

    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        assert_int_equal(PARSE(&cli, plain[i].word), 0);
        assert_int_equal(cli.command, plain[i].command);
        cli_free(&cli);
    }
    assert_int_equal(PARSE(&cli, "help", "config"), 0);
    assert_int_equal(cli.command, CLI_HELP_CONFIG);
    cli_free(&cli);
    assert_int_equal(PARSE(&cli, "mount", "--help"), 0);
    assert_int_equal(cli.command, CLI_HELP);
    cli_free(&cli);
    assert_int_equal(PARSE(&cli, "unmount", "/mnt"), 0);
    assert_int_equal(cli.command, CLI_UMOUNT);
    cli_free(&cli);
}

static void test_flags_belong_to_commands(void **state)
{
    struct cli cli;

    (void)state;
    assert_int_equal(PARSE(&cli, "mount", "-f", "/mnt"), 0);
    assert_true(cli.foreground);
    assert_string_equal(cli.path, "/mnt");
    cli_free(&cli);
    assert_int_equal(PARSE(&cli, "check", "/data", "--repair"), 0);
    assert_true(cli.repair);
    assert_string_equal(cli.path, "/data");
    cli_free(&cli);
    assert_int_equal(PARSE(&cli, "umount", "--lazy", "--release", "m"), 0);
    assert_true(cli.lazy && cli.release);
    cli_free(&cli);
    assert_int_equal(PARSE(&cli, "umount", "--", "-odd"), 0);
    assert_string_equal(cli.path, "-odd");
    cli_free(&cli);

    ASSERT_REFUSED("--repair", "mount", "--repair", "/mnt");
    ASSERT_REFUSED("-f", "check", "-f", "/data");
    ASSERT_REFUSED("--lazyy", "umount", "--lazyy", "/mnt");
}

static void test_bad_calls_are_refused(void **state)
{
    struct cli cli;
    char name[] = "topicfs";
    char *argv[] = {name, NULL};

    (void)state;
    assert_int_equal(cli_parse(&cli, 1, argv, 0, why, sizeof why), -EINVAL);
    cli_free(&cli);
    ASSERT_REFUSED("mont", "mont", "/mnt");
    ASSERT_REFUSED("which mount point", "mount");
    ASSERT_REFUSED("which mount point", "umount");
    ASSERT_REFUSED("which data directory", "check");
    ASSERT_REFUSED("/b", "mount", "/a", "/b");
    ASSERT_REFUSED("empty", "mount", "");
    ASSERT_REFUSED("-o", "mount", "/mnt", "-o");
    ASSERT_REFUSED("-o", "umount", "/mnt", "-o", "ro");
}

static void test_settings_as_options(void **state)
{
    struct cli cli;

    (void)state;
    assert_int_equal(PARSE(&cli, "mount", "-o", "data=/srv/d,node=7",
                           "-oflush=os,retention_ms=1d", "/m"),
                     0);
    assert_string_equal(cli.config.data, "/srv/d");
    assert_true(cli.data_given);
    assert_int_equal(cli.config.node, 7);
    assert_int_equal(cli.config.topic.flush, FLUSH_OS);
    assert_int_equal(cli.config.topic.retention_ms, INT64_C(86400000));
    assert_int_equal(cli.fuse_option_count, 0);
    cli_free(&cli);

    assert_int_equal(PARSE(&cli, "mount", "/m"), 0);
    assert_false(cli.data_given);
    cli_free(&cli);

    ASSERT_REFUSED("no_such_setting", "mount", "-o", "no_such_setting=1", "/m");
    ASSERT_REFUSED("bogus", "mount", "-o", "ro,bogus", "/m");
    ASSERT_REFUSED("flush", "mount", "-o", "flush=sometimes", "/m");
    ASSERT_REFUSED("retention_ms", "mount", "-o", "retention_ms=soon", "/m");
    ASSERT_REFUSED("remount", "mount", "-o", "remount,ro", "/m");
}

static void test_comma_in_a_value(void **state)
{
    struct cli cli;

    (void)state;
    assert_int_equal(
        PARSE(&cli, "mount", "-o", "data=/srv/a\\,b,key_delimiter=\\,", "/m"), 0);
    assert_string_equal(cli.config.data, "/srv/a,b");
    assert_int_equal(cli.config.topic.key_delimiter, ',');
    cli_free(&cli);

    assert_int_equal(PARSE(&cli, "mount", "-odata=/srv/a\\\\b", "/m"), 0);
    assert_string_equal(cli.config.data, "/srv/a\\b");
    cli_free(&cli);
    ASSERT_REFUSED("backslash", "mount", "-o", "key_delimiter=\\t", "/m");

    /* The members of a store are a list; what follows it is an option again. */
    assert_int_equal(PARSE(&cli, "mount", "-o",
                           "coord=etcd://h1:2379,h2:2379,[::1]:23,node=7,ro", "/m"),
                     0);
    assert_string_equal(cli.config.coord, "etcd://h1:2379,h2:2379,[::1]:23");
    assert_int_equal(cli.config.node, 7);
    cli_free(&cli);
    ASSERT_REFUSED("h2:2379", "mount", "-o", "coord=etcd://h1:2379,ro,h2:2379", "/m");
    ASSERT_REFUSED("h2:x", "mount", "-o", "coord=etcd://h1:2379,h2:x", "/m");
    ASSERT_REFUSED("backslash", "mount", "-okey_delimiter=\\054", "/m");
}

static void test_words_of_mount(void **state)
{
    struct cli cli;

    (void)state;
    assert_int_equal(
        PARSE(&cli, "mount", "-o",
              "defaults,_netdev,nofail,noauto,user,relatime,x-systemd.automount,"
              "x-mount.mkdir=0700,comment=mine,async,ro,nosuid,nodev,noexec,"
              "noatime",
              "/m"),
        0);
    assert_int_equal(cli.fuse_option_count, 5);
    assert_string_equal(cli.fuse_options[0], "ro");
    assert_string_equal(cli.fuse_options[1], "nosuid");
    assert_string_equal(cli.fuse_options[2], "nodev");
    assert_string_equal(cli.fuse_options[3], "noexec");
    assert_string_equal(cli.fuse_options[4], "noatime");
    cli_free(&cli);

    assert_int_equal(PARSE(&cli, "mount", "-o", ",,nonempty,fsname=none,", "/m"), 0);
    assert_true(cli.nonempty);
    assert_string_equal(cli.fsname, "none");
    assert_int_equal(cli.fuse_option_count, 0);
    cli_free(&cli);
}

static void test_allow_other_follows_the_user(void **state)
{
    const char *const plain[] = {"mount", "/m", NULL};
    const char *const asked[] = {"mount", "-o", "allow_other", "/m", NULL};
    const char *const refused[] = {"mount", "-o", "allow_other=false", "/m", NULL};
    struct cli cli;

    (void)state;
    assert_int_equal(parse_as(0, &cli, plain), 0);
    assert_true(cli.config.allow_other);
    cli_free(&cli);
    assert_int_equal(parse_as(1000, &cli, plain), 0);
    assert_false(cli.config.allow_other);
    cli_free(&cli);
    assert_int_equal(parse_as(1000, &cli, asked), 0);
    assert_true(cli.config.allow_other);
    cli_free(&cli);
    assert_int_equal(parse_as(0, &cli, refused), 0);
    assert_false(cli.config.allow_other);
    cli_free(&cli);
}

static void assert_user_data(const char *xdg, const char *home, const char *expected)
{
    char *path = cli_user_data(xdg, home);

    if (expected == NULL)
        assert_null(path);
    else
        assert_string_equal(path, expected);
    free(path);
}

static void test_data_of_a_user(void **state)
{
    (void)state;
    assert_user_data("/x", "/home/u", "/x/topicfs");
    assert_user_data(NULL, "/home/u", "/home/u/.local/share/topicfs");
    assert_user_data("relative", "/home/u", "/home/u/.local/share/topicfs");
    assert_user_data("", NULL, NULL);
    assert_user_data(NULL, "here", NULL);
}

static void test_help_names_commands_and_settings(void **state)
{
    static const char *const expected[] = {
        "topicfs mount", "topicfs umount", "topicfs check", "--repair",
        "retention_ms",  "data",           "nonempty"};
    struct buf text;

    (void)state;
    buf_init(&text, 64 * 1024);
    assert_int_equal(cli_help(&text), 0);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_non_null(strstr(text.data, expected[i]));
    buf_free(&text);

    buf_init(&text, 100);
    assert_int_equal(cli_help(&text), -EMSGSIZE);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_flags_belong_to_commands),
        cmocka_unit_test(test_bad_calls_are_refused),
        cmocka_unit_test(test_settings_as_options),
        cmocka_unit_test(test_comma_in_a_value),
        cmocka_unit_test(test_words_of_mount),
        cmocka_unit_test(test_allow_other_follows_the_user),
        cmocka_unit_test(test_data_of_a_user),
        cmocka_unit_test(test_help_names_commands_and_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
