/*
 * The floor: runs a command COUNT times, LANES at a time, with the least possible overhead. Prints the milliseconds of
 * each run, and then the seconds of all runs together. A run has one or more steps; the output of the last is checked.
 *
 *   bare LANES COUNT EXPECTED step [args ...] [-- step [args ...]] ...
 *
 * Each lane is a small process that spawns a run, waits for it and spawns the next. {lane} in an argument stands for the
 * number of the lane. If BARE_IDLE_MS is set, a lane sleeps for that time before each run. The last step reads BARE_INPUT.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    fprintf(stderr, "bare: %s\n", what);
    exit(1);
}

/* Starts one step. Its output goes to out (the end of a pipe), or to /dev/null if out is -1. */
static pid_t begin(char **argv, const char *input, int out)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0);
    if (out >= 0) posix_spawn_file_actions_adddup2(&actions, out, 1);
    else posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    pid_t pid;
    if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0) fail(argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void end(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) < 0 || status != 0) fail("a step failed");
}

static void run(char **argv, const char *expected)
{
    for (;;) {
        char **last = argv;
        while (*last && strcmp(*last, "--") != 0) last++;
        if (!*last) break;
        *last = NULL;
        end(begin(argv, "/dev/null", -1));
        *last = (char *)"--";
        argv = last + 1;
    }
    int pipes[2];
    static char output[1 << 20];
    const char *input = getenv("BARE_INPUT");
    if (pipe2(pipes, O_CLOEXEC) != 0) fail("pipe");
    pid_t pid = begin(argv, input ? input : "/dev/null", pipes[1]);
    close(pipes[1]);
    size_t length = 0;
    ssize_t more;
    while ((more = read(pipes[0], output + length, sizeof output - 1 - length)) > 0) length += (size_t)more;
    close(pipes[0]);
    end(pid);
    output[length] = 0;
    if (strcmp(output, expected) != 0) fail("the output is not the expected one");
}

int main(int argc, char **argv)
{
    if (argc < 5) fail("usage: bare LANES COUNT EXPECTED step [args ...] [-- step ...]");
    int lanes = atoi(argv[1]), count = atoi(argv[2]);
    double *took = mmap(NULL, sizeof(double) * (size_t)count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *idle = getenv("BARE_IDLE_MS");
    int idle_ms = idle ? atoi(idle) : 0;
    double began = now_s();
    for (int lane = 0; lane < lanes; lane++) {
        if (fork() != 0) continue;
        char number[16];
        snprintf(number, sizeof number, "%d", lane);
        for (char **arg = argv + 4; *arg; arg++) {
            char *hole = strstr(*arg, "{lane}");
            if (hole && asprintf(arg, "%.*s%s%s", (int)(hole - *arg), *arg, number, hole + 6) < 0) fail("memory");
        }
        for (int n = lane; n < count; n += lanes) {
            if (idle_ms) usleep((useconds_t)idle_ms * 1000);
            double start = now_s();
            run(argv + 4, argv[3]);
            took[n] = now_s() - start;
        }
        exit(0);
    }
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    if (bad) fail("a lane failed");
    double all = now_s() - began;
    for (int n = 0; n < count; n++) printf("%.4f\n", took[n] * 1e3);
    printf("%.6f\n", all);
    return 0;
}
