// Programs that try to use up a resource. Each stops by itself far above the limit and then prints ESCAPED.
#include "bomb.hpp"
#include <csignal>
#include <mqueue.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <ctime>

static volatile char sink;

static void touch(char *memory, size_t size) {
    for (size_t at = 0; at < size; at += 4096) memory[at] = (char)(at | 1);
}
static char *fresh(size_t size, int flags) {
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : (char *)memory;
}

PROGRAM(fork_count) {
    until_it_fails("fork", 2000, [](long) {
        pid_t child = fork();
        if (child == 0)
            for (;;) pause();
        return child > 0;
    });
}
PROGRAM(fork_few) {
    for (int i = 0; i < 20; i++)
        if (fork() == 0) _exit(0);
    int ended = 0;
    while (wait(nullptr) > 0) ended++;
    works("20 children", ended == 20);
}
PROGRAM(fork_storm) {
    for (;;)
        if (fork() == 0) setsid();
}
PROGRAM(fork_churn) {
    signal(SIGCHLD, SIG_IGN);
    for (;;)
        if (fork() == 0) _exit(0);
}
PROGRAM(zombies) {
    until_it_fails("zombies", 2000, [](long) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        return child > 0;
    });
}
static void *asleep(void *) {
    for (;;) pause();
}
static void *add_one(void *number) {
    ++*(int *)number;
    return nullptr;
}
PROGRAM(thread_count) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    until_it_fails("thread", 2000, [&](long) {
        pthread_t thread;
        errno = pthread_create(&thread, &small, asleep, nullptr);
        return errno == 0;
    });
    _exit(0);
}
PROGRAM(thread_few) {
    pthread_t threads[8];
    int numbers[8] = {}, sum = 0;
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], nullptr, add_one, &numbers[i])) return works("thread", false);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], nullptr), sum += numbers[i];
    works("8 threads", sum == 8);
}

