/* test_metadata.c - records are zeroed, apart from each other, reused by size, and aligned. */
#include "unit.h"

#include "../../pool/metadata.h"

static void records_are_zeroed_and_apart(void **state)
{
    (void)state;
    struct metadata metadata = {0};
    uint8_t *records[5000];
    for (int i = 0; i < 5000; i++) {
        size_t bytes = 1 + (size_t)i * 7 % 3000;
        records[i] = metadata_take(&metadata, bytes);
        assert_non_null(records[i]);
        assert_int_equal((uintptr_t)records[i] % METADATA_GRAIN_BYTES, 0);
        for (size_t b = 0; b < bytes; b++)
            assert_int_equal(records[i][b], 0);
        memset(records[i], i & 0xff, bytes);
    }
    for (int i = 0; i < 5000; i++) {
        size_t bytes = 1 + (size_t)i * 7 % 3000;
        for (size_t b = 0; b < bytes; b++)
            assert_int_equal(records[i][b], i & 0xff);
        metadata_give(&metadata, records[i], bytes);
    }
    metadata_end(&metadata);
}

static void a_record_is_reused_zeroed(void **state)
{
    (void)state;
    struct metadata metadata = {0};
    uint8_t *first = metadata_take(&metadata, 100);
    memset(first, 0xff, 100);
    metadata_give(&metadata, first, 100);
    uint8_t *second = metadata_take(&metadata, 128);
    assert_ptr_equal(first, second);
    for (int b = 0; b < 128; b++)
        assert_int_equal(second[b], 0);
    metadata_end(&metadata);
}

static void large_tables_are_mapped_whole(void **state)
{
    (void)state;
    struct metadata metadata = {0};
    uint8_t *table = metadata_take(&metadata, 10 << 20);
    assert_non_null(table);
    table[(10 << 20) - 1] = 1;
    metadata_give(&metadata, table, 10 << 20);
    assert_null(metadata_take(&metadata, 0));
    assert_false(metadata.refused);
    assert_null(metadata_take(&metadata, SIZE_MAX / 2));
    assert_true(metadata.refused);
    metadata_end(&metadata);
}

static void chunks_double(void **state)
{
    (void)state;
    struct metadata metadata = {0};
    size_t last = 0, bytes = 0;
    int chunks = 0;
    for (int i = 0; i < 300000; i++) {
        assert_non_null(metadata_take(&metadata, 100));
        if (metadata.chunks->bytes != last) {
            assert_true(last == 0 || metadata.chunks->bytes == 2 * last);
            last = metadata.chunks->bytes;
            bytes += last;
            chunks++;
        }
    }
    assert_in_range(chunks, 5, 7); /* 37 MiB in chunks of 1, 2, 4, 8, 16 and 32 */
    assert_true(bytes < (size_t)64 << 20);
    metadata_end(&metadata);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_zeroed_and_apart),
        cmocka_unit_test(a_record_is_reused_zeroed),
        cmocka_unit_test(large_tables_are_mapped_whole),
        cmocka_unit_test(chunks_double),
    };
    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
