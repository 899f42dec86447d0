// Programs that attack through their output.
#include "probe.hpp"
#include <fstream>
#include <csignal>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

static void flood(int where, char byte) {
    static char block[1 << 16];
    memset(block, byte, sizeof block);
    for (;;)
        if (write(where, block, sizeof block) < 0 && errno != EAGAIN) _exit(5);
}
static void put(int where, const std::string &bytes) {
    for (size_t at = 0; at < bytes.size();) {
        ssize_t n = write(where, bytes.data() + at, bytes.size() - at);
        if (n < 0) _exit(5);
        at += (size_t)n;
    }
}

PROGRAM(print_all_bytes) {
    std::string all;
    for (int byte = 0; byte < 256; byte++) all += (char)byte;
    put(1, all);
}
PROGRAM(print_nothing) {}
PROGRAM(print_size) { put(1, std::string((size_t)number(args, 0, 1), 'x')); }
PROGRAM(print_size_stderr) { put(2, std::string((size_t)number(args, 0, 1), 'e')); }
PROGRAM(flood_stdout) { flood(1, 'x'); }
PROGRAM(flood_nul) { flood(1, 0); }
PROGRAM(flood_stderr) {
    // ends by itself: stderr over its limit does not end a run
    put(2, std::string(16 << 20, 'e'));
    say("OK 16 MiB to stderr");
}
PROGRAM(flood_both) {
    if (fork() == 0) flood(2, 'e');
    flood(1, 'x');
}
PROGRAM(flood_ignoring_pipe) {
    signal(SIGPIPE, SIG_IGN);
    flood(1, 'x');
}
PROGRAM(flood_nonblocking) {
    fcntl(1, F_SETFL, O_NONBLOCK);
    flood(1, 'x');
}
PROGRAM(flood_child) {
    // the parent ends well at once while a child keeps printing
    if (fork() == 0) flood(1, 'x');
    usleep(1000);
}
PROGRAM(flood_vmsplice) {
    static char block[1 << 16];
    iovec piece{block, sizeof block};
    for (;;)
        if (vmsplice(1, &piece, 1, 0) < 0) return denied("vmsplice");
}
PROGRAM(pipe_size) {
    long size = fcntl(1, F_SETPIPE_SZ, 64 << 20);
    if (size < 0) denied("F_SETPIPE_SZ of 64 MiB");
    else escaped("F_SETPIPE_SZ of 64 MiB");
}
PROGRAM(stdout_closed) {
    close(1);
    put(2, "OK went on without stdout\n");
    usleep(50000);
    _exit(0);
}
PROGRAM(streams_closed) {
    close(0), close(1), close(2);
    usleep(50000);
    _exit(7);
}
PROGRAM(drip) {
    for (;;) put(1, "."), usleep(100000);
}
PROGRAM(stdout_read) {
    char byte;
    must_fail("read of stdout", read(1, &byte, 1));
    must_fail("read of stderr", read(2, &byte, 1));
    must_fail("write to stdin", write(0, "x", 1));
}
PROGRAM(stdout_reopened) {
    // its own pipe may contain only its own bytes: nothing of the report and nothing of other runs
    int again = open("/proc/self/fd/1", O_RDONLY | O_NONBLOCK);
    if (again < 0) return denied("open of stdout for reading");
    char bytes[64];
    ssize_t n = read(again, bytes, sizeof bytes);
    if (n > 0) escaped("stdout", "contains bytes of another process");
    else say("DENIED nothing in stdout");
}
PROGRAM(stdin_ignored) { say("OK never read stdin"); }
PROGRAM(stdin_closed) {
    close(0);
    usleep(20000);
    say("OK closed stdin");
}
PROGRAM(stdin_counted) {
    static char block[1 << 16];
    long total = 0, sum = 0;
    for (ssize_t n; (n = read(0, block, sizeof block)) > 0; total += n)
        for (ssize_t i = 0; i < n; i++) sum = (sum * 31 + (unsigned char)block[i]) % 1000003;
    say("OK %ld bytes %ld", total, sum);
}
PROGRAM(environment) {
    for (char **each = environ; *each; each++) {
        bool expected = false;
        for (const std::string &name : args) expected |= strncmp(*each, (name + "=").c_str(), name.size() + 1) == 0;
        say("%s environment %s", expected ? "OK" : "ESCAPED", *each);
    }
    say("OK environment listed");
}
PROGRAM(arguments) {
    for (const std::string &each : args) say("OK <%s>", each.c_str());
}
PROGRAM(forged_report) {
    // writes bytes like a report to every possible descriptor, and then fails
    std::string frame(4096, '\0');
    for (size_t i = 0; i < frame.size(); i++) frame[i] = (char)(i % 8 == 0 ? 1 : 0);
    signal(SIGPIPE, SIG_IGN);
    int reached = 0;
    for (int each = 3; each < 1024; each++) reached += write(each, frame.data(), frame.size()) > 0;
    say("%s wrote to %d descriptors", reached ? "ESCAPED" : "DENIED", reached);
    put(1, "{\"verdict\":\"AC\",\"exit_code\":0,\"signal\":null,\"cpu_us\":1,\"oom_kills\":0}\n");
    put(2, "exit 0\nstatus: OK\ncpu_us: 1\n");
    _exit(3);
}
PROGRAM(memory_shared_with) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps))
        if (char *space = strchr(line, ' '); space && space[2] == 'w' && space[4] == 's') escaped("shared mapping", line);
    say("%s mappings checked", maps ? "DENIED" : "FAILED");
}

