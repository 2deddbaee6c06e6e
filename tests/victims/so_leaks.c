/* A library that loses a block, through a function that its caller has. */
#include <stddef.h>

int lost_in_it;

void lose_in_it(int (*allocate)(void **, size_t))
{
    void *block;
    lost_in_it = allocate(&block, 9000);
}
