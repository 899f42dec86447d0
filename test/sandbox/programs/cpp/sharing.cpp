// Objects that all boxes and the host share: files of the toolchains, cached pages, disks, counters of the machine.
#include "probe.hpp"
#include <algorithm>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <csignal>
#include <ctime>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <thread>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/// For a call that the filter must answer itself: the kernel's own answer would be another errno.
static void must_answer(const char *what, long result, int error) {
    if (result < 0 && errno == error) denied(what);
    else if (result < 0) escaped(what, errno_name());
    else escaped(what);
}
/// For a call that the filter must answer with success, where the kernel would fail.
static void must_not_happen(const char *what, long result) {
    if (result == 0) say("DENIED %s has no effect", what);
    else escaped(what, errno_name());
}
/// A file that every box and the host use: the loader, or the program itself.
static int shared_file(int flags = O_RDONLY) {
    int file = open("/lib64/ld-linux-x86-64.so.2", flags);
    return file >= 0 || flags != O_RDONLY ? file : open("/proc/self/exe", flags);
}

PROGRAM(watch_others) {
    int watch = inotify_init1(IN_NONBLOCK);
    if (must_fail("inotify_init1", watch)) {
        must_fail("inotify_init", syscall(253 /* of x86-64 */));
        must_fail("inotify_add_watch", inotify_add_watch(1, "/usr", IN_ALL_EVENTS));
        must_fail("fanotify_init", syscall(SYS_fanotify_init, 0, O_RDONLY));
    }
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    must_fail("F_NOTIFY", fcntl(folder, F_NOTIFY, DN_ACCESS | DN_MULTISHOT));
    must_fail("F_SETLEASE", fcntl(shared_file(), F_SETLEASE, F_RDLCK));
    must_answer("F_GETLEASE", fcntl(shared_file(), F_GETLEASE), EINVAL);
}
PROGRAM(own_changes_seen) {
    struct timespec before[2] = {{1, 0}, {1, 0}};
    int file = open("watched", O_RDWR | O_CREAT, 0600);
    works("a time of its own file", futimens(file, before) == 0);
    works("a write to its own file", write(file, "x", 1) == 1);
}

// Locks are granted and not kept: a second holder must get the same lock.
PROGRAM(locks_kept) {
    int first = shared_file(), second = shared_file();
    flock(first, LOCK_EX);
    if (flock(second, LOCK_EX | LOCK_NB)) escaped("flock of a shared file", errno_name());
    else say("DENIED flock of a shared file is not kept");
    struct flock range{};
    range.l_type = F_RDLCK, range.l_len = 1;
    must_fail("F_OFD_SETLK", fcntl(first, 37 /* F_OFD_SETLK */, &range));
    must_fail("F_OFD_SETLKW", fcntl(first, 38, &range));
    // the kernel charges no group for a record lock: none may come to be, however many are asked for
    int own = open("records", O_RDWR | O_CREAT, 0600);
    for (long at = 0; at < 1000; at++) {
        range.l_type = F_WRLCK, range.l_start = 2 * at, range.l_len = 1;
        fcntl(own, F_SETLK, &range);
    }
    in_child("record locks", [&] {
        range.l_type = F_WRLCK, range.l_start = 0, range.l_len = 0;
        if (fcntl(own, F_GETLK, &range) || range.l_type != F_UNLCK) escaped("record locks", "the kernel keeps them");
        else say("DENIED record locks are not kept");
    });
}
PROGRAM(locks_own) {
    int own = open("own", O_RDWR | O_CREAT, 0600);
    struct flock range{};
    range.l_type = F_WRLCK;
    works("flock", flock(own, LOCK_EX) == 0 && flock(own, LOCK_UN) == 0);
    works("lockf", lockf(own, F_LOCK, 0) == 0);
    works("F_SETLK", fcntl(own, F_SETLK, &range) == 0);
}

