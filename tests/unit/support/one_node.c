#include "tests/unit/support/one_node.h"

#include "tests/unit/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void start(struct fixture *f)
{
    struct cluster_params params = {
        .config = &f->config,
        .store_dir = f->dir,
        .instance = "000102030405060708090a0b0c0d0e0f",
        .clock = &clock_real,
    };

    f->problems = params.problems = problems_new(&clock_real);
    assert_non_null(f->problems);
    assert_int_equal(cluster_open(&params, &f->cluster, f->why, sizeof(f->why)), 0);
}

void stop(struct fixture *f)
{
    cluster_close(f->cluster);
    problems_free(f->problems);
    f->cluster = NULL;
    f->problems = NULL;
}

int one_node_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f || mount_config_defaults(&f->config) != 0)
        return -1;
    scratch_make(f->dir, sizeof(f->dir));
    start(f);
    *state = f;
    return 0;
}

int one_node_teardown(void **state)
{
    static const char *const names[] = {"store.a", "store.b", "store.a.damaged",
                                        "store.b.damaged"};
    struct fixture *f = *state;
    char path[128];

    stop(f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
        unlink(path);
    }
    rmdir(f->dir);
    mount_config_free(&f->config);
    free(f);
    return 0;
}

cJSON *json(const char *text)
{
    cJSON *value = NULL;

    assert_int_equal(json_parse(text, strlen(text), &value), 0);
    return value;
}

int create(struct fixture *f, const char *name, const char *settings)
{
    cJSON *object = settings ? json(settings) : NULL;
    int rc = cluster_create_topic(f->cluster, name, object, 1000, 100, 0750, f->why,
                                  sizeof(f->why));

    cJSON_Delete(object);
    return rc;
}

int set_config(struct fixture *f, const char *name, const char *text)
{
    cJSON *object = json(text);
    int rc = cluster_set_config(f->cluster, name, object, f->why, sizeof(f->why));

    cJSON_Delete(object);
    return rc;
}

int admin(struct fixture *f, const char *operation, const char *text)
{
    cJSON *object = json(text);
    int rc = cluster_admin(f->cluster, operation, object, f->why, sizeof(f->why));

    cJSON_Delete(object);
    return rc;
}

const struct topic *topic(struct fixture *f, const char *name,
                          const struct cluster_snapshot **snapshot)
{
    *snapshot = cluster_snapshot_get(f->cluster);
    return cluster_snapshot_topic(*snapshot, name);
}

void expect_file(struct fixture *f, const char *path, const char *expected)
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    assert_int_equal(cluster_tree_read(f->cluster, path, &buf), 0);
    assert_string_equal(buf.data ? buf.data : "", expected);
    buf_free(&buf);
}

void expect_in_file(struct fixture *f, const char *path, const char *part)
{
    struct buf buf;

    buf_init(&buf, 1 << 20);
    assert_int_equal(cluster_tree_read(f->cluster, path, &buf), 0);
    assert_non_null(buf.data);
    assert_non_null(strstr(buf.data, part));
    buf_free(&buf);
}
