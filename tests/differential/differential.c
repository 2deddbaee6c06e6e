/* differential.c - runs the subjects of the differential test, and holds what they share.
 *
 * usage: differential              every subject, each in a process of its own
 *        differential SUBJECT      one
 *        differential list         their names
 *
 * Exit 0 also where a call failed: what matters is that two logs are the same. A subject that ends
 * by a signal is a line of the log.
 *
 * What it leaves out: comparing, which is the script's work (tests/differential/run).
 */
#include "differential.h"

#include <stdarg.h>

struct driver d;

static const struct subject subjects[] = {
#ifdef WITH_RUNTIME
    {"runtime_names", runtime_names},
    {"runtime_allocate", runtime_allocate},
    {"runtime_pointers", runtime_pointers},
    {"runtime_copies", runtime_copies},
    {"runtime_ends", runtime_ends},
    {"runtime_unified", runtime_unified},
    {"runtime_errors", runtime_errors},
    {"runtime_async", runtime_async},
    {"runtime_pool", runtime_pool},
    {"runtime_capture", runtime_capture},
    {"runtime_threads", runtime_threads},
    {"runtime_ipc", runtime_ipc},
    {"runtime_reset", runtime_reset},
    {"runtime_devices", runtime_devices},
    {"runtime_fault", runtime_fault},
    {"runtime_callback", runtime_callback},
    {"runtime_fork", runtime_fork},
#endif
    {"driver_allocate", driver_allocate},
    {"driver_ranges", driver_ranges},
    {"driver_attributes", driver_attributes},
    {"driver_handles", driver_handles},
    {"driver_advice", driver_advice},
    {"driver_copies", driver_copies},
    {"driver_ends", driver_ends},
    {"driver_beyond", driver_beyond},
    {"driver_unified", driver_unified},
    {"driver_textures", driver_textures},
    {"driver_async", driver_async},
    {"driver_pool", driver_pool},
    {"driver_capture", driver_capture},
    {"driver_threads", driver_threads},
    {"driver_contexts", driver_contexts},
    {"driver_primary", driver_primary},
    {"driver_peers", driver_peers},
    {"driver_fault", driver_fault},
    {"driver_ipc", driver_ipc},
    {"driver_numbers", driver_numbers},
};
enum { SUBJECTS = sizeof(subjects) / sizeof(subjects[0]) };

static const char *subject_name = "?";
static char scope_text[200];
static const char *program;

/* --- the log --- */

void scope(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(scope_text, sizeof(scope_text), format, arguments);
    va_end(arguments);
}

void say(const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    printf("%s, %s: %s\n", subject_name, scope_text, text);
}

/* --- names for addresses --- */

struct name {
    char text[40];
    CUdeviceptr address;
    size_t bytes;
    bool ended;
};
static struct name names[4096];
static int name_count;

void block_named(const char *name, CUdeviceptr address, size_t bytes)
{
    if (address == 0 || name_count == (int)(sizeof(names) / sizeof(names[0])))
        return;
    struct name *entry = &names[name_count++];
    snprintf(entry->text, sizeof(entry->text), "%s", name);
    entry->address = address;
    entry->bytes = bytes;
}

void block_ended(CUdeviceptr address)
{
    for (int i = 0; i < name_count; i++)
        if (names[i].address == address)
            names[i].ended = true;
}

const char *where(CUdeviceptr address)
{
    static __thread char texts[8][80];
    static __thread int next;
    char *text = texts[next++ % 8];
    if (address == 0)
        return "NULL";
    for (int ended = 0; ended < 2; ended++)
        for (int i = name_count - 1; i >= 0; i--)
            if (names[i].ended == ended && address - names[i].address < names[i].bytes) {
                snprintf(text, sizeof(texts[0]), "%s%s+%llu", ended ? "freed " : "", names[i].text,
                         (unsigned long long)(address - names[i].address));
                return text;
            }
    return "elsewhere";
}

CUdeviceptr block_make(const char *name, size_t bytes)
{
    CUdeviceptr address;
    MUST(d.cuMemAlloc(&address, bytes));
    block_named(name, address, bytes);
    return address;
}

/* --- the driver --- */

#ifdef WITH_RUNTIME
#    define TEXT(name)  TEXT_(name)
#    define TEXT_(name) #    name

void driver_bind(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        printf("no libcuda.so.1\n");
        exit(4);
    }
#    define FUNCTION(name) d.name = (__typeof__(name) *)dlsym(library, TEXT(name));
#    include "functions.def"
#    undef FUNCTION
}

void context_make(void)
{
    MUST(cudaFree(0));
}
#else
#    define FUNCTION(name) extern __typeof__(name) name __attribute__((weak));
#    include "functions.def"
#    undef FUNCTION

void driver_bind(void)
{
#    define FUNCTION(name) d.name = name;
#    include "functions.def"
#    undef FUNCTION
}

void context_make(void)
{
    CUdevice device;
    CUcontext context;
    MUST(cuInit(0));
    MUST(d.cuDeviceGet(&device, 0));
    MUST(d.cuDevicePrimaryCtxRetain(&context, device));
    MUST(d.cuCtxSetCurrent(context));
}
#endif

static CUdeviceptr mapped_make(size_t bytes)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = properties.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    if (!HAS(cuMemCreate) || d.cuMemCreate(&handle, bytes, &properties, 0) != CUDA_SUCCESS)
        return 0;
    MUST(d.cuMemAddressReserve(&address, bytes, 0, 0, 0));
    MUST(d.cuMemMap(address, bytes, 0, handle, 0));
    MUST(d.cuMemSetAccess(address, bytes, &access, 1));
    return address;
}

