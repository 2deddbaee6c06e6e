/* screen.c - the terminal. See screen.h. Escapes that every terminal of the last decades knows
 * (ECMA-48, and xterm's alternate screen). */
#define _GNU_SOURCE
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t ended_by, stopped, resized;
static struct termios saved;
static bool keys; /* stdin is the terminal, and `saved` what it was */
static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

static void on_end(int number)
{
    ended_by = number;
}

static void on_stop(int number)
{
    (void)number;
    stopped = 1;
}

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

static void handler_set(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler}; /* waiting ends: no SA_RESTART */
    sigaction(number, &action, NULL);
}

bool screen_possible(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && kind != NULL && kind[0] != '\0' && strcmp(kind, "dumb") != 0;
}

/* A process in the background would be stopped by setting the terminal. */
static void enter(void)
{
    keys = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
           tcgetattr(STDIN_FILENO, &saved) == 0;
    if (keys) {
        struct termios raw = saved;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J", stdout);
    fflush(stdout);
}

static void leave(void)
{
    fputs("\x1b[?25h\x1b[?1049l", stdout);
    fflush(stdout);
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

void screen_begin(void)
{
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        handler_set(ending[i], on_end);
    handler_set(SIGTSTP, on_stop);
    handler_set(SIGWINCH, on_resize);
    enter();
}

void screen_end(void)
{
    leave();
}

void screen_size(int *columns_out, int *lines_out)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *columns_out = known ? size.ws_col : 80;
    *lines_out = known ? size.ws_row : 24;
}

/* ^Z: the terminal is the shell's until it lets us go on. */
static void stop(void)
{
    stopped = 0;
    leave();
    raise(SIGSTOP);
    enter();
}

static bool key_ends(void)
{
    char key;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    if (got <= 0) { /* no more keys */
        keys = got < 0 && errno == EINTR;
        return false;
    }
    return key == 'q' || key == 'Q';
}

bool screen_wait(int ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    bool key = ended_by == 0 && !stopped && poll(&input, keys ? 1 : 0, ms) > 0;
    resized = 0;
    if (stopped)
        stop();
    return ended_by == 0 && !(key && key_ends());
}

int screen_signal(void)
{
    return ended_by;
}
