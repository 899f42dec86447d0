// Programs whose memory is known to the page, and programs that leave some to the kernel.
#include "probe.hpp"
#include <csignal>
#include <ctime>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
// Output that costs its reader a call for each byte.
PROGRAM(output_by_bytes) {
    while (cpu_seconds() < 0.5)
        if (write(2, "e", 1) < 0) return denied("write");
    say("OK bytes");
}