static CUdeviceptr explicit_pool_block(size_t bytes)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr address;
    if (!HAS(cuMemPoolCreate) || d.cuMemPoolCreate(&pool, &properties) != CUDA_SUCCESS ||
        d.cuMemAllocFromPoolAsync(&address, bytes, pool, NULL) != CUDA_SUCCESS)
        return 0;
    MUST(d.cuCtxSynchronize());
    return address;
}

int foreign_make(struct foreign list[FOREIGN_MAX])
{
    static char variable[4096], registered[65536] __attribute__((aligned(4096)));
    CUdeviceptr managed = 0;
    void *pinned = NULL, *mapped = NULL;
    int count = 0;
    list[count++] = (struct foreign){"NULL", 0, 0};
    list[count++] = (struct foreign){"no memory", 0x1000, 16};
    list[count++] = (struct foreign){"the last address", ~(CUdeviceptr)0, 0};
    list[count++] = (struct foreign){"variable", ADDRESS(variable), sizeof(variable)};
    if (HAS(cuMemHostRegister) && !d.cuMemHostRegister(registered, sizeof(registered), 0))
        list[count++] = (struct foreign){"registered", ADDRESS(registered), sizeof(registered)};
    if (HAS(cuMemAllocHost) && !d.cuMemAllocHost(&pinned, 8192))
        list[count++] = (struct foreign){"pinned", ADDRESS(pinned), 8192};
    if (HAS(cuMemHostAlloc) && !d.cuMemHostAlloc(&mapped, 8192, CU_MEMHOSTALLOC_DEVICEMAP))
        list[count++] = (struct foreign){"host mapped", ADDRESS(mapped), 8192};
    if (HAS(cuMemAllocManaged) && !d.cuMemAllocManaged(&managed, 8192, CU_MEM_ATTACH_GLOBAL))
        list[count++] = (struct foreign){"managed", managed, 8192};
    list[count++] = (struct foreign){"mapped", mapped_make(2 * MIB), 2 * MIB};
    list[count++] = (struct foreign){"explicit pool", explicit_pool_block(1000), 1000};
    for (int i = 0; i < count; i++)
        block_named(list[i].kind, list[i].address, list[i].bytes);
    return count;
}

/* --- threads and processes --- */

void in_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, function, argument));
    pthread_join(thread, NULL);
}

/* Copies the lines of a process into the log. Returns how it ended. */
static int lines_of(pid_t child, int from, const char *prefix)
{
    char line[800];
    int status;
    FILE *lines = fdopen(from, "r");
    while (fgets(line, sizeof(line), lines) != NULL)
        printf("%s%s", prefix, line);
    fclose(lines);
    waitpid(child, &status, 0);
    return status;
}

static pid_t started(char *const arguments[], bool plain, int *from)
{
    int ends[2];
    MUST(pipe2(ends, O_CLOEXEC));
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        if (plain) {
            char *bare[4096];
            int count = 0;
            for (char **each = environ; *each != NULL && count < 4095; each++)
                if (strncmp(*each, "LD_PRELOAD=", 11) != 0)
                    bare[count++] = *each;
            bare[count] = NULL;
            execve(program, arguments, bare);
        } else {
            execve(program, arguments, environ);
        }
        _exit(127);
    }
    close(ends[1]);
    *from = ends[0];
    return child;
}

void in_child(bool plain, const char *what, const char *argument, const char *more)
{
    int from;
    char prefix[300];
    char *arguments[] = {(char *)program, (char *)what, (char *)argument, (char *)more, NULL};
    snprintf(prefix, sizeof(prefix), "%s, %s, in a %s process: ", subject_name, scope_text,
             plain ? "plain" : "like");
    pid_t child = started(arguments, plain, &from);
    int status = lines_of(child, from, prefix);
    if (status != 0)
        say("the %s process ended with %d", plain ? "plain" : "like", status);
}

static int every_subject(void)
{
    for (int i = 0; i < SUBJECTS; i++) {
        int from;
        char *arguments[] = {(char *)program, (char *)subjects[i].name, NULL};
        pid_t child = started(arguments, false, &from);
        int status = lines_of(child, from, "");
        printf("%s, end: %s %d\n", subjects[i].name, WIFSIGNALED(status) ? "signal" : "exit",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return 0;
}

int main(int count, char **arguments)
{
    program = "/proc/self/exe";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 1)
        return every_subject();
    driver_bind();
    subject_name = arguments[1];
    if (strcmp(subject_name, "list") == 0) {
        for (int i = 0; i < SUBJECTS; i++)
            puts(subjects[i].name);
        return 0;
    }
    for (int i = 0; i < SUBJECTS; i++) {
        if (strcmp(subjects[i].name, subject_name) == 0) {
            subjects[i].run();
            return 0;
        }
    }
    if (count == 4 && strcmp(subject_name, "driver_ipc_child") == 0) {
        driver_ipc_child(arguments[2], arguments[3]);
        return 0;
    }
#ifdef WITH_RUNTIME
    if (count == 4 && strcmp(subject_name, "runtime_ipc_child") == 0) {
        runtime_ipc_child(arguments[2], arguments[3]);
        return 0;
    }
#endif
    fprintf(stderr, "usage: differential [SUBJECT | list]\n");
    return 2;
}