PROGRAM(cache_changed) {
    int file = shared_file();
    void *mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    must_fail("fadvise DONTNEED", syscall(SYS_fadvise64, file, 0, 0, POSIX_FADV_DONTNEED));
    must_fail("fadvise WILLNEED", syscall(SYS_fadvise64, file, 0, 0, POSIX_FADV_WILLNEED));
    must_fail("readahead", readahead(file, 0, 4096));
    must_fail("madvise PAGEOUT", madvise(mapped, 4096, 21));
    must_fail("madvise COLD", madvise(mapped, 4096, 20));
    must_answer("madvise COLLAPSE", madvise(mapped, 4096, 25), EINVAL);
    must_fail("an open that goes around the cache", shared_file(O_RDONLY | O_DIRECT));
    must_fail("O_DIRECT by fcntl", fcntl(file, F_SETFL, O_DIRECT));
}
PROGRAM(cache_seen) {
    int file = shared_file();
    char bytes[16];
    iovec part{bytes, sizeof bytes};
    unsigned char pages[1];
    void *mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    must_fail("preadv2 with RWF_NOWAIT", preadv2(file, &part, 1, 0, RWF_NOWAIT));
    must_fail("preadv2 with RWF_DONTCACHE", preadv2(file, &part, 1, 0, 0x80));
    must_fail("mincore", mincore(mapped, 4096, pages));
    uint64_t range[2] = {0, 4096}, counts[8];
    must_fail("cachestat", syscall(451, file, range, counts, 0));
}
PROGRAM(proc_written) {
    for (const char *name : {"clear_refs", "oom_score_adj", "comm", "coredump_filter", "autogroup", "sched", "timerslack_ns", "mem"}) {
        const auto path = std::string("/proc/self/") + name;
        must_fail(path.c_str(), open(path.c_str(), O_WRONLY));
        must_fail(path.c_str(), open(path.c_str(), O_RDWR));
    }
    must_fail("/proc made writable", mount(nullptr, "/proc", nullptr, MS_REMOUNT | MS_BIND, nullptr));
}
PROGRAM(proc_honest) {
    for (const char *name : {"maps", "smaps", "status", "stat", "comm"})
        works(name, open((std::string("/proc/self/") + name).c_str(), O_RDONLY) >= 0);
    for (const char *path : {"/proc/self/fd/1", "/dev/stdout", "/dev/stderr"}) {
        int stream = open(path, O_WRONLY);
        works(path, stream >= 0 && write(stream, "", 0) == 0);
    }
    works("a thread's name", prctl(PR_SET_NAME, "named") == 0);
}

