/* The man page repeats what the code knows: it must say the same. (docs/config.md is
 * compared in test_settings.c.) */
#include "fs/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FILE_BYTES_MAX = 256 * 1024 };

/* The text of a file, by its path from the top of the sources; the caller frees it. */
static char *read_source(const char *path)
{
    char *name = NULL, *text = malloc(FILE_BYTES_MAX);
    int top = (int)(strstr(__FILE__, "tests/unit/") - __FILE__);
    FILE *file;
    size_t n;

    assert_non_null(text);
    assert_true(asprintf(&name, "%.*s%s", top, __FILE__, path) > 0);
    file = fopen(name, "re");
    if (file == NULL)
        fail_msg("can't open %s", name);
    n = fread(text, 1, FILE_BYTES_MAX - 1, file);
    assert_true(n > 0 && n < FILE_BYTES_MAX - 1);
    text[n] = '\0';
    assert_int_equal(fclose(file), 0);
    free(name);
    return text;
}

static void render(int (*fn)(struct buf *out), struct buf *out)
{
    buf_init(out, FILE_BYTES_MAX);
    assert_int_equal(fn(out), 0);
}

/* Every setting is a row "| `name` |" of the Markdown, and a ".B name" of the page. */
static void test_man_page_has_every_setting(void **state)
{
    char *page = read_source("docs/topicfs.8");
    struct buf text;
    int settings = 0;

    (void)state;
    render(settings_markdown, &text);
    for (const char *at = text.data; (at = strstr(at, "\n| `")) != NULL; at++) {
        const char *name = at + strlen("\n| `");
        char wanted[128];

        if (name[strcspn(name, "`") + 1] != ' ')
            continue;
        assert_true(snprintf(wanted, sizeof wanted, "\n.TP\n.B %.*s\n",
                             (int)strcspn(name, "`"), name) < (int)sizeof wanted);
        if (strstr(page, wanted) == NULL)
            fail_msg("docs/topicfs.8 has no entry \"%s\"", wanted);
        settings++;
    }
    assert_true(settings > 20);
    buf_free(&text);
    free(page);
}

/* And the other way round: nothing in the two lists that is no setting. */
static void test_man_page_has_no_other_setting(void **state)
{
    char *page = read_source("docs/topicfs.8");
    const char *end = strstr(page, ".SH THE MOUNT POINT");
    struct buf text;

    (void)state;
    render(settings_markdown, &text);
    assert_non_null(end);
    for (const char *at = strstr(page, ".SH SETTINGS OF A MOUNT");
         (at = strstr(at, "\n.TP\n.B ")) != NULL && at < end; at++) {
        const char *name = at + strlen("\n.TP\n.B ");
        char wanted[128];

        assert_true(snprintf(wanted, sizeof wanted, "\n| `%.*s` |",
                             (int)strcspn(name, "\n"), name) < (int)sizeof wanted);
        if (strstr(text.data, wanted) == NULL)
            fail_msg("docs/topicfs.8 describes \"%s\", which is no setting", wanted);
    }
    buf_free(&text);
    free(page);
}

static void test_man_page_has_every_flag_of_the_help(void **state)
{
    static const char *const flags[] = {
        "\\-f",         "\\-\\-foreground", "\\-\\-lazy", "\\-\\-release",
        "\\-\\-repair", "nonempty",         "fsname"};
    char *page = read_source("docs/topicfs.8");

    (void)state;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strstr(page, flags[i]) == NULL)
            fail_msg("docs/topicfs.8 lacks %s", flags[i]);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_man_page_has_every_setting),
        cmocka_unit_test(test_man_page_has_no_other_setting),
        cmocka_unit_test(test_man_page_has_every_flag_of_the_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
