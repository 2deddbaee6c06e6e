/* test_page_map.c - every address of a range leads to its segment, and no other does. */
#include "unit.h"

#include "../../pool/backing.h"
#include "../../pool/page_map.h"

static struct segment *mark(int n)
{
    static char marks[8];
    return (struct segment *)(void *)&marks[n];
}

static void ranges_are_found_exactly(void **state)
{
    (void)state;
    static const uint64_t bases[] = {2 * MIB, (uint64_t)1 << 33, ((uint64_t)1 << 45) - 2 * MIB,
                                     ((uint64_t)1 << 57) - 64 * MIB};
    for (int i = 0; i < 4; i++) {
        uint64_t bytes = 32 * MIB;
        assert_true(page_map_reserve(bases[i], bytes));
        page_map_set(bases[i], bytes, mark(i));
        assert_ptr_equal(page_map_get(bases[i]), mark(i));
        assert_ptr_equal(page_map_get(bases[i] + bytes - 1), mark(i));
        assert_null(page_map_get(bases[i] - 1));
        assert_null(page_map_get(bases[i] + bytes));
        page_map_set(bases[i], bytes, NULL);
        assert_null(page_map_get(bases[i] + bytes / 2));
    }
}

static void beyond_the_address_space_is_nobodys(void **state)
{
    (void)state;
    assert_null(page_map_get(0));
    assert_null(page_map_get(UINT64_MAX));
    assert_null(page_map_get((uint64_t)1 << 57));
    assert_false(page_map_reserve((uint64_t)1 << 57, 2 * MIB));
    assert_false(page_map_reserve(((uint64_t)1 << 57) - 2 * MIB, 4 * MIB));
    assert_false(page_map_reserve(UINT64_MAX - 2 * MIB + 1, 4 * MIB));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_found_exactly),
        cmocka_unit_test(beyond_the_address_space_is_nobodys),
    };
    return cmocka_run_group_tests_name("page_map", tests, NULL, NULL);
}
