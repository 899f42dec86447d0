// Programs that leave traces, and programs that look for the traces of other runs.
#include "probe.hpp"
#include "look.hpp"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/xattr.h>

// The next run in the slot, or a simultaneous run in another slot, might find these.
static void each_writable(const std::string &directory, int depth, const std::vector<std::string> &skip, const std::string &, void (*see)(const std::string &, const std::string &), const std::string &marker) {
    struct stat at{};
    if (lstat(directory.c_str(), &at) || !S_ISDIR(at.st_mode) || depth > 6) return;
    for (const std::string &each : skip)
        if (directory == each) return;
    see(directory, marker);
    each_entry(directory, [&](const std::string &name) { each_writable((directory == "/" ? "/" : directory + "/") + name, depth + 1, skip, "", see, marker); });
}
static const std::vector<std::string> READ_ONLY_TREES{"/proc", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc"};

PROGRAM(leave_marker) {
    const std::string marker = args.at(0);
    each_writable("/", 0, READ_ONLY_TREES, "", [](const std::string &directory, const std::string &text) {
        int file = open((directory + "/left-" + text).c_str(), O_WRONLY | O_CREAT, 0666);
        if (file >= 0 && write(file, text.data(), text.size()) > 0) say("OK left in %s", directory.c_str());
        close(file);
        setxattr(directory.c_str(), ("user." + text).c_str(), "1", 1, 0);
        chmod(directory.c_str(), 0777);
    }, marker);
    int segment = shmget(0x5eed, 4096, IPC_CREAT | 0666);
    if (segment >= 0) strcpy((char *)shmat(segment, nullptr, 0), "left");
    say("OK left SysV %d %d %d", segment, msgget(0x5eed, IPC_CREAT | 0666), semget(0x5eed, 1, IPC_CREAT | 0666));
    int posix = shm_open(("/left-" + marker).c_str(), O_RDWR | O_CREAT, 0666);
    mq_attr small{0, 2, 64, 0, {}};
    mqd_t queue = mq_open(("/left-" + marker).c_str(), O_RDWR | O_CREAT, 0666, &small);
    say("OK left POSIX %d %d", posix, queue);
    long key = syscall(SYS_add_key, "user", marker.c_str(), "left", 4, -4 /* user keyring */);
    say("OK left key %ld", key);
    umask(0);
}
/// Leaves all traces and keeps running.
PROGRAM(stay_with_marker) {
    leave_marker(args);
    for (;;) pause();
}
PROGRAM(find_marker) {
    const std::string marker = args.at(0);
    each_writable("/", 0, READ_ONLY_TREES, "", [](const std::string &directory, const std::string &text) {
        each_entry(directory, [&](const std::string &name) {
            if (name.find("left-") != std::string::npos) escaped("file", (directory + "/" + name).c_str());
            std::string content;
            if (slurp(directory + "/" + name, content) && content.find(text) != std::string::npos) escaped("content", (directory + "/" + name).c_str());
        });
        char names[4096];
        ssize_t size = listxattr(directory.c_str(), names, sizeof names);
        if (size > 0 && memmem(names, (size_t)size, text.data(), text.size())) escaped("attribute", directory.c_str());
    }, marker);
    if (shmget(0x5eed, 0, 0) >= 0) escaped("SysV memory");
    if (msgget(0x5eed, 0) >= 0) escaped("SysV queue");
    if (semget(0x5eed, 0, 0) >= 0) escaped("SysV semaphore");
    if (shm_open(("/left-" + marker).c_str(), O_RDONLY, 0) >= 0) escaped("POSIX memory");
    if (mq_open(("/left-" + marker).c_str(), O_RDONLY) != (mqd_t)-1) escaped("POSIX queue");
    if (syscall(SYS_request_key, "user", marker.c_str(), nullptr, 0) >= 0) escaped("key");
    std::string ipc;
    for (const char *table : {"/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem", "/proc/keys", "/proc/net/unix", "/proc/locks"}) {
        ipc.clear();
        if (slurp(table, ipc) && (ipc.find("24301") != std::string::npos || ipc.find(marker) != std::string::npos)) escaped(table);
    }
    say("DENIED nothing left of %s", marker.c_str());
}

// A program may change its own code: its pages are copies, and the shared file does not change.
__attribute__((noinline)) static int answer() {
    asm volatile("");
    return 42;
}
PROGRAM(code_changed) {
    const unsigned char other[] = {0xb8, 7, 0, 0, 0, 0xc3}; // mov eax, 7; ret
    int memory = open("/proc/self/mem", O_RDWR);
    bool wrote = pwrite(memory, other, sizeof other, (off_t)(uintptr_t)&answer) == (ssize_t)sizeof other;
    works("own code changed, through /proc/self/mem", wrote && answer() == 7);
}
PROGRAM(code_is_whole) { works("code is whole", answer() == 42); }
