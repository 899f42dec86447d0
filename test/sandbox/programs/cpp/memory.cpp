// Programs whose memory is known to the page, and programs that leave some to the kernel.
#include "probe.hpp"
#include <csignal>
#include <ctime>
#include <dirent.h>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>

// Pages of the program itself: private ones, and not those of files.
static long own_bytes() {
    char text[4096] = "";
    int file = open("/proc/self/status", O_RDONLY);
    if (read(file, text, sizeof text - 1) < 0) return 0;
    close(file);
    const char *line = strstr(text, "RssAnon:");
    return line ? atol(line + 8) * 1024 : 0;
}
static char *touched(long bytes) {
    char *memory = (char *)mmap(nullptr, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    for (long at = 0; at < bytes; at += 4096) memory[at] = (char)(at | 1);
    return memory;
}

// Touches pages of exactly this many bytes.
PROGRAM(memory_bytes) {
    bool done = touched(number(args, 0, 4096)) != nullptr;
    say("own_bytes %ld", own_bytes());
    works("memory", done);
}
// Touches pages until it has this many bytes in all.
PROGRAM(memory_in_all) {
    long wanted = number(args, 0, 1 << 20);
    bool done = touched(wanted - own_bytes()) != nullptr;
    say("own_bytes %ld", own_bytes());
    works("memory", done);
}
// Touches memory, frees it, and then loads files, so that page cache takes its place.
PROGRAM(memory_then_files) {
    long bytes = number(args, 0, 1 << 20);
    char *memory = touched(bytes);
    if (!memory) return works("memory", false);
    munmap(memory, (size_t)bytes);
    static char block[1 << 16];
    int file = open("/box/large", O_RDWR | O_CREAT, 0600);
    for (long at = 0; at < bytes / 2; at += (long)sizeof block)
        if (write(file, block, sizeof block) < 0) return works("a file", false);
    works("memory and files", true);
}

// A name that does not exist stays in the kernel's cache of names, charged to the group that asked for it first.
static void ask_for_names(long count) {
    char name[256];
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (long each = 0; each < count; each++) {
        snprintf(name, sizeof name, "/usr/%0160ld.%020ld.%020ld", now.tv_sec, now.tv_nsec, each);
        if (access(name, F_OK) == 0) escaped("a name");
    }
}
PROGRAM(names_then_loop) {
    ask_for_names(number(args, 0, 300000));
    say("OK names");
    for (;;) continue;
}
PROGRAM(names_then_orphan) {
    ask_for_names(number(args, 0, 300000));
    if (fork() == 0)
        for (;;) pause();
    say("OK names");
}
PROGRAM(names) {
    ask_for_names(number(args, 0, 300000));
    say("OK names");
}

static double cpu_seconds() {
    timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}
// Output that costs its writer almost nothing.
PROGRAM(output_by_pages) {
    static char block[1 << 16];
    int file = open("block", O_RDWR | O_CREAT, 0600);
    if (write(file, block, sizeof block) < 0) return denied("write");
    for (;;) {
        loff_t start = 0;
        if (splice(file, &start, 2, nullptr, sizeof block, 0) < 0) return denied("splice");
    }
}
static const size_t GIB = 1ul << 30, TIB = 1ul << 40;

static char *mapped(size_t bytes, int prot, int more) {
    void *memory = mmap(nullptr, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
    return memory == MAP_FAILED ? nullptr : (char *)memory;
}
static char *writable(size_t bytes) { return mapped(bytes, PROT_READ | PROT_WRITE, 0); }

// The runtime reports memory that was refused.
PROGRAM(memory_refused) {
    volatile size_t bytes = 64 * TIB;
    say("%p", (void *)new char[bytes]);
}
// The program goes on without the memory.
PROGRAM(memory_refused_caught) {
    volatile size_t bytes = 64 * TIB;
    try {
        say("ESCAPED %p", (void *)new char[bytes]);
    } catch (const std::bad_alloc &) {
        say("OK without the memory");
    }
}
// Fails with a runtime's words after everything that may look like a refusal, and is none.
PROGRAM(memory_refusal_forged) {
    if (!mapped(TIB, PROT_NONE, 0) || !mapped(TIB, PROT_READ | PROT_WRITE, MAP_NORESERVE)) return works("reservations", false);
    mmap(nullptr, 64 * TIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, 0); // pipes have no pages
    mremap(nullptr, 4096, 1 << 20, 0);
    rlimit own{1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &own);
    if (writable(8 << 20)) return escaped("a limit of its own");
    throw std::bad_alloc();
}
// Asks without end, with signals that interrupt its questions; then says how many were refused.
PROGRAM(memory_refused_often) {
    struct sigaction nothing{};
    nothing.sa_handler = [](int) {};
    nothing.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &nothing, nullptr);
    itimerval often{{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, nullptr);
    char *small = writable(4096);
    timespec begin{}, now{};
    long refused = 0, ms = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (; ms < number(args, 0, 300); refused += 2) {
        if (writable(64 * TIB)) return escaped("64 TiB");
        if (mremap(small, 4096, TIB, MREMAP_MAYMOVE) != MAP_FAILED) return escaped("1 TiB");
        clock_gettime(CLOCK_MONOTONIC, &now);
        ms = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
    }
    say("%s refused %ld in %ld ms", refused > (ms / 10 + 3) * 8 ? "ESCAPED" : "DENIED", refused, ms);
}
// Memory that is reserved and not used is no memory.
PROGRAM(memory_sparse) {
    volatile size_t gib = GIB;
    char *heap = new char[gib];
    heap[5] = 1;
    char *reserved = mapped(TIB, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    works("1 GiB of the heap, and 2 TiB reserved", reserved && mapped(TIB, PROT_NONE, 0));
    works("less of it", mremap(reserved, TIB, 8 * GIB, 0) != MAP_FAILED);
}
// A mapping that needs no accounting, so that nothing but the launcher decides about its growth.
PROGRAM(memory_grown) {
    char *reserved = mapped(GIB, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    if (mremap(reserved, GIB, 6 * GIB, MREMAP_MAYMOVE) == MAP_FAILED) return denied("6 GiB");
    say("OK 6 GiB");
}
// Many messages, each written at once.
PROGRAM(messages) {
    static char block[1 << 14];
    memset(block, 'm', sizeof block);
    long left = number(args, 0, 1 << 20);
    for (long each; left > 0; left -= each) {
        each = left < (long)sizeof block ? left : (long)sizeof block;
        if ((each = write(2, block, (size_t)each)) < 0) return denied("write");
    }
    say("OK messages");
}
// Output that costs its reader a call for each byte.
PROGRAM(output_by_bytes) {
    while (cpu_seconds() < 0.5)
        if (write(2, "e", 1) < 0) return denied("write");
    say("OK bytes");
}
