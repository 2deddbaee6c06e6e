/* schedule.c - runs one program of programs.def under many schedules and judges each.
 *
 * Every schedule runs in a process of its own, forked before the first CUDA call. It fails if
 *   - the oracle of the simulated driver saw a hazard;
 *   - the results of the calls are such as no schedule without the library has: the program is run
 *     without it first, under all schedules with one preemption and some random ones, and again
 *     under many more when a result is new;
 *   - a pool's records contradict each other, a capture is left in the books, the gate stays
 * closed;
 *   - all threads wait for each other, or only sleep;
 *   - it crashes, or takes longer than 10 s.
 *
 * A schedule is told by its seed, which also says the settings of the library, or by the list of
 * its switches. Both are printed when it fails, as one command line.
 *
 * What it leaves out: who runs when (scheduler.c), what a program does (script.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../sim/vrsim.h"
#include "scheduler.h"
#include "script.h"

enum {
    OUTCOME = 1024,
    OUTCOMES_MAX = 4096,
    QUEUE_MAX = 1 << 16,
    LIMIT_S = 10,
    NATIVE_RANDOM = 100,
    NATIVE_MORE = 4000,
    SETTINGS = 4
};

static const struct {
    const char *free, *backing;
} settings[SETTINGS] = {
    {"sync", "malloc"}, {"deferred", "malloc"}, {"sync", "vmm"}, {"deferred", "vmm"}};

static const char usage[] =
    "usage: schedule --program NAME [--seed N] [--count N] [--seconds N] [--preemptions N]\n"
    "                [--switches STEP:THREAD,... --setting N [--fine]] [--show] | --list\n"
    "  --seed N, --count N     random schedules N, N+1, ... (1, 1000)\n"
    "  --preemptions N         all schedules with at most N preemptions, in every setting, --count "
    "at most\n"
    "  --switches, --setting   one schedule\n"
    "  --seconds N             no more schedules after N seconds\n"
    "  --show                  prints results, and where threads were switched\n";

static struct {
    const struct script_program *program;
    const char *self; /* argv[0] */
    uint64_t seed, count;
    double seconds;
    int preemptions; /* -1: random schedules */
    const char *switches;
    uint32_t setting;
    enum schedule_class finest;
    bool show, outcomes; /* outcomes: print them; nothing is judged */
} options = {.seed = 1, .count = 1000, .seconds = 1e9, .preemptions = -1};

/* What a schedule's process leaves behind. */
static struct record {
    struct schedule_trace trace;
    char outcome[OUTCOME];
    char inside[256];
    uint64_t hazards;
    bool ended;
} * record;

static const char *(*inside)(void); /* inside.c; NULL: without the library */
static char *known[OUTCOMES_MAX];   /* results without the library, in order of being seen */
static size_t known_count;

/* --- one schedule ----------------------------------------------------------------------------- */

/* Calls that only tell or change what belongs to the thread. */
static bool call_is_private(const char *name)
{
    static const char *const private[] = {"cuCtxGetCurrent",
                                          "cuCtxGetDevice",
                                          "cuCtxPushCurrent_v2",
                                          "cuCtxPopCurrent_v2",
                                          "cuCtxSetCurrent",
                                          "cuInit",
                                          "cuThreadExchangeStreamCaptureMode",
                                          "cuDeviceGetCount"};
    for (size_t i = 0; i < sizeof(private) / sizeof(private[0]); i++)
        if (strcmp(name, private[i]) == 0)
            return true;
    return false;
}

/* What the program does between its calls is seen only without the library: with it there are other
 * points. */
static void call_told(const char *name)
{
    if (name == NULL)
        schedule_point(inside == NULL ? SCHEDULE_COARSE : SCHEDULE_FINE, "a driver call returns");
    else
        schedule_point(call_is_private(name) ? SCHEDULE_FINE : SCHEDULE_COARSE, name);
}

static void child_run(const struct schedule_plan *plan, uint32_t setting)
{
    setenv("VRAMALLOC_FREE", settings[setting].free, 1);
    setenv("VRAMALLOC_BACKING", settings[setting].backing, 1);
    setenv("VRAMALLOC_REPORT", "off", 1);
    alarm(LIMIT_S);
    schedule_start(plan, &record->trace);
    vrsim_on_call(call_told);
    schedule_on_sleep(vrsim_advance);
    script_run(options.program, record->outcome, OUTCOME);
    schedule_stop();
    record->hazards = vrsim_hazards();
    const char *wrong = inside != NULL ? inside() : NULL;
    if (wrong != NULL)
        strncpy(record->inside, wrong, sizeof(record->inside) - 1);
    script_end(options.program, record->outcome, OUTCOME);
    record->ended = true;
    _exit(0);
}

