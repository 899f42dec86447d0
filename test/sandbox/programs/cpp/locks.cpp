// Programs that hold a lock that the process that serves them needs, or that make each step of the service walk a long list.
#include "probe.hpp"
#include <csignal>
#include <ctime>
#include <functional>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

static const size_t WINDOW = (size_t)64 << 20;
static const int WRITE_AND_MORE[] = {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC};
static char *wide;
static size_t wide_bytes;

// Changes the protection of up to 262,144 pages again and again. The lock of the address space is held for all of each change,
// and a thread of low priority beside many busy processes takes long for one.
static void *change_memory(void *) {
    setpriority(PRIO_PROCESS, 0, 19);
    for (int turn = 0; !mprotect(wide, wide_bytes + WINDOW, WRITE_AND_MORE[turn & 1]); turn++) {}
    say("FAILED mprotect %s", errno_name());
    _exit(1);
}
// Calls `step` with addresses at which no page is yet, so that each write to one waits for that lock.
static void touch_while_changing(const Args &args, const std::function<void(char *)> &step) {
    const long spinners = number(args, 0, 55);
    wide_bytes = (size_t)number(args, 1, 1024) << 20;
    wide = (char *)mmap(nullptr, wide_bytes + WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED) return works("mmap", false);
    madvise(wide, wide_bytes + WINDOW, MADV_NOHUGEPAGE);
    if (madvise(wide, wide_bytes, 22 /* MADV_POPULATE_READ */)) return works("populate", false);
    for (long i = 0; i < spinners; i++)
        if (fork() == 0)
            for (usleep(300000);;) {}
    say("OK began");
    pthread_t thread;
    pthread_create(&thread, nullptr, change_memory, nullptr);
    for (size_t at = 0;; at += 4096) {
        if (at + 8192 > WINDOW) at = 0, madvise(wide + wide_bytes, WINDOW, MADV_DONTNEED);
        step(wide + wide_bytes + at);
    }
}

PROGRAM(memory_changed) {
    touch_while_changing(args, [](char *at) { sysinfo((struct sysinfo *)at), usleep(1000); });
}
static void *fill_stderr(void *) {
    static char block[1 << 16];
    int again = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK);
    for (;;)
        if (write(again, block, sizeof block) < 0) usleep(200);
}
PROGRAM(pipe_locked) {
    // a read that has the pipe's lock and waits for memory
    int again = open("/proc/self/fd/2", O_RDONLY | O_NONBLOCK);
    pthread_t thread;
    pthread_create(&thread, nullptr, fill_stderr, nullptr);
    touch_while_changing(args, [=](char *at) {
        if (read(again, at, 4096) < 0) usleep(100);
    });
}
PROGRAM(memory_changed_once) {
    wide = (char *)mmap(nullptr, WINDOW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sysinfo *facts = (struct sysinfo *)wide;
    works("sysinfo into fresh memory", !sysinfo(facts) && facts->totalram > 0);
    works("mprotect", !mprotect(wide, WINDOW, PROT_READ) && !mprotect(wide, WINDOW, PROT_READ | PROT_WRITE));
    works("sysinfo after a change", !sysinfo(facts + 1000) && facts[1000].totalram == facts->totalram);
}
PROGRAM(stderr_read_back) {
    int again = open("/proc/self/fd/2", O_RDONLY | O_NONBLOCK);
    char byte;
    works("open", again >= 0);
    while (read(again, &byte, 1) == 1) {}
    works("write", write(2, "done\n", 5) == 5);
}

static int waiters(int copies) {
    int count = 0, copy[64];
    for (int i = 0; i < copies; i++) copy[i] = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK);
    for (int set; (set = epoll_create1(0)) >= 0;)
        for (int i = 0; i < copies; i++) {
            epoll_event event{};
            event.events = EPOLLOUT | EPOLLET;
            if (epoll_ctl(set, EPOLL_CTL_ADD, copy[i], &event)) return count;
            count++;
        }
    return count;
}
PROGRAM(pipe_waiters) {
    // each read of the pipe wakes every waiter
    static char block[1 << 16];
    int ready[2], total = 0;
    if (pipe(ready)) return works("pipe", false);
    for (long i = 0; i < number(args, 0, 50); i++)
        if (fork() == 0) {
            close(ready[0]);
            int count = waiters((int)number(args, 1, 28));
            if (write(ready[1], &count, sizeof count) < 0) _exit(1);
            for (;;) pause();
        }
    close(ready[1]);
    for (int count; read(ready[0], &count, sizeof count) == sizeof count;) {
        total += count;
        if (total >= number(args, 2, 30000)) break;
    }
    say("OK %d waiters", total);
    for (;;)
        if (write(2, block, sizeof block) < 0) _exit(1);
}
PROGRAM(pipe_waited_for) {
    int set = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLOUT;
    works("epoll of stderr", set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, 2, &event));
    works("writable", epoll_wait(set, &event, 1, 1000) == 1);
    works("write", write(2, "message\n", 8) == 8);
}
