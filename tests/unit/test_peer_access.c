/* The key that nodes of a cluster share, and when there has to be one. */
#include "replica/peer_access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/topicfs-key-XXXXXX";

static int make_config(void **state)
{
    static struct mount_config config;
    assert_int_equal(mount_config_defaults(&config), 0);
    *state = &config;
    return 0;
}

static int remove_config(void **state)
{
    mount_config_free(*state);
    (void)unlink(path);
    return 0;
}

static void set(char **field, const char *text)
{
    free(*field);
    *field = strdup(text);
    assert_non_null(*field);
}

static int read_key(struct mount_config *config, const char *text, size_t length,
                    char key[PEER_KEY_MAX + 1])
{
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), (ssize_t)length);
    (void)close(fd);
    set(&config->cluster_key, path);
    int rc = peer_access_key(config, key);
    (void)unlink(path);
    return rc;
}

static void test_key(void **state)
{
    struct mount_config *config = *state;
    char key[PEER_KEY_MAX + 1];
    char longest[PEER_KEY_MAX + 2];
    memset(longest, 'k', sizeof longest);
    assert_int_equal(peer_access_key(config, key), 0);
    assert_string_equal(key, "");
    assert_int_equal(read_key(config, "0123456789abcdef\n", 17, key), 1);
    assert_string_equal(key, "0123456789abcdef");
    assert_int_equal(read_key(config, "0123456789abcde\n", 16, key), -EINVAL);
    assert_int_equal(read_key(config, "0123456789 abcdef", 17, key), -EINVAL);
    assert_int_equal(read_key(config, "0123456789abcdef\nmore", 21, key), -EINVAL);
    assert_int_equal(read_key(config, longest, PEER_KEY_MAX, key), 1);
    assert_int_equal(read_key(config, longest, PEER_KEY_MAX + 1, key), -EINVAL);
    set(&config->cluster_key, "/nonexistent/key");
    assert_int_equal(peer_access_key(config, key), -ENOENT);
}

static void test_who_suffices(void **state)
{
    struct mount_config *config = *state;
    set(&config->listen, "0.0.0.0:9640");
    assert_false(peer_access_suffices(config));
    set(&config->advertise, "127.0.0.1:9640");
    assert_true(peer_access_suffices(config));
    set(&config->advertise, "node1:9640");
    assert_false(peer_access_suffices(config));
    set(&config->cluster_key, "/etc/topicfs/key");
    assert_true(peer_access_suffices(config));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_key, make_config, remove_config),
        cmocka_unit_test_setup_teardown(test_who_suffices, make_config, remove_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
