/* frames.c - an ordinary CUDA program: a video stream goes through the device, frame by frame.
 *
 * The stream changes its resolution every few dozen frames, as adaptive streams do. Each frame goes
 * through buffers of its own, allocated and freed as it passes: the packet, the decoded frame, a
 * scratch copy for the filter, a preview, the encoded output. The last few frames are kept as
 * references, and now and then a preview is kept to the end. What comes back from the device goes
 * into a checksum on stdout; the time of the loop goes to stderr.
 *
 * What it leaves out: a real codec. The steps move bytes with cudaMemcpy and cudaMemset, so that it
 * needs no GPU compiler. It knows nothing of vramalloc.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tests/runtime/cuda_runtime_min.h"

enum {
    FRAMES = 480,
    REFERENCES = 6,     /* frames kept for prediction */
    PREVIEW_EVERY = 20, /* frames between two previews that are kept */
    PREVIEWS = FRAMES / PREVIEW_EVERY,
    STRIPS = 8, /* pieces in which a frame is sampled */
    WORDS = 1 << 16
};

struct picture {
    unsigned char *data; /* on the device; NULL: none */
    size_t width, bytes;
};

struct stream {
    uint64_t random, checksum;
    size_t level; /* of the ladder */
    unsigned long buffers, changes;
    struct picture reference[REFERENCES];
    struct picture preview[PREVIEWS];
    uint64_t packet[WORDS]; /* what arrives over the network */
    uint64_t output[WORDS]; /* what leaves */
};

static const struct {
    size_t width, height;
} ladder[] = {{426, 240}, {640, 360}, {854, 480}, {1280, 720}, {1920, 1080}, {2560, 1440}};

enum { LEVELS = sizeof(ladder) / sizeof(ladder[0]) };

static void must(cudaError_t result, const char *what)
{
    if (result == cudaSuccess)
        return;
    fprintf(stderr, "frames: %s: %s\n", what, cudaGetErrorString(result));
    exit(1);
}

static uint64_t random_next(struct stream *stream)
{
    stream->random ^= stream->random << 13;
    stream->random ^= stream->random >> 7;
    stream->random ^= stream->random << 17;
    return stream->random;
}

static unsigned char *buffer_new(struct stream *stream, size_t bytes)
{
    void *data = NULL;
    must(cudaMalloc(&data, bytes), "cudaMalloc");
    stream->buffers++;
    return data;
}

static void buffer_drop(unsigned char *data)
{
    must(cudaFree(data), "cudaFree");
}

static void device_copy(unsigned char *to, const unsigned char *from, size_t bytes)
{
    must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice), "cudaMemcpy");
}

/* One byte in `ratio` of the source, in strips from its whole height. Fills `to`. */
static void sample(unsigned char *to, const unsigned char *from, size_t from_bytes, size_t ratio)
{
    size_t strip = from_bytes / ratio / STRIPS;
    for (size_t i = 0; i < STRIPS; i++)
        device_copy(to + i * strip, from + i * (from_bytes / STRIPS), strip);
}

static void references_drop(struct stream *stream)
{
    for (size_t i = 0; i < REFERENCES; i++) {
        buffer_drop(stream->reference[i].data);
        stream->reference[i].data = NULL;
    }
}

/* One step up or down the ladder, now and then. */
static void resolution_change(struct stream *stream)
{
    if (random_next(stream) % 24 != 0)
        return;
    int up = random_next(stream) % 2 == 0;
    if ((up && stream->level == LEVELS - 1) || (!up && stream->level == 0))
        return;
    stream->level = up ? stream->level + 1 : stream->level - 1;
    stream->changes++;
    references_drop(stream);
}

static size_t packet_receive(struct stream *stream, size_t frame_bytes)
{
    size_t words = frame_bytes / 256 + random_next(stream) % (frame_bytes / 512);
    for (size_t i = 0; i < words; i++)
        stream->packet[i] = random_next(stream);
    return words * sizeof(uint64_t);
}

static struct picture decode(struct stream *stream, const struct picture *reference)
{
    struct picture frame = {.width = ladder[stream->level].width};
    frame.bytes = frame.width * ladder[stream->level].height * 3 / 2;
    size_t packet_bytes = packet_receive(stream, frame.bytes);
    unsigned char *packet = buffer_new(stream, packet_bytes);
    must(cudaMemcpy(packet, stream->packet, packet_bytes, cudaMemcpyHostToDevice), "upload");
    frame.data = buffer_new(stream, frame.bytes);
    if (reference->data != NULL)
        device_copy(frame.data, reference->data, frame.bytes);
    else
        must(cudaMemset(frame.data, 16, frame.bytes), "cudaMemset");
    device_copy(frame.data + random_next(stream) % (frame.bytes - packet_bytes), packet,
                packet_bytes);
    buffer_drop(packet);
    return frame;
}

/* Moves the picture down by a line, by way of a scratch copy. */
static void filter(struct stream *stream, const struct picture *frame)
{
    unsigned char *scratch = buffer_new(stream, frame->bytes);
    device_copy(scratch, frame->data, frame->bytes);
    device_copy(frame->data + frame->width, scratch, frame->bytes - frame->width);
    buffer_drop(scratch);
}

static void preview(struct stream *stream, size_t number, const struct picture *frame)
{
    unsigned char *small = buffer_new(stream, frame->bytes / 16);
    sample(small, frame->data, frame->bytes, 16);
    if (number % PREVIEW_EVERY == 0)
        stream->preview[number / PREVIEW_EVERY].data = small;
    else
        buffer_drop(small);
}

static void encode(struct stream *stream, const struct picture *frame)
{
    size_t strip = frame->bytes / 32 / STRIPS, words = strip * STRIPS / sizeof(uint64_t);
    unsigned char *output = buffer_new(stream, strip * STRIPS);
    sample(output, frame->data, frame->bytes, 32);
    must(cudaMemcpy(stream->output, output, words * sizeof(uint64_t), cudaMemcpyDeviceToHost),
         "download");
    buffer_drop(output);
    for (size_t i = 0; i < words; i++)
        stream->checksum = (stream->checksum ^ stream->output[i]) * 0x100000001b3u;
}

static void frame_pass(struct stream *stream, size_t number)
{
    resolution_change(stream);
    struct picture *oldest = &stream->reference[number % REFERENCES];
    struct picture *newest = &stream->reference[(number + REFERENCES - 1) % REFERENCES];
    struct picture frame = decode(stream, newest);
    filter(stream, &frame);
    preview(stream, number, &frame);
    encode(stream, &frame);
    buffer_drop(oldest->data);
    *oldest = frame;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(void)
{
    static struct stream stream = {.random = 0x9e3779b97f4a7c15, .level = LEVELS - 2};
    must(cudaFree(NULL), "the first call");
    double begin = seconds();
    for (size_t number = 0; number < FRAMES; number++)
        frame_pass(&stream, number);
    fprintf(stderr, "loop: %.1f ms\n", (seconds() - begin) * 1e3);
    printf("%d frames, %lu changes of resolution, %lu device buffers, checksum %016llx\n", FRAMES,
           stream.changes, stream.buffers, (unsigned long long)stream.checksum);
    return 0;
}
