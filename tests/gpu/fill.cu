/* fill.cu - a card filled to the last block: sizes in turn until the driver refuses, then the smallest alone. Then
 * every other block is freed, and the card filled again. Prints how many blocks there were each time.
 */
#include <cstdio>
#include <vector>

static const size_t sizes[] = {(size_t)200 << 20, (size_t)33 << 20, ((size_t)7 << 20) + 4096, ((size_t)1 << 20) + 12345,
                               (size_t)300 << 10, (size_t)64 << 10, 5000};
static std::vector<void *> blocks;

/* One of each size in turn; a size that is refused is left out from then on. Returns the bytes. */
static size_t fill()
{
    size_t taken = 0;
    bool refused[sizeof(sizes) / sizeof(sizes[0])] = {};
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            void *block;
            if (refused[i] || (i == 6 && !more)) /* the smallest would go on for long */
                continue;
            if (cudaMalloc(&block, sizes[i]) != cudaSuccess) {
                refused[i] = true;
                cudaGetLastError();
                continue;
            }
            blocks.push_back(block);
            taken += sizes[i];
            more = true;
        }
    }
    return taken;
}

int main()
{
    int failed = 0;
    size_t taken = fill();
    printf("filled: %zu blocks, %zu MiB\n", blocks.size(), taken >> 20);
    std::vector<void *> kept;
    for (size_t i = 0; i < blocks.size(); i++) {
        if (i % 2 == 0)
            failed += cudaFree(blocks[i]) != cudaSuccess;
        else
            kept.push_back(blocks[i]);
    }
    blocks = kept;
    taken = fill();
    printf("every other one freed, filled again: %zu blocks, %zu MiB more\n", blocks.size(), taken >> 20);
    for (void *block : blocks)
        failed += cudaFree(block) != cudaSuccess;
    printf("failed %d\n", failed);
    return failed != 0;
}