/* Its stderr goes to file `said`. Returns the status that wait(2) gives. */
static int plan_run(const struct schedule_plan *plan, uint32_t setting, int said)
{
    int status = 0;
    record->outcome[0] = record->inside[0] = '\0';
    record->hazards = 0;
    record->ended = false;
    record->trace.step_count = 0;
    if (ftruncate(said, 0) != 0 || lseek(said, 0, SEEK_SET) != 0)
        perror("schedule");
    pid_t child = fork();
    if (child == 0) {
        dup2(said, STDERR_FILENO);
        child_run(plan, setting);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child > 0 ? status : -1;
}

/* --- random schedules ---------------------------------------------------------------------------
 */

static uint32_t mix(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

/* The number of steps of the schedule without any switch. */
static uint32_t length_of(uint32_t setting, enum schedule_class finest, int said)
{
    static uint32_t lengths[SETTINGS][2];
    struct schedule_plan plan = {.kind = PLAN_SWITCHES, .finest = finest};
    if (lengths[setting][finest] == 0) {
        plan_run(&plan, setting, said);
        lengths[setting][finest] = record->trace.step_count + 1;
    }
    return lengths[setting][finest];
}

static int step_compare(const void *a, const void *b)
{
    uint32_t one = ((const struct schedule_switch *)a)->step;
    uint32_t two = ((const struct schedule_switch *)b)->step;
    return (one > two) - (one < two);
}

static struct schedule_plan plan_of(uint64_t seed, uint32_t setting, int said)
{
    static const uint32_t rarities[] = {2, 5, 12, 40};
    uint64_t random = seed;
    struct schedule_plan plan = {.seed = seed};
    plan.finest = mix(&random) % 2 == 0 ? SCHEDULE_COARSE : SCHEDULE_FINE;
    plan.kind = mix(&random) % 3 == 0 ? PLAN_WALK : PLAN_PRIORITY;
    plan.rarity = rarities[mix(&random) % 4];
    if (plan.kind == PLAN_PRIORITY) {
        uint32_t length = length_of(setting, plan.finest, said);
        plan.switch_count = 1 + mix(&random) % 4;
        for (uint32_t i = 0; i < plan.switch_count; i++)
            plan.switches[i].step = mix(&random) % length;
        qsort(plan.switches, plan.switch_count, sizeof(plan.switches[0]), step_compare);
    }
    return plan;
}

static uint32_t setting_of(uint64_t seed)
{
    return (uint32_t)(seed % SETTINGS);
}

/* --- results without the library
 * ------------------------------------------------------------------- */

static bool outcome_is_known(const char *outcome)
{
    for (size_t i = 0; i < known_count; i++)
        if (strcmp(known[i], outcome) == 0)
            return true;
    return false;
}

static void outcome_learn(const char *outcome)
{
    if (!outcome_is_known(outcome) && known_count < OUTCOMES_MAX)
        known[known_count++] = strdup(outcome);
}

/* Asks the program beside this one, which has no library. False: it could not be run. */
static bool outcomes_ask(const char *how)
{
    char command[4096], line[OUTCOME + 2];
    snprintf(command, sizeof(command), "exec '%s-native' --program %s --outcomes %s", options.self,
             options.program->name, how);
    FILE *from = popen(command, "r");
    while (from != NULL && fgets(line, sizeof(line), from) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        outcome_learn(line);
    }
    return from != NULL && pclose(from) == 0 && known_count > 0;
}

static bool outcomes_learn(void)
{
    char how[64];
    snprintf(how, sizeof(how), "--count %d", NATIVE_RANDOM);
    return outcomes_ask("--preemptions 1") && outcomes_ask(how);
}

/* A new result: it may be one that the program has without the library, too, only seldom. */
static bool outcome_is_native(const char *outcome)
{
    static bool asked;
    char how[64];
    if (!asked && !outcome_is_known(outcome)) {
        asked = true;
        snprintf(how, sizeof(how), "--preemptions 2 --count %d", NATIVE_MORE);
        outcomes_ask(how);
        snprintf(how, sizeof(how), "--seed 1000 --count %d", NATIVE_MORE);
        outcomes_ask(how);
    }
    return outcome_is_known(outcome);
}

/* --- judging
 * ---------------------------------------------------------------------------------------- */

/* What is wrong with the schedule that just ran; NULL: nothing. */
static const char *judge(int status)
{
    static char why[4096];
    const struct schedule_trace *trace = &record->trace;
    if (trace->stuck)
        return trace->why;
    if (WIFSIGNALED(status) || !record->ended) {
        snprintf(why, sizeof(why), "%s",
                 !WIFSIGNALED(status)          ? "it ended early"
                 : WTERMSIG(status) == SIGALRM ? "it hangs"
                                               : strsignal(WTERMSIG(status)));
        return why;
    }
    if (record->hazards != 0)
        return "the simulator saw a hazard";
    if (record->inside[0] != '\0')
        return record->inside;
    if (!options.outcomes && !outcome_is_native(record->outcome))
        return "results that it never has without the library";
    return NULL;
}

static void switches_print(FILE *to)
{
    const struct schedule_trace *trace = &record->trace;
    for (uint32_t i = 0; i < trace->step_count && i < SCHEDULE_STEPS; i++) {
        const struct schedule_step *step = &trace->steps[i];
        if (step->chosen != step->before)
            fprintf(to, "  step %u: thread %u, %s: thread %u goes on\n", i, step->before,
                    step->where, step->chosen);
    }
}

static void said_print(int said)
{
    char text[2000];
    ssize_t bytes = pread(said, text, sizeof(text) - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    printf("%s", text);
}

static void plan_print(const struct schedule_plan *plan, uint32_t setting)
{
    printf("%s --program %s", options.self, options.program->name);
    if (plan->kind != PLAN_SWITCHES) {
        printf(" --seed %llu --count 1 --show\n", (unsigned long long)plan->seed);
        return;
    }
    printf(" --setting %u%s --show --switches ", setting,
           plan->finest == SCHEDULE_FINE ? " --fine" : "");
    for (uint32_t i = 0; i < plan->switch_count; i++)
        printf("%s%u:%u", i > 0 ? "," : "", plan->switches[i].step, plan->switches[i].thread);
    printf("%s\n", plan->switch_count == 0 ? "0:0" : "");
}

static void failure_print(const struct schedule_plan *plan, uint32_t setting, const char *why,
                          int said)
{
    printf("FAIL  %s, free=%s backing=%s: %s\n", options.program->name, settings[setting].free,
           settings[setting].backing, why);
    printf("  results: %s\n", record->outcome);
    said_print(said);
    switches_print(stdout);
    printf("again: ");
    plan_print(plan, setting);
}

/* Runs and judges one. False: it failed, which was printed. */
static bool try_one(const struct schedule_plan *plan, uint32_t setting, int said)
{
    const char *why = judge(plan_run(plan, setting, said));
    if (why != NULL) {
        failure_print(plan, setting, why, said);
        return false;
    }
    if (options.outcomes)
        outcome_learn(record->outcome);
    else if (options.show) {
        switches_print(stdout);
        printf("ok    %s: %s\n", options.program->name, record->outcome);
    }
    return true;
}

/* --- many schedules
 * --------------------------------------------------------------------------------- */

static uint64_t tried;

static bool time_is_up(void)
{
    static struct timespec begin;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (begin.tv_sec == 0)
        begin = now;
    return (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 >
           options.seconds;
}

static bool random_all(int said)
{
    for (uint64_t i = 0; i < options.count && !time_is_up(); i++, tried++) {
        uint64_t seed = options.seed + i;
        struct schedule_plan plan = plan_of(seed, setting_of(seed), said);
        if (!try_one(&plan, setting_of(seed), said))
            return false;
    }
    return true;
}

/* Plans still to run, those with fewer preemptions first. */
static struct waiting {
    struct schedule_switch switches[4];
    uint8_t switch_count, preemptions;
} queue[QUEUE_MAX];
static size_t queue_first, queue_end;

static void queue_add(const struct waiting *before, uint32_t step, uint32_t thread, bool preempts)
{
    struct waiting next = *before;
    if (queue_end == QUEUE_MAX ||
        next.switch_count == sizeof(next.switches) / sizeof(*next.switches))
        return;
    next.switches[next.switch_count++] = (struct schedule_switch){step, thread};
    next.preemptions = (uint8_t)(next.preemptions + preempts);
    queue[queue_end++] = next;
}

/* Every other choice at every step after the last switch of the plan that just ran. */
static void queue_followers(const struct waiting *ran)
{
    const struct schedule_trace *trace = &record->trace;
    uint32_t from = ran->switch_count > 0 ? ran->switches[ran->switch_count - 1].step + 1 : 0;
    for (uint32_t i = from; i < trace->step_count && i < SCHEDULE_STEPS; i++) {
        const struct schedule_step *step = &trace->steps[i];
        bool preempts = (step->able >> step->before & 1) != 0;
        if (ran->preemptions + preempts > options.preemptions)
            continue;
        for (uint32_t t = 0; t < SCHEDULE_THREADS; t++)
            if (((step->able | step->idle) >> t & 1) != 0 && t != step->chosen)
                queue_add(ran, i, t, preempts);
    }
}

/* All with at most so many preemptions. Coarse points only: of fine ones there are too many. */
static bool enumerate(uint32_t setting, int said)
{
    queue_first = queue_end = 0;
    queue[queue_end++] = (struct waiting){.switch_count = 0};
    for (uint64_t i = 0; queue_first < queue_end && i < options.count && !time_is_up(); i++) {
        struct waiting next = queue[queue_first++];
        struct schedule_plan plan = {
            .kind = PLAN_SWITCHES, .finest = options.finest, .switch_count = next.switch_count};
        memcpy(plan.switches, next.switches, sizeof(next.switches));
        tried++;
        if (!try_one(&plan, setting, said))
            return false;
        queue_followers(&next);
    }
    return true;
}

static bool enumerate_all(int said)
{
    uint32_t count = options.outcomes ? 1 : SETTINGS;
    for (uint32_t setting = 0; setting < count; setting++)
        if (!enumerate(setting, said))
            return false;
    return true;
}

static bool listed(int said)
{
    struct schedule_plan plan = {.kind = PLAN_SWITCHES, .finest = options.finest};
    const char *text = options.switches;
    int length;
    while (plan.switch_count < SCHEDULE_SWITCHES &&
           sscanf(text, "%u:%u%n", &plan.switches[plan.switch_count].step,
                  &plan.switches[plan.switch_count].thread, &length) == 2) {
        plan.switch_count++;
        text += length + (text[length] == ',');
    }
    tried = 1;
    return try_one(&plan, options.setting, said);
}

/* --- the command
 * ----------------------------------------------------------------------------------- */

static int refuse(const char *what)
{
    fprintf(stderr, "schedule: %s\n%s", what, usage);
    return 2;
}

static bool option_take(const char *name, const char *value)
{
    if (strcmp(name, "--program") == 0)
        options.program = script_find(value);
    else if (strcmp(name, "--seed") == 0)
        options.seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--count") == 0)
        options.count = strtoull(value, NULL, 10);
    else if (strcmp(name, "--seconds") == 0)
        options.seconds = strtod(value, NULL);
    else if (strcmp(name, "--preemptions") == 0)
        options.preemptions = atoi(value);
    else if (strcmp(name, "--switches") == 0)
        options.switches = value;
    else if (strcmp(name, "--setting") == 0)
        options.setting = (uint32_t)strtoul(value, NULL, 10) % SETTINGS;
    else
        return false;
    return true;
}

static bool options_take(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--fine") == 0)
            options.finest = SCHEDULE_FINE;
        else if (strcmp(argv[i], "--show") == 0)
            options.show = true;
        else if (strcmp(argv[i], "--outcomes") == 0)
            options.outcomes = true;
        else if (i + 1 == argc || !option_take(argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return options.program != NULL;
}

static int programs_list(void)
{
    for (size_t i = 0; i < script_program_count; i++)
        if (!script_programs[i].open)
            printf("%s\n", script_programs[i].name);
    return 0;
}

/* The simulator reads its environment when it is loaded, so the program starts itself anew. */
static void machine_prepare(char **argv)
{
    char devices[16], card[32];
    if (getenv("SCHEDULE_PREPARED") != NULL)
        return;
    snprintf(devices, sizeof(devices), "%d", options.program->devices);
    snprintf(card, sizeof(card), "%dM", options.program->card_mib);
    setenv("VRSIM_DEVICES", devices, 1);
    setenv("VRSIM_CARD_BYTES", card, 1);
    setenv("SCHEDULE_PREPARED", "1", 1);
    execv("/proc/self/exe", argv);
}

static int outcomes_print(void)
{
    for (size_t i = 0; i < known_count; i++)
        printf("%s\n", known[i]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return programs_list();
    if (!options_take(argc, argv))
        return refuse("not understood, or no such program");
    machine_prepare(argv);
    unsetenv("SCHEDULE_PREPARED");
    options.self = argv[0];
    inside = (const char *(*)(void))dlsym(RTLD_DEFAULT, "schedule_inside");
    int said = memfd_create("said", MFD_CLOEXEC);
    record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (record == MAP_FAILED || said < 0)
        return refuse("no memory");
    time_is_up();
    if (!options.outcomes && !outcomes_learn())
        return refuse("the program without the library fails");
    bool good = options.switches != NULL   ? listed(said)
                : options.preemptions >= 0 ? enumerate_all(said)
                                           : random_all(said);
    if (good && options.outcomes)
        return outcomes_print();
    printf("%s: %llu schedules%s\n", options.program->name, (unsigned long long)tried,
           good ? ", none failed" : ", the last one failed");
    return good ? 0 : 1;
}