PROGRAM(advice_honest) {
    int file = open("advised", O_RDWR | O_CREAT, 0600);
    char bytes[4] = "abc", read_back[4] = {};
    iovec out{bytes, 3}, in{read_back, 3};
    works("pwritev2", pwritev2(file, &out, 1, 0, 0) == 3);
    works("preadv2", preadv2(file, &in, 1, 0, 0) == 3 && !strcmp(read_back, "abc"));
    works("posix_fadvise", posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    works("madvise", madvise(page, 4096, MADV_WILLNEED) == 0);
    works("msync", msync(page, 4096, MS_SYNC) == 0 && msync(page, 4096, MS_ASYNC) == 0);
}

PROGRAM(disks_written) {
    int pipes[2];
    works("pipe", pipe(pipes) == 0);
    must_not_happen("fsync", fsync(pipes[1]));
    must_not_happen("fdatasync", fdatasync(pipes[1]));
    must_not_happen("syncfs", syncfs(-1));
    must_not_happen("sync_file_range", sync_file_range(pipes[1], 0, 1, SYNC_FILE_RANGE_WRITE));
    must_not_happen("msync", msync((void *)4096, 4096, MS_SYNC));
}
PROGRAM(files_flushed) {
    int file = open("flushed", O_RDWR | O_CREAT, 0600);
    works("fsync", write(file, "x", 1) == 1 && fsync(file) == 0 && fdatasync(file) == 0);
    sync();
    works("sync", true);
}
PROGRAM(aio_used) {
    unsigned long context = 0;
    must_fail("io_setup", syscall(SYS_io_setup, 65536, &context));
    must_fail("io_setup of one", syscall(SYS_io_setup, 1, &context));
}

PROGRAM(load_seen) {
    struct sysinfo facts{};
    memset(&facts, 0xaa, sizeof facts);
    if (sysinfo(&facts)) return denied("sysinfo");
    bool shown = facts.uptime || facts.loads[0] || facts.loads[1] || facts.loads[2] || facts.procs != 1 || facts.bufferram ||
                 facts.sharedram || facts.totalswap || facts.freeswap || facts.freeram != facts.totalram;
    say("%s uptime %ld, load %lu, tasks %u, memory %lu of %lu", shown ? "ESCAPED" : "DENIED", facts.uptime, facts.loads[0],
        facts.procs, facts.freeram, facts.totalram);
    must_fail("sysinfo at no address", syscall(SYS_sysinfo, 8));
}
PROGRAM(load_asked_for) {
    // The slot answers a few questions each 10 ms, so that they cost little.
    timespec begin{}, now{};
    struct sysinfo facts{};
    long asked = 0, ms = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (; ms < 300; asked++) {
        sysinfo(&facts);
        clock_gettime(CLOCK_MONOTONIC, &now);
        ms = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
    }
    say("%s %ld answers in %ld ms", asked > (ms / 10 + 3) * 8 ? "ESCAPED" : "DENIED", asked, ms);
}
PROGRAM(machine_honest) {
    works("pages of memory", sysconf(_SC_PHYS_PAGES) > 1000 && sysconf(_SC_AVPHYS_PAGES) > 1000);
    works("processors", sysconf(_SC_NPROCESSORS_ONLN) > 0);
    // qsort asks for the size of the memory, and merges, which is stable, only if there is enough
    std::vector<std::pair<int, int>> rows;
    for (int each = 0; each < 100000; each++) rows.push_back({each % 7, each});
    qsort(rows.data(), rows.size(), sizeof rows[0], [](const void *a, const void *b) { return *(const int *)a - *(const int *)b; });
    works("qsort is stable", std::is_sorted(rows.begin(), rows.end()));
}
PROGRAM(disk_space_seen) {
    struct statfs facts{};
    must_fail("statfs of /usr", statfs("/usr/lib", &facts));
    must_fail("statfs of /", statfs("/", &facts));
    must_fail("fstatfs", fstatfs(shared_file(), &facts));
    must_fail("ustat", syscall(136 /* of x86-64 */, 0, &facts));
}

PROGRAM(pages_merged) {
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_answer("madvise MERGEABLE", madvise(page, 4096, 12), EINVAL);
    must_answer("PR_SET_MEMORY_MERGE", prctl(67, 1, 0, 0, 0), EINVAL);
}
PROGRAM(huge_pages) {
    void *page = mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    must_answer("mmap of a huge page", page == MAP_FAILED ? -1 : 0, EINVAL);
    must_answer("memfd of huge pages", memfd_create("huge", MFD_HUGETLB), EINVAL);
    must_fail("shared memory of huge pages", shmget(IPC_PRIVATE, 2 << 20, SHM_HUGETLB | IPC_CREAT | 0600));
}
PROGRAM(processors_taken) {
    must_answer("PR_SCHED_CORE", prctl(62, 1 /* create */, 0, 0, 0), EINVAL);
    must_fail("membarrier of all processors", syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
    must_fail("membarrier of all registered", syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0));
    must_fail("ioprio_set", syscall(SYS_ioprio_set, 1, 0, 0));
}
PROGRAM(processors_chosen) {
    // The kernel would fail each of these: no processor is in the set, and this policy has no priorities.
    cpu_set_t none, before, after;
    CPU_ZERO(&none);
    sched_param one{1}, zero{0};
    must_not_happen("sched_setaffinity", sched_setaffinity(0, sizeof none, &none));
    must_not_happen("sched_setscheduler with SCHED_BATCH", sched_setscheduler(0, SCHED_BATCH, &one));
    must_not_happen("sched_setscheduler with SCHED_IDLE", sched_setscheduler(0, SCHED_IDLE, &one));
    must_fail("sched_setscheduler with SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &one));
    struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; }
        slice{48, 0, 0, 0, 0, 100000, 0, 0};
    must_answer("sched_setattr with a slice", syscall(SYS_sched_setattr, 0, &slice, 0), EPERM);
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    sched_getaffinity(child, sizeof before, &before);
    for (int each = 0; each < CPU_SETSIZE; each++) {
        if (!CPU_ISSET(each, &before)) continue;
        CPU_SET(each, &none);
        break;
    }
    sched_setaffinity(child, sizeof none, &none);
    sched_setscheduler(child, SCHED_IDLE, &zero);
    sched_getaffinity(child, sizeof after, &after);
    bool changed = !CPU_EQUAL(&before, &after) || sched_getscheduler(child) != SCHED_OTHER;
    say("%s where a child runs, and how", changed ? "ESCAPED" : "DENIED");
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}
PROGRAM(threads_pinned) {
    long sums[4] = {};
    std::vector<std::thread> threads;
    bool pinned = true;
    for (int each = 0; each < 4; each++) threads.emplace_back([&sums, each] {
        for (long n = 0; n < 100000; n++) sums[each] += n;
    });
    for (int each = 0; each < 4; each++) {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(each % std::thread::hardware_concurrency(), &own);
        pinned = pthread_setaffinity_np(threads[each].native_handle(), sizeof own, &own) == 0 && pinned;
    }
    for (std::thread &each : threads) each.join();
    works("pinned threads", pinned && sums[0] == 4999950000 && sums[3] == sums[0]);
    cpu_set_t mine;
    works("the processors are all there", sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) == sysconf(_SC_NPROCESSORS_ONLN));
    works("its own priority", setpriority(PRIO_PROCESS, 0, 19) == 0);
}