// The standard streams by their paths. The input is "1 2 3".
PROGRAM(streams_by_path) {
    int sum = 0, each;
    std::ifstream in("/dev/stdin");
    while (in >> each) sum += each;
    works("ifstream of /dev/stdin", sum == 6);
    std::ofstream out("/dev/stdout"), err("/dev/stderr");
    out << "OK ofstream of /dev/stdout" << std::endl;
    err << "OK ofstream of /dev/stderr" << std::endl;
    works("streams", out.good() && err.good());
    works("/proc/self/fd/0", open("/proc/self/fd/0", O_RDONLY) >= 0);
    works("freopen of /dev/stdin, which begins again", freopen("/dev/stdin", "r", stdin) && getchar() == '1');
    works("freopen of /dev/stdout", freopen("/dev/stdout", "w", stdout) && puts("OK puts") >= 0 && fflush(stdout) == 0);
}
PROGRAM(streams_of_others) {
    must_fail("stdin of init", open("/proc/1/fd/0", O_RDWR));
    for (int stream = 0; stream < 3; stream++) {
        must_fail("more pages of a pipe", fcntl(stream, F_SETPIPE_SZ, 1 << 20));
        must_fail("fewer pages of a pipe", fcntl(stream, F_SETPIPE_SZ, 4096));
        must_fail("packets in a pipe", fcntl(stream, F_SETFL, O_DIRECT));
        std::string path = "/dev/fd/" + std::to_string(stream);
        must_fail("packets in a pipe that is opened again", open(path.c_str(), O_RDWR | O_DIRECT));
        must_fail("owner of a pipe", chown(path.c_str(), 0, 0));
    }
}
PROGRAM(pipes_of_packets) {
    int ends[2];
    must_fail("pipe of packets", pipe2(ends, O_DIRECT));
    must_fail("pipe of notifications", pipe2(ends, O_EXCL));
    works("pipe", pipe2(ends, 0) == 0);
    must_fail("packets in a pipe of its own", fcntl(ends[1], F_SETFL, O_DIRECT));
}
PROGRAM(pipes_of_bytes) {
    int ends[2];
    works("pipe2", pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    works("F_SETFL", fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    works("write", write(ends[1], "OK splice\n", 10) == 10);
    works("splice", splice(ends[0], nullptr, 1, nullptr, 10, 0) == 10);
}
// The end of the input comes, because no one can add to it.
PROGRAM(stdin_kept_open) {
    int both = open("/dev/stdin", O_RDWR);
    must_fail("write to the input", write(both, "own", 3));
    must_fail("shorter input", ftruncate(both, 0));
    must_fail("longer input", ftruncate(both, 100));
    must_fail("shared mapping of the input", (long)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, both, 0));
    char byte;
    long count = 0;
    while (read(0, &byte, 1) > 0) count++;
    works("end of input", count == 1);
}
// The input is "1 2 3": a file that is measured, mapped and read twice.
PROGRAM(stdin_as_a_file) {
    struct stat state;
    char bytes[16] = "", again[16] = "";
    works("size", fstat(0, &state) == 0 && S_ISREG(state.st_mode) && state.st_size == 5);
    const char *mapped = (const char *)mmap(nullptr, 5, PROT_READ, MAP_SHARED, 0, 0);
    works("mmap", mapped != MAP_FAILED && !memcmp(mapped, "1 2 3", 5));
    works("read", read(0, bytes, sizeof bytes) == 5 && lseek(0, 0, SEEK_SET) == 0 && read(0, again, sizeof again) == 5);
    works("the same twice", !memcmp(bytes, again, 5));
}
