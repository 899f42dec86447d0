// Programs that try not to end, or that leave processes behind.
#include "probe.hpp"
#include <csignal>
#include <ctime>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>

static double cpu_seconds(clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
    timespec now{};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
static void spin(double seconds) {
    double end = cpu_seconds() + seconds;
    for (volatile unsigned long turns = 0; turns % 1024 || cpu_seconds() < end;) turns = turns + 1;
}
[[noreturn]] static void spin_forever() {
    for (volatile unsigned long turns = 0;;) turns = turns + 1;
}
[[noreturn]] static void sleep_forever() {
    for (;;) pause();
}

PROGRAM(loop_spin) { spin_forever(); }
PROGRAM(loop_sleep) { sleep_forever(); }
PROGRAM(spin_some) {
    spin((double)number(args, 0, 200) / 1000);
    say("OK spin");
}
PROGRAM(sleep_some) {
    timespec nap{0, 200000000};
    works("sleep", nanosleep(&nap, nullptr) == 0);
}
static void ignore(int) {}
PROGRAM(loop_catch) {
    for (int each = 1; each < 65; each++) signal(each, ignore);
    spin_forever();
}
PROGRAM(loop_ignore) {
    sigset_t all;
    sigfillset(&all), sigprocmask(SIG_BLOCK, &all, nullptr);
    for (int each = 1; each < 65; each++) signal(each, SIG_IGN);
    say("OK all signals ignored and blocked");
    sleep_forever();
}
PROGRAM(loop_rearm) {
    // raises the soft limit each time that the kernel warns
    signal(SIGXCPU, [](int) {
        rlimit now{};
        getrlimit(RLIMIT_CPU, &now);
        now.rlim_cur = now.rlim_max;
        setrlimit(RLIMIT_CPU, &now);
    });
    spin_forever();
}
PROGRAM(signals_default) {
    // an honest program expects no signal to be blocked or ignored
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    int odd = 0;
    for (int each = 1; each < 65; each++) {
        struct sigaction action{};
        if (each == SIGKILL || each == SIGSTOP || each == 32 || each == 33) continue;
        sigaction(each, nullptr, &action);
        if (sigismember(&blocked, each) || action.sa_handler != SIG_DFL) say("FAILED signal %d is blocked or ignored", each), odd++;
    }
    if (!odd) say("OK signals");
    raise(SIGTERM);
    say("ESCAPED SIGTERM did not end this program");
}

PROGRAM(daemonize) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (int each = 1; each < 65; each++) signal(each, SIG_IGN);
            close(0), close(1), close(2);
            sleep_forever();
        }
        _exit(0);
    }
    wait(nullptr);
    say("OK left a daemon");
}
PROGRAM(daemonize_deep) {
    // a chain in which each parent exits before its child forks
    if (fork() > 0) return say("OK left a chain");
    for (int i = 0; i < 200; i++) {
        pid_t next = fork();
        if (next > 0) _exit(0);
        if (next < 0) break;
        setsid();
    }
    sleep_forever();
}
PROGRAM(stdout_kept_open) {
    if (fork() == 0) {
        if (fork() == 0) sleep_forever();
        _exit(0);
    }
    wait(nullptr);
    say("OK a grandchild keeps stdout open");
}
PROGRAM(orphan_spins) {
    if (fork() == 0) spin_forever();
    say("OK left a spinning child");
}
PROGRAM(orphan_writes) {
    if (fork() == 0)
        for (;;) say("an orphan still writes"), usleep(200000);
    usleep(20000);
    _exit(0);
}
static void *sleep_thread(void *) { sleep_forever(); }
PROGRAM(main_thread_leaves) {
    pthread_t thread;
    pthread_create(&thread, nullptr, sleep_thread, nullptr);
    pthread_exit(nullptr);
}
PROGRAM(stops_itself) {
    raise(SIGSTOP);
    say("ESCAPED went on after SIGSTOP");
}
PROGRAM(vfork_hangs) {
    // the parent of a vfork waits and reacts to no signal but SIGKILL
    if (syscall(SYS_vfork) == 0) sleep_forever();
}
PROGRAM(spin_many) {
    for (long i = 1; i < number(args, 0, 16); i++)
        if (fork() == 0) spin_forever();
    spin_forever();
}
static void *spin_thread(void *) { spin_forever(); }
PROGRAM(spin_threads) {
    pthread_t thread;
    for (int i = 0; i < 8; i++) pthread_create(&thread, nullptr, spin_thread, nullptr);
    sleep_forever();
}
PROGRAM(spin_in_children) {
    // no process ever has much CPU time, and the parent waits for none
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            spin(0.05);
            _exit(0);
        }
        timespec nap{0, 30000000};
        nanosleep(&nap, nullptr);
    }
}
PROGRAM(spin_in_orphans) {
    if (fork() > 0) sleep_forever();
    for (;;) { // passes the work to a child and exits, so that no living process has used CPU time
        spin(0.02);
        if (fork() > 0) _exit(0);
    }
}
PROGRAM(children_some) {
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            spin(0.05);
            _exit(0);
        }
    int good = 0, status;
    while (wait(&status) > 0) good += status == 0;
    works("4 children of 50 ms", good == 4);
}