// Ways to get more of the processors than an equal share. Each of them runs until its wall time is over.
[[noreturn]] static void forever(void (*step)()) {
    for (;;) step();
}
PROGRAM(processors_relayed) {
    for (int each = 0; each < 15; each++) {
        int there[2], back[2];
        char byte = 0;
        if (pipe(there) || pipe(back)) return works("pipes", false);
        if (fork() == 0) {
            while (write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1) continue;
            _exit(1);
        }
        if (fork() == 0) {
            while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) continue;
            _exit(1);
        }
        for (int one : {there[0], there[1], back[0], back[1]}) close(one);
    }
    forever([] { pause(); });
}
PROGRAM(processors_moved) {
    for (int each = 0; each < 10; each++) {
        pid_t busy = fork();
        if (busy == 0) forever([] {});
        if (fork() == 0)
            for (int at = 0;; at++) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(at % 2, &one);
                sched_setaffinity(busy, sizeof one, &one);
            }
    }
    forever([] { pause(); });
}
PROGRAM(processors_stormed) {
    for (int each = 0; each < 20; each++)
        if (fork() == 0)
            forever([] {
                pid_t child = fork();
                if (child == 0) _exit(0);
                if (child > 0) waitpid(child, nullptr, 0);
            });
    forever([] { pause(); });
}
PROGRAM(processors_in_sessions) {
    for (int each = 0; each < 30; each++)
        if (fork() == 0) {
            setsid();
            forever([] {});
        }
    forever([] { pause(); });
}
PROGRAM(processors_in_turn) {
    // A short program may use every processor at once. A long one with one thread never waits for its own quota.
    std::vector<std::thread> threads;
    for (unsigned each = 0; each < std::thread::hardware_concurrency(); each++) threads.emplace_back([] {
        timespec now{};
        do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        while (now.tv_nsec < 30000000);
    });
    for (std::thread &each : threads) each.join();
    works("30 ms of every processor", true);
}
PROGRAM(kernel_memory) {
    int pair[2];
    sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, 0xffff}};
    sock_fprog program{1, all};
    works("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    must_fail("a filter of a socket", setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_answer("the name of a mapping", prctl(0x53564d41, 0, page, 4096, "name"), EINVAL);
}
PROGRAM(limits_of_others) {
    rlimit some{1, 1};
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    must_fail("limit of a child", prlimit(child, RLIMIT_NOFILE, &some, nullptr));
    must_fail("limit of init", prlimit(1, RLIMIT_NOFILE, &some, nullptr));
    must_fail("limit of core dumps", prlimit(0, RLIMIT_CORE, &some, nullptr));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}