PROGRAM(memory_touch) {
    size_t size = number(args, 0, 64) * MIB;
    char *memory = fresh(size, MAP_PRIVATE);
    if (memory) touch(memory, size);
    works("memory", memory != nullptr);
}
PROGRAM(memory_bomb) {
    for (long total = 0; total < 4096; total += 4) {
        char *memory = fresh(4 * MIB, MAP_PRIVATE);
        if (!memory) return denied("memory");
        touch(memory, 4 * MIB);
    }
    escaped("memory", "4 GiB");
}
PROGRAM(memory_shared) {
    char *memory = fresh(1024 * MIB, MAP_SHARED);
    if (!memory) return denied("shared memory");
    touch(memory, 1024 * MIB);
    escaped("shared memory", "1 GiB");
}
PROGRAM(memory_children) {
    // each child is well below the limit, together they are over it
    int ready[2];
    if (pipe(ready)) return;
    long children = number(args, 0, 12), size = number(args, 1, 64) * MIB;
    for (long i = 0; i < children; i++)
        if (fork() == 0) {
            char *memory = fresh(size, MAP_PRIVATE);
            if (memory) touch(memory, size);
            if (write(ready[1], "x", 1) != 1) _exit(1);
            for (;;) pause();
        }
    close(ready[1]);
    fcntl(ready[0], F_SETFL, O_NONBLOCK);
    char byte;
    long have = 0, gone = 0;
    while (have + gone < children) { // a child that reports and is then killed counts twice, which does no harm
        if (read(ready[0], &byte, 1) == 1) have++;
        else if (waitpid(-1, nullptr, WNOHANG) > 0) gone++;
        else usleep(1000);
    }
    say("%s %ld children hold %ld MiB", have * size > 600 * (long)MIB ? "ESCAPED" : "OK", have, have * size / (long)MIB);
    kill(0, SIGKILL);
}
PROGRAM(memory_in_turn) {
    // one child after another; the kernel kills those that are over the limit, and writes to the machine's log each time
    long children = number(args, 0, 400), size = number(args, 1, 300) * MIB, killed = 0;
    for (long i = 0; i < children; i++) {
        if (fork() == 0) {
            char *memory = fresh(size, MAP_PRIVATE);
            if (memory) touch(memory, size);
            _exit(0);
        }
        int status = 0;
        wait(&status);
        killed += WIFSIGNALED(status);
    }
    say("%s %ld children were killed", killed ? "ESCAPED" : "OK", killed);
}
PROGRAM(memory_swap_hint) {
    // pages out its memory repeatedly: with swap the peak would stay small
    size_t size = 1024 * MIB;
    char *memory = fresh(size, MAP_PRIVATE);
    if (!memory) return denied("memory");
    for (size_t at = 0; at < size; at += 4 * MIB) {
        touch(memory + at, 4 * MIB);
        madvise(memory + at, 4 * MIB, 21 /* MADV_PAGEOUT */);
    }
    escaped("memory", "1 GiB in swap");
}
PROGRAM(memory_maps) {
    // alternating protections, so that no two mappings merge
    until_it_fails("mappings", 200000, [](long count) {
        void *page = mmap(nullptr, 4096, count % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return page != MAP_FAILED;
    });
}
PROGRAM(memory_lock) {
    char *memory = fresh(128 * MIB, MAP_PRIVATE);
    must_fail("mlock", memory ? mlock(memory, 128 * MIB) : -1);
}
PROGRAM(memory_overcommit) {
    // reserving much and touching little is honest: runtimes reserve address space
    char *memory = (char *)mmap(nullptr, 8192 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) touch(memory, MIB);
    works("8 GiB reserved", memory != MAP_FAILED);
}

__attribute__((noinline)) static int deeper(int level) {
    char frame[4096];
    frame[level % 4096] = (char)level;
    sink = frame[0];
    return level < 0 ? 0 : deeper(level + 1) + frame[level % 4096];
}
PROGRAM(stack_bomb) { say("ESCAPED stack %d", deeper(0)); }
__attribute__((noinline)) static int down(int level) {
    char frame[1024];
    frame[0] = (char)level;
    sink = frame[0];
    return level == 0 ? 0 : down(level - 1) + 1;
}
PROGRAM(stack_some) { works("4,000 frames of 1 KiB", down(4000) == 4000); }

PROGRAM(fd_bomb) {
    until_it_fails("descriptors", 2000, [](long) { return open("/dev/null", O_RDONLY) >= 0; });
}
PROGRAM(fd_some) {
    int good = 0;
    for (int i = 0; i < 40; i++) good += open("/dev/null", O_RDONLY) >= 0;
    works("40 descriptors", good == 40);
}
static bool send_descriptor(int over, int descriptor) {
    char control[CMSG_SPACE(sizeof(int))] = {}, byte = 'x';
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(over, &message, MSG_DONTWAIT) == 1;
}
PROGRAM(fd_in_flight) {
    // descriptors in socket buffers are not in the table that RLIMIT_NOFILE limits
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) return denied("socketpair");
    until_it_fails("descriptors in flight", 4000, [&](long count) {
        if (count % 8 == 7) { // a queue takes about ten datagrams: continue with a new pair, and send the old one
            int next[2];
            if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, next) || !send_descriptor(next[0], pair[1])) return false;
            close(pair[0]), close(pair[1]);
            pair[0] = next[0], pair[1] = next[1];
        }
        return send_descriptor(pair[0], 1);
    });
}
PROGRAM(pipe_bomb) {
    std::vector<char> block(64 << 10, 'x');
    long filled = 0;
    until_it_fails("pipes", 2000, [&](long) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK)) return false;
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        for (ssize_t n; (n = write(ends[1], block.data(), block.size())) > 0;) filled += n;
        return true;
    });
    say("%s pipes hold %ld MiB", filled > 256 * (long)MIB ? "ESCAPED" : "OK", filled >> 20);
}
PROGRAM(pipe_some) {
    int ends[2];
    char back[6] = {};
    bool good = !pipe(ends) && write(ends[1], "hello", 5) == 5 && read(ends[0], back, 5) == 5 && !strcmp(back, "hello");
    works("pipe", good);
}
PROGRAM(socket_buffers) {
    std::vector<char> block(32 << 10, 'x');
    long filled = 0;
    until_it_fails("socket pairs", 2000, [&](long) {
        int ends[2], size = 64 << 20;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return false;
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        for (ssize_t n; (n = send(ends[0], block.data(), block.size(), MSG_DONTWAIT)) > 0;) filled += n;
        return true;
    });
    say("%s socket buffers hold %ld MiB", filled > 256 * (long)MIB ? "ESCAPED" : "OK", filled >> 20);
}

