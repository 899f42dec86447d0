// Programs that leave traces, and programs that look for the traces of other runs.
#include "probe.hpp"
#include "look.hpp"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

// A descriptor can be in a socket's queue, and a socket in its own: then no process has it, and it exists.
static bool send_descriptors(int over, const std::vector<int> &descriptors) {
    std::vector<char> control(CMSG_SPACE(sizeof(int) * descriptors.size()));
    char byte = 'x';
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1, message.msg_control = control.data(), message.msg_controllen = control.size();
    cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    memcpy(CMSG_DATA(head), descriptors.data(), sizeof(int) * descriptors.size());
    return sendmsg(over, &message, MSG_DONTWAIT) == 1;
}
static int named_socket(bool listens) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, "\0kept", 5);
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t size = offsetof(sockaddr_un, sun_path) + 5;
    int failed = listens ? bind(made, (sockaddr *)&name, size) || listen(made, 5) : connect(made, (sockaddr *)&name, size);
    return failed ? -1 : made;
}
PROGRAM(sockets_kept) {
    int pair[2], memory = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    std::vector<char> block(32 << 20, 'x');
    works("socketpair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    works("memory", write(memory, block.data(), block.size()) == (ssize_t)block.size());
    std::vector<int> all{pair[0], pair[1], memory, named_socket(true), open("/proc/self/ns/ipc", O_RDONLY)};
    while (all.size() < 60) all.push_back(pair[all.size() % 2]);
    works("a cycle", send_descriptors(pair[0], all));
}
PROGRAM(sockets_found) {
    int pair[2];
    must_fail("a name of the run before", named_socket(false));
    if (named_socket(true) < 0) escaped("a name that is not free", errno_name());
    works("socketpair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    if (!send_descriptors(pair[0], std::vector<int>(60, 0))) escaped("a limit that is used up", errno_name());
}
PROGRAM(descriptor_passed) {
    int pair[2], pipes[2];
    works("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pipes) == 0);
    works("sendmsg", send_descriptors(pair[0], {pipes[1]}));
    char control[CMSG_SPACE(sizeof(int))], byte;
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof control;
    works("recvmsg", recvmsg(pair[1], &message, 0) == 1 && CMSG_FIRSTHDR(&message));
    int passed;
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    works("the same pipe", write(passed, "y", 1) == 1 && read(pipes[0], &byte, 1) == 1 && byte == 'y');
}

// Queues and locked segments count for a user, and the kernel removes an ipc namespace some time after its last process.
static long queues_made(long most) {
    mq_attr one{0, 1, 1000, 0, {}};
    long made = 0;
    for (; made < most; made++) {
        mqd_t queue = mq_open(("/queue" + std::to_string(made)).c_str(), O_RDWR | O_CREAT, 0600, &one);
        if (queue < 0) break;
        mq_close(queue);
    }
    return made;
}
PROGRAM(queues_kept) {
    works("all queues", queues_made(2000) < 2000);
    for (int each = 0; each < 5000; each++) semget(IPC_PRIVATE, 50, IPC_CREAT | 0600); // this takes long to remove
}
PROGRAM(queues_found) { works("40 queues", queues_made(40) == 40); }
PROGRAM(segments_locked) {
    int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    must_fail("SHM_LOCK", shmctl(segment, SHM_LOCK, nullptr));
}
PROGRAM(segment_used) {
    int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    shmid_ds facts{};
    works("IPC_STAT", shmctl(segment, IPC_STAT, &facts) == 0 && facts.shm_segsz == 4096);
    works("IPC_RMID", shmctl(segment, IPC_RMID, nullptr) == 0);
    char page[4096];
    works("mlock", mlock(page, sizeof page) == 0);
}

// A program may change its own code: its pages are copies, and the shared file does not change.
__attribute__((noinline)) static int answer() {
    asm volatile("");
    return 42;
}
PROGRAM(code_changed) {
    const unsigned char other[] = {0xb8, 7, 0, 0, 0, 0xc3}; // mov eax, 7; ret
    const uintptr_t at = (uintptr_t)&answer, page = at & ~(uintptr_t)4095;
    bool open_to_write = mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
    if (open_to_write) memcpy((void *)at, other, sizeof other);
    works("own code changed", open_to_write && answer() == 7);
}
PROGRAM(code_is_whole) { works("code is whole", answer() == 42); }
