/* slide.c - an ordinary CUDA program: a scanned microscope slide becomes the input of a network.
 *
 * A needle biopsy, scanned tile by tile: a strip of tissue from top to bottom, glass on both sides.
 * Every tile is uploaded and kept on the device, since what counts as tissue is known only when the
 * last one has been seen: the threshold lies between the darkest and the brightest. Then the glass
 * is dropped, and one array is made that holds the tissue as 16-bit numbers. It ends with the first
 * error, as most programs do.
 *
 * What it leaves out: a real scanner and a real network. Pixels are made up, and the conversion
 * moves bytes with cudaMemcpy, so that it needs no GPU compiler. It knows nothing of vramalloc.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../tests/runtime/cuda_runtime_min.h"

enum {
    SIDE = 608, /* pixels */
    TILE_BYTES = SIDE * SIDE * 3,
    COLUMNS = 80,
    ROWS = 14,         /* if the command line names no number */
    ROWS_MAX = 100000, /* 8 TiB */
    LINE_BYTES = SIDE * 3
};

struct slide {
    unsigned char *(*tile)[COLUMNS]; /* on the device */
    unsigned char (*shade)[COLUMNS]; /* of each tile: 0 dark to 255 bright */
    size_t rows, kept;
    unsigned char *input; /* on the device */
};

static void must(cudaError_t result, const char *what, size_t number, size_t of)
{
    if (result == cudaSuccess)
        return;
    if (of > 0)
        fprintf(stderr, "slide: %s %zu of %zu: %s\n", what, number, of, cudaGetErrorString(result));
    else
        fprintf(stderr, "slide: %s: %s\n", what, cudaGetErrorString(result));
    exit(1);
}

/* The strip is 32 tiles wide, and its left edge wanders. */
static int is_strip(size_t row, size_t column)
{
    size_t left = 20 + (row * 7) % 11;
    return column >= left && column < left + 32;
}

static void tile_read(struct slide *slide, size_t row, size_t column)
{
    static unsigned char pixels[TILE_BYTES];
    size_t number = row * COLUMNS + column + 1, of = slide->rows * COLUMNS;
    unsigned char shade = (unsigned char)((is_strip(row, column) ? 90 : 235) + number % 7);
    for (size_t i = 0; i < LINE_BYTES; i++)
        pixels[i] = (unsigned char)(shade + i % 5);
    void *tile = NULL;
    must(cudaMalloc(&tile, TILE_BYTES), "tile", number, of);
    must(cudaMemcpy(tile, pixels, LINE_BYTES, cudaMemcpyHostToDevice), "upload", number, of);
    slide->tile[row][column] = tile;
    slide->shade[row][column] = shade;
}

static unsigned threshold(const struct slide *slide)
{
    unsigned low = 255, high = 0;
    for (size_t row = 0; row < slide->rows; row++)
        for (size_t column = 0; column < COLUMNS; column++) {
            unsigned shade = slide->shade[row][column];
            low = shade < low ? shade : low;
            high = shade > high ? shade : high;
        }
    return (low + high) / 2;
}

static void glass_drop(struct slide *slide)
{
    unsigned limit = threshold(slide);
    for (size_t row = 0; row < slide->rows; row++)
        for (size_t column = 0; column < COLUMNS; column++) {
            if (slide->shade[row][column] < limit) {
                slide->kept++;
                continue;
            }
            must(cudaFree(slide->tile[row][column]), "drop", 0, 0);
            slide->tile[row][column] = NULL;
        }
}

/* All tissue in one array, each byte of a tile as two; the tiles go. */
static void input_make(struct slide *slide)
{
    size_t bytes = slide->kept * TILE_BYTES * 2, at = 0;
    char what[64];
    void *input = NULL;
    snprintf(what, sizeof(what), "the network's input of %zu MiB", bytes >> 20);
    must(cudaMalloc(&input, bytes), what, 0, 0);
    slide->input = input;
    for (size_t row = 0; row < slide->rows; row++)
        for (size_t column = 0; column < COLUMNS; column++) {
            unsigned char *tile = slide->tile[row][column];
            if (tile == NULL)
                continue;
            must(cudaMemcpy(slide->input + at, tile, LINE_BYTES, cudaMemcpyDeviceToDevice), "copy",
                 0, 0);
            must(cudaFree(tile), "drop", 0, 0);
            at += (size_t)TILE_BYTES * 2;
        }
}

static uint64_t input_sum(const struct slide *slide)
{
    static unsigned char line[LINE_BYTES];
    uint64_t sum = 0;
    for (size_t i = 0; i < slide->kept; i++) {
        must(
            cudaMemcpy(line, slide->input + i * TILE_BYTES * 2, LINE_BYTES, cudaMemcpyDeviceToHost),
            "download", 0, 0);
        for (size_t k = 0; k < LINE_BYTES; k++)
            sum = (sum ^ line[k]) * 0x100000001b3u;
    }
    return sum;
}

int main(int argc, char **argv)
{
    struct slide slide = {.rows = argc > 1 ? strtoul(argv[1], NULL, 10) : ROWS};
    if (slide.rows == 0 || slide.rows > ROWS_MAX) {
        fprintf(stderr, "usage: slide [ROWS]\n");
        return 2;
    }
    slide.tile = calloc(slide.rows, sizeof(*slide.tile));
    slide.shade = calloc(slide.rows, sizeof(*slide.shade));
    if (slide.tile == NULL || slide.shade == NULL)
        return 1;
    for (size_t row = 0; row < slide.rows; row++)
        for (size_t column = 0; column < COLUMNS; column++)
            tile_read(&slide, row, column);
    printf("%zu tiles read, %.0f MiB of pixels\n", slide.rows * COLUMNS,
           (double)(slide.rows * COLUMNS) * TILE_BYTES / (1 << 20));
    fflush(stdout);
    glass_drop(&slide);
    input_make(&slide);
    printf("%zu tiles of tissue, checksum %016llx\n", slide.kept,
           (unsigned long long)input_sum(&slide));
    free(slide.tile);
    free(slide.shade);
    return 0;
}
