#include "replica/index.h"
#include "tests/unit/support/fake_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct batch sample(void)
{
    return (struct batch){.base_offset = INT64_C(5000000123),
                          .position = 0x7fffffff,
                          .message_count = 7,
                          .length = 0x01020304,
                          .timestamp_ms = 1764417600000,
                          .leader_epoch = -2,
                          .base_sequence = 99,
                          .producer_id = INT64_MAX,
                          .flags = 5,
                          .payload_hash = UINT64_C(0xfedcba9876543210)};
}

static void test_entry_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[INDEX_ENTRY_BYTES];
    struct batch batch = sample();
    struct batch back = {0};
    index_entry_encode(&batch, INT64_C(5000000000), bytes);
    assert_int_equal(bytes[0], 123); /* the layout of docs/format.md */
    assert_memory_equal(bytes + 4, "\xff\xff\xff\x7f\x07\x00\x00\x00\x04\x03\x02\x01",
                        12);
    assert_memory_equal(bytes + 40, "\x10\x32\x54\x76\x98\xba\xdc\xfe", 8);
    assert_int_equal(index_entry_decode(bytes, INT64_C(5000000000), &back), 0);
    uint8_t again[INDEX_ENTRY_BYTES];
    index_entry_encode(&back, INT64_C(5000000000), again);
    assert_memory_equal(again, bytes, sizeof again);
    assert_int_equal(back.base_offset, batch.base_offset);
    assert_int_equal(back.producer_id, batch.producer_id);
    assert_int_equal(back.leader_epoch, -2);
}

static void test_entry_any_bit_flipped(void **state)
{
    (void)state;
    uint8_t bytes[INDEX_ENTRY_BYTES];
    struct batch batch = sample();
    index_entry_encode(&batch, INT64_C(5000000000), bytes);
    for (int bit = 0; bit < INDEX_ENTRY_BYTES * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(index_entry_decode(bytes, INT64_C(5000000000), &batch),
                         E_DAMAGED);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    /* An entry of another segment does not pass either. */
    assert_int_equal(index_entry_decode(bytes, INT64_C(5000000001), &batch), E_DAMAGED);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(index_entry_decode(bytes, 0, &batch), E_DAMAGED);
}

static void test_header(void **state)
{
    (void)state;
    uint8_t bytes[INDEX_HEADER_BYTES];
    struct index_header header = {.flags = INDEX_COMPACTED,
                                  .topic_id = {.bytes = {9, 8, 7}},
                                  .base_offset = 42,
                                  .base_position = -100,
                                  .created_ms = 1234};
    struct index_header back;
    index_header_encode(&header, bytes);
    assert_memory_equal(bytes, "TFSINDX1\x01\x00\x00\x00\x01\x00\x00\x00", 16);
    assert_int_equal(index_header_decode(bytes, &back), 0);
    assert_int_equal(back.base_offset, 42);
    assert_int_equal(back.base_position, -100);
    assert_int_equal(back.flags, INDEX_COMPACTED);
    for (int bit = 0; bit < INDEX_HEADER_BYTES * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(index_header_decode(bytes, &back), E_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* ---- search ---------------------------------------------------------------- */

enum { ENTRIES = 300 };

/* Entry i: offset 10 + 3i, position 100i, time 1000 + i / 4. */
static int write_index(struct fake_disk *fake)
{
    const struct disk *disk = &fake->disk;
    int file = disk->ops->open(disk, "index", DISK_WRITE | DISK_CREATE);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint8_t bytes[INDEX_ENTRY_BYTES];
        struct batch batch = {.base_offset = 10 + 3 * (int64_t)i,
                              .position = 100 * (int64_t)i,
                              .message_count = 3,
                              .length = 100,
                              .timestamp_ms = 1000 + i / 4};
        index_entry_encode(&batch, 10, bytes);
        assert_int_equal(
            disk_write_all(disk, file, bytes, sizeof bytes, index_entry_at(i)), 0);
    }
    return file;
}

static void test_search(void **state)
{
    (void)state;
    struct fake_disk *fake = fake_disk_new(1);
    struct index_reader reader;
    struct index_spot spot;
    index_reader_init(&reader, &fake->disk, write_index(fake), 10, ENTRIES);
    for (int64_t i = 0; i < ENTRIES; i++) {
        for (int64_t within = 0; within < 3; within++) {
            assert_int_equal(
                index_search(&reader, INDEX_BY_OFFSET, 10 + 3 * i + within, &spot), 0);
            assert_int_equal(spot.low, i);
            assert_int_equal(spot.high, i + 1);
        }
        assert_int_equal(index_search(&reader, INDEX_BY_POSITION, 100 * i + 99, &spot),
                         0);
        assert_int_equal(spot.low, i);
    }
    assert_int_equal(index_search(&reader, INDEX_BY_OFFSET, 9, &spot), 0);
    assert_int_equal(spot.low, -1);
    assert_int_equal(spot.high, 0);
    assert_int_equal(index_search(&reader, INDEX_BY_TIME, 1001, &spot), 0);
    assert_int_equal(spot.low, 7);
    assert_int_equal(spot.high, 8);
    struct batch batch;
    assert_int_equal(index_reader_get(&reader, ENTRIES, &batch), E_DAMAGED);
    fake_disk_free(fake);
}

/* Around unreadable entries everything else is still found. */
static void test_search_around_damage(void **state)
{
    (void)state;
    struct fake_disk *fake = fake_disk_new(1);
    struct index_reader reader;
    struct index_spot spot;
    int file = write_index(fake);
    for (int64_t bad = 140; bad < 160; bad++)
        fake_disk_flip(fake, "index", index_entry_at((uint32_t)bad) * 8 + 77);
    index_reader_init(&reader, &fake->disk, file, 10, ENTRIES);
    for (int64_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(index_search(&reader, INDEX_BY_OFFSET, 10 + 3 * i, &spot), 0);
        bool bad = i >= 139 && i < 160;
        assert_int_equal(spot.low, bad ? 139 : i);
        assert_int_equal(spot.high, bad ? 160 : i + 1);
    }
    for (uint32_t i = 0; i < ENTRIES; i++)
        fake_disk_flip(fake, "index", index_entry_at(i) * 8);
    index_reader_init(&reader, &fake->disk, file, 10, 140);
    assert_int_equal(index_search(&reader, INDEX_BY_OFFSET, 100, &spot), 0);
    assert_int_equal(spot.low, -1);
    assert_int_equal(spot.high, 140);
    fake_disk_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry_round_trip),
        cmocka_unit_test(test_entry_any_bit_flipped),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_search_around_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