PROGRAM(limits_own) {
    rlimit now{};
    works("getrlimit", getrlimit(RLIMIT_NOFILE, &now) == 0 && prlimit(0, RLIMIT_CORE, nullptr, &now) == 0);
    now = {16, 16};
    works("setrlimit", setrlimit(RLIMIT_NOFILE, &now) == 0);
}
PROGRAM(seals_against_writes) {
    // The filter looks at no descriptor.
    must_answer("F_SEAL_WRITE", fcntl(99, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
    must_answer("F_SEAL_WRITE among others", fcntl(99, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), EPERM);
}
PROGRAM(seals_honest) {
    int file = memfd_create("sealed", MFD_ALLOW_SEALING | 8 /* MFD_NOEXEC_SEAL */);
    if (file < 0 && errno == EINVAL) return works("no files in memory, before Linux 6.3", true);
    works("F_ADD_SEALS", fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0);
    works("F_GET_SEALS", fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK);
}
PROGRAM(pages_given) {
    int pipes[2];
    char bytes[16] = {};
    iovec part{bytes, sizeof bytes};
    works("pipe", pipe(pipes) == 0 && write(pipes[1], "x", 1) == 1);
    must_fail("vmsplice", vmsplice(1, &part, 1, 0));
    must_fail("tee", tee(pipes[0], 1, 1, 0));
}

// Timers whose end wakes many waiters, all of them in an interrupt.
PROGRAM(timers_wake_many) {
    sigset_t signals;
    sigemptyset(&signals), sigaddset(&signals, SIGUSR1);
    must_answer("timerfd_create", timerfd_create(CLOCK_MONOTONIC, 0), ENOSYS);
    must_answer("signalfd4", syscall(SYS_signalfd4, -1, &signals, 8, 0), ENOSYS);
#ifdef SYS_signalfd
    must_answer("signalfd", syscall(SYS_signalfd, -1, &signals, 8), ENOSYS);
#endif
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL, event.sigev_signo = SIGCONT;
    int timer;
    must_answer("timer_create", syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer), ENOSYS);
}
PROGRAM(timers_wake_one) {
    epoll_event event{};
    works("epoll with a timeout", epoll_wait(epoll_create1(0), &event, 1, 10) == 0);
    works("poll with a timeout", poll(nullptr, 0, 10) == 0);
    std::mutex lock;
    std::condition_variable never;
    std::unique_lock<std::mutex> own(lock);
    works("a condition with a timeout", never.wait_for(own, std::chrono::milliseconds(10)) == std::cv_status::timeout);
    sigset_t one;
    sigemptyset(&one), sigaddset(&one, SIGALRM), sigprocmask(SIG_BLOCK, &one, nullptr);
    timespec soon{0, 10000000}, late{60, 0};
    works("sigtimedwait with a timeout", sigtimedwait(&one, nullptr, &soon) < 0 && errno == EAGAIN);
    itimerval ring{{0, 0}, {0, 10000}};
    works("setitimer and sigtimedwait", setitimer(ITIMER_REAL, &ring, nullptr) == 0 && sigtimedwait(&one, nullptr, &late) == SIGALRM);
}

// Calls that walk the list of the machine's processes.
PROGRAM(processes_walked) {
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    must_answer("kill of everybody", kill(-1, 0), EPERM);
    must_answer("a priority of a user", syscall(SYS_getpriority, PRIO_USER, getuid()), EPERM);
    must_answer("priorities of a user", setpriority(PRIO_USER, getuid(), 19), EPERM);
    must_answer("the priority of init", setpriority(PRIO_PROCESS, 1, 19), EPERM);
    kill(child, SIGKILL);
}
PROGRAM(processes_own) {
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        kill(0, SIGABRT);
    }
    int status = 0;
    works("a signal to its group", waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGABRT);
    int before = getpriority(PRIO_PROCESS, 0);
    works("a priority", nice(5) == before + 5 && getpriority(PRIO_PROCESS, 0) == before + 5);
}

