/* The error table: each code has one errno, one name, one text, and wire values are
 * Kafka's. */
#include "coord/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const int codes[] = {
#define X(name, code, err, wire, text) (code),
    TOPICFS_ERRORS(X)
#undef X
};

enum { COUNT = sizeof codes / sizeof codes[0] };

static void test_domain_codes(void **state)
{
    (void)state;
    assert_int_equal(err_errno(E_MESSAGE_TOO_LARGE), EMSGSIZE);
    assert_int_equal(err_errno(E_NOT_ENOUGH_REPLICAS), EROFS);
    assert_int_equal(err_errno(E_NO_LEADER), EHOSTUNREACH);
    assert_int_equal(err_errno(E_COMMIT_TIMEOUT), ETIMEDOUT);
    assert_int_equal(err_errno(E_TOPIC_DELETED), ESTALE);
    assert_int_equal(err_errno(E_READ_ONLY), EPERM);
    assert_int_equal(err_wire(E_MESSAGE_TOO_LARGE), 10);
    assert_int_equal(err_wire(E_READ_ONLY), 1007);
    assert_string_equal(err_name(E_MESSAGE_TOO_LARGE), "MESSAGE_TOO_LARGE");
    assert_string_equal(err_name(E_READ_ONLY), "READ_ONLY");
    assert_string_equal(err_text(E_TOPIC_EXISTS), "the topic exists");
}

static void test_every_code_is_distinct(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(codes[i] < -1000);
        assert_true(err_errno(codes[i]) > 0);
        assert_string_not_equal(err_name(codes[i]), "errno");
        assert_true(strlen(err_text(codes[i])) > 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(codes[i], codes[j]);
            assert_string_not_equal(err_name(codes[i]), err_name(codes[j]));
        }
    }
}

static void test_plain_errnos(void **state)
{
    (void)state;
    assert_int_equal(err_errno(-ENOSPC), ENOSPC);
    assert_int_equal(err_wire(-ENOSPC), -1);
    assert_string_equal(err_name(-ENOSPC), "errno");
    assert_string_equal(err_text(-ENOSPC), "No space left on device");
    assert_int_equal(err_errno(-999), 999);
    assert_string_equal(err_text(-999), "unknown error");
}

static void test_success(void **state)
{
    (void)state;
    assert_int_equal(err_errno(0), 0);
    assert_int_equal(err_errno(17), 0);
    assert_int_equal(err_wire(0), 0);
    assert_string_equal(err_text(0), "success");
}

static void test_unknown_codes(void **state)
{
    (void)state;
    /* A code that this build doesn't know must still be an errno that fits a reply. */
    assert_int_equal(err_errno(-1000), EIO);
    assert_int_equal(err_errno(-99999), EIO);
    assert_int_equal(err_errno(INT32_MIN), EIO);
    assert_int_equal(err_wire(-99999), -1);
    assert_string_equal(err_text(-99999), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domain_codes),
        cmocka_unit_test(test_every_code_is_distinct),
        cmocka_unit_test(test_plain_errnos),
        cmocka_unit_test(test_success),
        cmocka_unit_test(test_unknown_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