PROGRAM(shm_posix) {
    int file = shm_open("/bomb", O_RDWR | O_CREAT, 0600);
    if (file < 0) return denied("shm_open");
    std::vector<char> block(MIB, 'x');
    until_it_fails("MiB of /dev/shm", 1024, [&](long) { return write(file, block.data(), block.size()) == (ssize_t)block.size(); });
}
PROGRAM(shm_sysv) {
    until_it_fails("SysV segments of 16 MiB", 128, [](long) {
        int id = shmget(IPC_PRIVATE, 16 * MIB, IPC_CREAT | 0600);
        void *memory = id < 0 ? (void *)-1 : shmat(id, nullptr, 0);
        if (memory == (void *)-1) return false;
        touch((char *)memory, 16 * MIB);
        return shmdt(memory) == 0; // no longer mapped, but it still exists
    });
}
PROGRAM(messages_sysv) {
    std::vector<char> message(8192 + sizeof(long), 1);
    until_it_fails("SysV message queues", 100000, [&](long) {
        int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
        if (id < 0) return false;
        while (msgsnd(id, message.data(), 8192, IPC_NOWAIT) == 0) {}
        return errno == EAGAIN;
    });
}
PROGRAM(semaphores_sysv) {
    until_it_fails("SysV semaphore sets", 100000, [](long) { return semget(IPC_PRIVATE, 32000, IPC_CREAT | 0600) >= 0; });
}
PROGRAM(messages_posix) {
    char message[8192] = {};
    long held = 0;
    until_it_fails("POSIX message queues", 2000, [&](long count) {
        mqd_t queue = mq_open(("/bomb" + std::to_string(count)).c_str(), O_RDWR | O_CREAT | O_NONBLOCK, 0600, nullptr);
        if (queue < 0) return false;
        while (mq_send(queue, message, sizeof message, 0) == 0) held += sizeof message;
        return mq_close(queue) == 0;
    });
    say("OK queues hold %ld KiB", held >> 10);
}
PROGRAM(signals_queued) {
    sigset_t one;
    sigemptyset(&one), sigaddset(&one, SIGRTMIN), sigprocmask(SIG_BLOCK, &one, nullptr);
    until_it_fails("queued signals", 1000000, [](long) { return sigqueue(getpid(), SIGRTMIN, sigval{}) == 0; });
}
PROGRAM(ipc_some) {
    int shared = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
    void *memory = shared < 0 ? (void *)-1 : shmat(shared, nullptr, 0);
    works("SysV memory", memory != (void *)-1);
    works("SysV semaphore", semget(IPC_PRIVATE, 1, IPC_CREAT | 0600) >= 0);
    int posix = shm_open("/some", O_RDWR | O_CREAT, 0600);
    works("POSIX memory", posix >= 0 && ftruncate(posix, MIB) == 0);
    mq_attr small{0, 2, 64, 0, {}};
    works("POSIX queue", mq_open("/some", O_RDWR | O_CREAT, 0600, &small) != (mqd_t)-1);
}

PROGRAM(limits_raise) {
    struct { const char *name; int which; } table[] = {{"core", RLIMIT_CORE}, {"nofile", RLIMIT_NOFILE}, {"fsize", RLIMIT_FSIZE},
        {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"sigpending", RLIMIT_SIGPENDING},
        {"nice", RLIMIT_NICE}, {"rtprio", RLIMIT_RTPRIO}};
    for (auto &each : table) {
        rlimit now{};
        getrlimit((__rlimit_resource)each.which, &now);
        if (now.rlim_max == RLIM_INFINITY) {
            escaped(each.name, "is unlimited");
            continue;
        }
        rlimit more{now.rlim_max + 1, now.rlim_max + 1};
        must_fail(each.name, setrlimit((__rlimit_resource)each.which, &more));
    }
}
PROGRAM(limits_lower) {
    rlimit less{32, 32};
    works("fewer descriptors", setrlimit(RLIMIT_NOFILE, &less) == 0);
}