// Numbers that the kernel counts for the whole machine tell what others do.
PROGRAM(counts_seen) {
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    must_answer("pidfd_open", syscall(434, child, 0), ENOSYS);
    int handle = -1;
    pid_t twin = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, &handle, nullptr, 0);
    if (twin == 0) _exit(0);
    must_answer("clone with a pidfd", twin, EPERM);
    int pair[2], value[4];
    works("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    const struct { const char *name; int option; } options[] = {{"SO_COOKIE", 57}, {"SO_NETNS_COOKIE", 71}, {"SO_PEERPIDFD", 77}};
    for (auto &each : options) {
        socklen_t size = each.option == 77 ? sizeof value[0] : sizeof(uint64_t);
        must_answer(each.name, getsockopt(pair[0], SOL_SOCKET, each.option, value, &size), ENOPROTOOPT);
    }
    must_fail("SO_PASSPIDFD", setsockopt(pair[0], SOL_SOCKET, 76, value, sizeof value[0]));
    struct statx facts;
    must_answer("a unique mount id", syscall(SYS_statx, AT_FDCWD, "/", 0, 0x4000, &facts), EINVAL);
    kill(child, SIGKILL);
}
PROGRAM(group_number) {
    FILE *groups = fopen("/proc/self/cgroup", "r");
    char line[4096];
    while (groups && fgets(line, sizeof line, groups)) {
        line[strcspn(line, "\n")] = 0;
        const char *path = strrchr(line, ':') + 1;
        say("%s the group %s", strpbrk(path, "0123456789") ? "ESCAPED" : "DENIED", path);
    }
}
PROGRAM(counts_own) {
    pid_t child = fork();
    if (child == 0) _exit(7);
    int status, pair[2], type = 0;
    works("wait", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    socklen_t size = sizeof type;
    works("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    works("SO_TYPE", getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM);
    ucred peer{};
    size = sizeof peer;
    works("SO_PEERCRED", getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid());
    struct statx facts;
    works("statx", statx(AT_FDCWD, "/", 0, STATX_ALL, &facts) == 0 && S_ISDIR(facts.stx_mode));
}
PROGRAM(network_tables) {
    struct stat of{};
    if (stat("/proc/self/net/unix", &of) == 0 && of.st_uid == 65534) return say("DENIED nothing: this box has no root, and cannot hide its tables");
    for (const char *table : {"unix", "sockstat", "sockstat6", "softnet_stat", "protocols", "netstat", "snmp", "dev", "ptype", "dev_snmp6/lo"})
        must_fail(table, open((std::string("/proc/self/net/") + table).c_str(), O_RDONLY));
    must_fail("the mode of a table", chmod("/proc/self/net/unix", 0444));
    must_fail("a table of a thread", open("/proc/thread-self/net/unix", O_RDONLY));
}
