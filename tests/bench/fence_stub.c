/* fence_stub.c - stands in for pool/asymmetric.c where instructions are counted: valgrind refuses
 * membarrier, without which threads keep no blocks. One thread alone needs no fence, and none is on
 * the path of a hit, so what is counted is the library's own code. See pool/asymmetric.h.
 */
#include "../../pool/asymmetric.h"

bool asymmetric_ready(void)
{
    return true;
}

void asymmetric_fence_heavy(void)
{
}
