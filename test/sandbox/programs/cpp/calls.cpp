// Every system call by its number, on each ABI, held against the list that the launcher prints.
#include "probe.hpp"
#include <csignal>
#include <linux/futex.h>
#include <map>
#include <set>
#include <sys/mman.h>
#include <sys/time.h>

static const long LAST = 1100, X32_BIT = 0x40000000;
static const unsigned long SAMPLE = 0x7f7f7f7f7f7f7f7f; // the launcher's list has outcomes for it

struct Row {
    std::string name, outcome;
};
struct Answer {
    long result;
    int error;
};

/// What a call answers in a process of its own; a signal, if it has none. `blocks`: it never returns.
template <class F> static int answered(F call, Answer &answer, bool blocks = false) {
    auto *shared = (Answer *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        *shared = {-2, 0};
        itimerval soon{{0, 0}, {0, 300000}};
        if (blocks) setitimer(ITIMER_REAL, &soon, nullptr);
        long result = call();
        int error = errno;
        *shared = {result, result == -1 ? error : 0};
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    answer = *shared;
    munmap(shared, 4096);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
static long native(long number) {
    errno = 0;
    // the kernel answers ENOSYS for an unknown operation of a futex, as the filter does for an unknown call
    if (number == SYS_futex) return syscall(number, SAMPLE, FUTEX_WAKE, 1, 0, 0, 0);
    // the slot refuses growth only
    if (number == SYS_mremap) return syscall(number, SAMPLE, 4096, SAMPLE, SAMPLE, SAMPLE);
    return syscall(number, SAMPLE, SAMPLE, SAMPLE, SAMPLE, SAMPLE, SAMPLE);
}
/// Calls that the kernel denies itself: ids that the program has not, and limits without a right.
static const std::set<std::string> ALSO_EPERM{"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "capset", "mknod", "mknodat", "chown", "lchown", "fchown", "fchownat"};

#ifdef __x86_64__
/// uretprobe and uprobe: the kernel asks no filter about them. It ends a program that makes them itself, or answers ENXIO.
static bool is_unfiltered(long call) { return call == 335 || call == 336; }
#else
static bool is_unfiltered(long) { return false; }
#endif

/// Allowed calls that a kernel of a supported version may lack: futex_waitv (5.16) and fchmodat2 (6.6).
static bool may_be_missing(long call) { return call == 449 || call == 452; }

static std::string problem(long call, const Row &row, int signal, const Answer &answer) {
    if (is_unfiltered(call) && (signal == SIGILL || answer.error == ENXIO)) return "";
    if (signal == SIGSYS) return "killed";
    if (row.outcome == "ask") return answer.error == (row.name == "sysinfo" ? EFAULT : ENOMEM) ? "" : "was not asked";
    if (row.outcome != "allow") {
        int expected = atoi(row.outcome.c_str());
        return !signal && answer.error == expected && answer.result == (expected ? -1 : 0) ? "" : "was not answered so";
    }
    // reached: it ended the process, blocked, or has an answer of the kernel's own
    if (signal || answer.result == -2 || answer.error == 0) return "";
    if (answer.error == ENOSYS) return may_be_missing(call) ? "" : "does not exist";
    return answer.error == EPERM && !ALSO_EPERM.count(row.name) ? "is denied" : "";
}

PROGRAM(calls_walked) {
    std::map<long, Row> list;
    long number;
    char name[64], outcome[16];
    while (scanf("%ld %63s %15s", &number, name, outcome) == 3) list[number] = {name, outcome};
    works("a list of all calls", list.size() == LAST + 1);
    long wrong = 0, allowed = 0;
    for (const auto &[call, row] : list) {
        Answer answer{};
        int signal = answered([&] { return native(call); }, answer, row.name == "pause");
        std::string why = problem(call, row, signal, answer);
        allowed += row.outcome == "allow";
        if (why.empty()) continue;
        wrong++;
        say("ESCAPED %ld %s (%s) %s: signal %d, result %ld, errno %d", call, row.name.c_str(), row.outcome.c_str(), why.c_str(), signal, answer.result, answer.error);
    }
    say("DENIED all calls but %ld, %ld of them otherwise than listed", allowed, wrong);
}
#ifdef __x86_64__
template <class F> static void all_killed(const char *abi, F call) {
    long survived = 0;
    for (long number = 0; number <= LAST; number++) {
        Answer answer{};
        int signal = answered([&] { return call(number); }, answer);
        if (signal == SIGSYS) continue;
        if (survived++ < 5) say("ESCAPED %s call %ld: signal %d, result %ld", abi, number, signal, answer.result);
    }
    say("DENIED %s calls, %ld survived", abi, survived);
}
PROGRAM(calls_of_other_abis) {
    all_killed("x32", [](long number) { return syscall(X32_BIT + number, SAMPLE, SAMPLE, SAMPLE, SAMPLE, SAMPLE, SAMPLE); });
    all_killed("i386", [](long number) {
        long result = number;
        asm volatile("int $0x80" : "+a"(result) : "b"(0x7f7f7f7f), "c"(0x7f7f7f7f), "d"(0x7f7f7f7f) : "memory", "r8", "r9", "r10", "r11");
        return result;
    });
}
/// The kernel writes a line into its log when a filter kills a process, and none when a filter sends a signal.
static void end_when_caught(int) { _exit(0); }
PROGRAM(other_abis_unrecorded) {
    const std::pair<const char *, void (*)()> entries[] = {
        {"x32", [] { syscall(X32_BIT + SYS_getpid); }},
        {"i386", [] {
            long result = 20;
            asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        }},
    };
    for (const auto &[abi, enter] : entries) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSYS, end_when_caught);
            enter();
            _exit(1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        say("%s a record about %s: status %d", status == 0 ? "DENIED" : "ESCAPED", abi, status);
    }
}
#endif