PROGRAM(kill_all) {
    pid_t witness = fork();
    if (witness == 0) sleep_forever();
    for (int each : {SIGTERM, SIGSTOP, SIGKILL}) {
        must_fail("init answers to a signal", kill(1, each) == 0 && kill(1, 0) != 0 ? 0 : -1);
        kill(-1, each);
        for (pid_t number = 2; number < 200; number++)
            if (number != getpid()) kill(number, each); // every process that it can see, which are its own
    }
    kill(witness, SIGKILL);
    waitpid(witness, nullptr, 0);
    say("OK still judged");
}
PROGRAM(kill_numbers) {
    long hit = 0;
    for (pid_t each = 2; each < 100000; each++)
        if (each != getpid() && each != getppid() && kill(each, 0) == 0) hit++;
    say("%s signalled %ld processes of others", hit ? "ESCAPED" : "DENIED", hit);
}
PROGRAM(kill_child) {
    pid_t child = fork();
    if (child == 0) sleep_forever();
    int status;
    works("kill of a child", kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGTERM);
}
PROGRAM(priority_raise) {
    errno = 0;
    must_fail("nice -20", setpriority(PRIO_PROCESS, 0, -20));
    sched_param one{1};
    must_fail("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &one));
    must_fail("SCHED_RR", sched_setscheduler(0, SCHED_RR, &one));
    struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; }
        deadline{48, 6 /* SCHED_DEADLINE */, 0, 0, 0, 10000000, 20000000, 20000000};
    must_fail("SCHED_DEADLINE", syscall(SYS_sched_setattr, 0, &deadline, 0));
    must_fail("I/O class real-time", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
}
PROGRAM(priority_lower) { works("nice 19", setpriority(PRIO_PROCESS, 0, 19) == 0); }
PROGRAM(ends_with) { _exit((int)number(args, 0, 0)); }
PROGRAM(dies_of) {
    int which = (int)number(args, 0, SIGKILL);
    signal(which, SIG_DFL);
    raise(which);
}
PROGRAM(segfault) { *(volatile int *)8 = 1; }
PROGRAM(dumps_core) {
    rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    must_fail("larger core limit", setrlimit(RLIMIT_CORE, &all));
    abort();
}
PROGRAM(vfork_some) {
    pid_t child = vfork();
    if (child == 0) _exit(3);
    int status;
    works("vfork", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
}
PROGRAM(measured) {
    // spins in `children` processes for `cpu_ms` in total, touches `mib`, sleeps for `nap_ms`, and prints its own counters
    long children = number(args, 0, 1), cpu_ms = number(args, 1, 0), mib = number(args, 2, 0), nap_ms = number(args, 3, 0);
    double begun = cpu_seconds(CLOCK_MONOTONIC);
    if (mib) {
        char *memory = (char *)mmap(nullptr, (size_t)mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t at = 0; at < (size_t)mib << 20; at += 4096) memory[at] = 1;
    }
    for (long i = 1; i < children; i++)
        if (fork() == 0) {
            spin((double)cpu_ms / 1000 / (double)children);
            _exit(0);
        }
    spin((double)cpu_ms / 1000 / (double)children);
    timespec nap{nap_ms / 1000, nap_ms % 1000 * 1000000};
    nanosleep(&nap, nullptr);
    while (wait(nullptr) > 0) {}
    rusage own{}, theirs{};
    getrusage(RUSAGE_SELF, &own), getrusage(RUSAGE_CHILDREN, &theirs);
    auto us = [](timeval v) { return v.tv_sec * 1000000L + v.tv_usec; };
    say("cpu_us %ld wall_us %ld rss_bytes %ld", us(own.ru_utime) + us(own.ru_stime) + us(theirs.ru_utime) + us(theirs.ru_stime),
        (long)((cpu_seconds(CLOCK_MONOTONIC) - begun) * 1e6), own.ru_maxrss * 1024);
}
PROGRAM(core_limit_lowered) {
    rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, nullptr);
    *(volatile int *)8 = 1;
}
