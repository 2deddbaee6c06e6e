/* test_size_class.c - every size up to the largest class rounds up to the smallest class that holds
 * it. */
#include "unit.h"

#include "../../pool/pool.h"
#include "../../pool/size_class.h"

static void every_size_has_its_class(void **state)
{
    (void)state;
    for (uint64_t bytes = 1; bytes <= SIZE_CLASS_MAX_BYTES; bytes++) {
        int index = size_class_of(bytes);
        assert_in_range(index, 0, SIZE_CLASS_COUNT - 1);
        assert_true(size_class_get(index).slot_bytes >= bytes);
        assert_true(index == 0 || size_class_get(index - 1).slot_bytes < bytes);
    }
    assert_int_equal(size_class_get(SIZE_CLASS_COUNT - 1).slot_bytes, SIZE_CLASS_MAX_BYTES);
}

static void waste_is_bounded(void **state)
{
    (void)state;
    for (uint64_t bytes = 1; bytes <= SIZE_CLASS_MAX_BYTES; bytes++) {
        uint64_t waste = size_class_get(size_class_of(bytes)).slot_bytes - bytes;
        assert_true(waste < 512);
    }
}

static void slabs_have_no_tails(void **state)
{
    (void)state;
    for (int i = 0; i < SIZE_CLASS_COUNT; i++) {
        struct size_class size = size_class_get(i);
        assert_int_equal(size.slot_bytes % POOL_MIN_BLOCK_BYTES, 0);
        assert_int_equal(size.slab_pages * POOL_PAGE_BYTES, size.slots * size.slot_bytes);
        assert_in_range(size.slots * size.slot_bytes, SIZE_CLASS_SLAB_BYTES * 7 / 8,
                        SIZE_CLASS_SLAB_BYTES);
    }
}

static void every_byte_is_in_its_slot(void **state)
{
    (void)state;
    for (int i = 0; i < SIZE_CLASS_COUNT; i++) {
        struct size_class size = size_class_get(i);
        assert_int_equal(size.slots, SIZE_CLASS_SLAB_BYTES / size.slot_bytes);
        for (uint32_t offset = 0; offset < size.slots * size.slot_bytes; offset++)
            if (size_class_slot(i, offset) != offset / size.slot_bytes)
                fail_msg("class %d, offset %u", i, offset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_its_class),
        cmocka_unit_test(waste_is_bounded),
        cmocka_unit_test(slabs_have_no_tails),
        cmocka_unit_test(every_byte_is_in_its_slot),
    };
    return cmocka_run_group_tests_name("size_class", tests, NULL, NULL);
}
