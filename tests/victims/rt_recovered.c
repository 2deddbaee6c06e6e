/* An allocation that the pool gets only at its second try leaves no error behind. */
#include "victim.h"

int main(void)
{
    void *a;
    MUST(cudaFree(0));
    SHOW(cudaMalloc(&a, 1000));
    SHOW_LAST();
    SHOW(cudaFree(a));
    return 0;
}
