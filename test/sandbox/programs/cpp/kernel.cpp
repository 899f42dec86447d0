// System calls that no judged program needs. Each has its own program, so that each case tests one mechanism.
#include "probe.hpp"
#include <csignal>
#include <grp.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <sys/io.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/quota.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <ctime>

/// Makes a system call with valid arguments, because EFAULT or EINVAL would prove nothing.
#define MUST_FAIL(program, what, ...) \
    PROGRAM(program) { must_fail(what, syscall(__VA_ARGS__)); }

static pid_t bystander() {
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    return child;
}

PROGRAM(ptrace_any) {
    must_fail("PTRACE_TRACEME", ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
    pid_t child = bystander();
    must_fail("PTRACE_ATTACH child", ptrace(PTRACE_ATTACH, child, nullptr, nullptr));
    must_fail("PTRACE_SEIZE child", ptrace((__ptrace_request)0x4206, child, nullptr, nullptr));
    must_fail("PTRACE_ATTACH init", ptrace(PTRACE_ATTACH, 1, nullptr, nullptr));
    kill(child, SIGKILL);
}
PROGRAM(process_memory) {
    char here[8] = "mine", there[8] = "its";
    pid_t child = bystander();
    iovec local{here, 4}, remote{there, 4};
    must_fail("process_vm_writev child", process_vm_writev(child, &local, 1, &remote, 1, 0));
    must_fail("process_vm_readv child", process_vm_readv(child, &local, 1, &remote, 1, 0));
    must_fail("process_vm_readv init", process_vm_readv(1, &local, 1, &remote, 1, 0));
    kill(child, SIGKILL);
}
PROGRAM(process_madvise_other) {
    pid_t child = bystander();
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    iovec remote{page, 4096};
    int handle = (int)syscall(SYS_pidfd_open, child, 0);
    must_fail("process_madvise", handle < 0 ? -1 : syscall(SYS_process_madvise, handle, &remote, 1, MADV_PAGEOUT, 0));
    kill(child, SIGKILL);
}
PROGRAM(descriptor_theft) {
    int handle = (int)syscall(SYS_pidfd_open, 1, 0);
    must_fail("pidfd_getfd of init", handle < 0 ? -1 : syscall(SYS_pidfd_getfd, handle, 0, 0));
    pid_t child = bystander();
    handle = (int)syscall(SYS_pidfd_open, child, 0);
    must_fail("pidfd_getfd of a child", handle < 0 ? -1 : syscall(SYS_pidfd_getfd, handle, 0, 0));
    must_fail("kcmp with init", syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
    kill(child, SIGKILL);
}
PROGRAM(honest_processes) {
    pid_t child = fork();
    if (child == 0) _exit(7);
    int status;
    works("fork and wait", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    char from[8] = "same", to[8] = {};
    memcpy(to, from, 8);
    works("own memory", !strcmp(to, "same"));
    works("execve", access("/proc/self/exe", X_OK) == 0);
}

PROGRAM(mount_any) {
    must_fail("mount tmpfs", mount("none", "/tmp", "tmpfs", 0, nullptr));
    must_fail("mount proc", mount("none", "/tmp", "proc", 0, nullptr));
    must_fail("bind mount", mount("/", "/tmp", nullptr, MS_BIND | MS_REC, nullptr));
    must_fail("remount of / to write", mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND, nullptr));
    must_fail("move mount", mount("/proc", "/tmp", nullptr, MS_MOVE, nullptr));
    must_fail("umount /proc", umount2("/proc", MNT_DETACH));
    must_fail("umount /tmp", umount2("/tmp", MNT_DETACH));
    must_fail("pivot_root", syscall(SYS_pivot_root, ".", "."));
}
PROGRAM(mount_new_calls) {
    must_fail("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    must_fail("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */));
    must_fail("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0));
    must_fail("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/", 0));
    uint64_t attributes[4] = {0, 1 /* read only */, 0, 0};
    must_fail("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, attributes, sizeof attributes));
}
PROGRAM(files_honest) {
    FILE *file = fopen("own.txt", "w+");
    works("own file", file && fprintf(file, "hello") == 5 && fseek(file, 0, SEEK_SET) == 0 && fgetc(file) == 'h');
}
PROGRAM(unshare_each) {
    static const struct { const char *name; int flag; } kinds[] = {{"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS}, {"network", CLONE_NEWNET},
        {"pid", CLONE_NEWPID}, {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}, {"time", CLONE_NEWTIME}};
    for (auto &kind : kinds) {
        must_fail((std::string("unshare ") + kind.name).c_str(), unshare(kind.flag));
        must_fail((std::string("unshare user and ") + kind.name).c_str(), unshare(kind.flag | CLONE_NEWUSER));
    }
}
PROGRAM(clone_each) {
    static const struct { const char *name; long flag; } kinds[] = {{"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS}, {"network", CLONE_NEWNET},
        {"pid", CLONE_NEWPID}, {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}};
    for (auto &kind : kinds) {
        long child = syscall(SYS_clone, kind.flag | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
        if (child == 0) _exit(0);
        must_fail((std::string("clone ") + kind.name).c_str(), child);
        child = syscall(SYS_clone, kind.flag | CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
        if (child == 0) _exit(0);
        must_fail((std::string("clone user and ") + kind.name).c_str(), child);
    }
}
PROGRAM(clone3_namespaces) {
    clone_args how{};
    how.flags = CLONE_NEWUSER | CLONE_NEWNS, how.exit_signal = SIGCHLD;
    long child = syscall(SYS_clone3, &how, sizeof how);
    if (child == 0) _exit(0);
    must_fail("clone3 user and mount", child);
    how.flags = 0x200000000ULL /* CLONE_INTO_CGROUP */, how.cgroup = 0;
    child = syscall(SYS_clone3, &how, sizeof how);
    if (child == 0) _exit(0);
    must_fail("clone3 into a group", child);
    how = {};
    how.exit_signal = SIGCHLD;
    child = syscall(SYS_clone3, &how, sizeof how);
    if (child == 0) _exit(0);
    // a filter cannot read clone3's arguments, and libc falls back to clone only on ENOSYS
    say("%s clone3 %s", child < 0 && errno == ENOSYS ? "DENIED" : "ESCAPED", errno_name());
}
static void *nothing(void *) { return nullptr; }
PROGRAM(threads_honest) {
    pthread_t thread;
    works("pthread_create", pthread_create(&thread, nullptr, nothing, nullptr) == 0 && pthread_join(thread, nullptr) == 0);
    pid_t child = vfork();
    if (child == 0) _exit(0);
    works("vfork", child > 0);
}
/// FUTEX_WAKE_OP sets the second word, and wakes nobody.
static long set_by_futex(int operation, int argument, int private_flag) {
    static int words[2];
    return syscall(SYS_futex, &words[0], FUTEX_WAKE_OP | private_flag, 1, 1, &words[1], FUTEX_OP(operation, argument, FUTEX_OP_CMP_EQ, 0));
}
PROGRAM(futex_in_log) {
    for (int private_flag : {0, FUTEX_PRIVATE_FLAG})
        must_fail("a shift by 40", set_by_futex(FUTEX_OP_SET | FUTEX_OP_OPARG_SHIFT, 40, private_flag));
}
PROGRAM(futex_honest) {
    for (int private_flag : {0, FUTEX_PRIVATE_FLAG})
        works("FUTEX_WAKE_OP", set_by_futex(FUTEX_OP_SET, 7, private_flag) >= 0);
}
PROGRAM(setns_init) {
    for (const char *kind : {"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"}) {
        int space = open((std::string("/proc/1/ns/") + kind).c_str(), O_RDONLY), own = open((std::string("/proc/self/ns/") + kind).c_str(), O_RDONLY);
        must_fail((std::string("setns ") + kind + " of init").c_str(), space < 0 ? -1 : setns(space, 0));
        must_fail((std::string("setns own ") + kind).c_str(), own < 0 ? -1 : setns(own, 0));
    }
    int handle = (int)syscall(SYS_pidfd_open, 1, 0);
    must_fail("setns by pidfd", handle < 0 ? -1 : setns(handle, CLONE_NEWNS | CLONE_NEWPID));
}

PROGRAM(keys) {
    must_fail("add_key", syscall(SYS_add_key, "user", "k", "v", 1, -3));
    must_fail("request_key", syscall(SYS_request_key, "user", "k", nullptr, -3));
    must_fail("keyctl join session", syscall(SYS_keyctl, 1, "evil", 0, 0, 0));
    must_fail("keyctl get persistent", syscall(SYS_keyctl, 22, -1, -3, 0, 0));
}
PROGRAM(bpf_any) {
    bpf_attr map{};
    map.map_type = BPF_MAP_TYPE_ARRAY, map.key_size = 4, map.value_size = 8, map.max_entries = 1;
    must_fail("bpf map", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
    uint64_t program[2] = {0x00000000000000b7ULL, 0x95ULL};
    bpf_attr load{};
    load.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, load.insn_cnt = 2, load.insns = (uint64_t)program, load.license = (uint64_t) "GPL";
    must_fail("bpf program", syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load));
}
PROGRAM(uring) {
    io_uring_params parameters{};
    must_fail("io_uring_setup", syscall(SYS_io_uring_setup, 8, &parameters));
    must_fail("io_uring_register", syscall(SYS_io_uring_register, 0, 0, nullptr, 0));
    must_fail("io_uring_enter", syscall(SYS_io_uring_enter, 0, 0, 0, 0, nullptr, 0));
}
PROGRAM(perf) {
    perf_event_attr event{};
    event.type = PERF_TYPE_SOFTWARE, event.size = sizeof event, event.config = PERF_COUNT_SW_CPU_CLOCK, event.exclude_kernel = 1;
    must_fail("perf of itself", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
    must_fail("perf of a processor", syscall(SYS_perf_event_open, &event, -1, 0, -1, 0));
}
PROGRAM(clocks_honest) {
    timespec now{};
    rusage used{};
    works("clock_gettime", clock_gettime(CLOCK_REALTIME, &now) == 0 && now.tv_sec > 1600000000);
    works("getrusage", getrusage(RUSAGE_SELF, &used) == 0);
}
MUST_FAIL(userfaults, "userfaultfd", SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)
MUST_FAIL(secret_memory, "memfd_secret", 447 /* SYS_memfd_secret */, 0)
/// The kernel answers ENOEXEC about a format that it does not know, and has then looked for a module.
static void must_not_run(const char *what, int file) {
    const char bytes[] = "\xff\xfe\xfd\xfc of no format";
    char *const arguments[] = {(char *)"x", nullptr};
    struct stat state{};
    works("fstat", fstat(file, &state) == 0);
    // Linux before 6.3 has no seal against it, and without subordinate ids the input is the program's own.
    if (file != 0 || state.st_uid != getuid() || fcntl(file, F_GET_SEALS) & 0x20 /* F_SEAL_EXEC */) (void)!fchmod(file, 0777);
    std::string path = "/proc/self/fd/" + std::to_string(file);
    if (file != 0) {
        works("write", write(file, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
        int read_only = open(path.c_str(), O_RDONLY);
        works("dup2", dup2(read_only, file) == file && close(read_only) == 0);
    }
    syscall(SYS_execveat, file, "", arguments, environ, AT_EMPTY_PATH);
    if (errno == EACCES) denied(what);
    else escaped(what, errno_name());
    execve(path.c_str(), arguments, environ);
    if (errno == EACCES) denied(what);
    else escaped(what, errno_name());
}
PROGRAM(memory_executed) {
    for (unsigned flags : {0u, (unsigned)MFD_ALLOW_SEALING, 8u /* MFD_NOEXEC_SEAL */, 16u /* MFD_EXEC */}) {
        int file = memfd_create("run", flags);
        if (file < 0) denied("memfd_create");
        else must_not_run("a file in memory", file);
    }
    must_not_run("its input", 0);
}
PROGRAM(memory_mapped) {
    char line[8] = "";
    works("the end of its input", read(0, line, sizeof line) == 0);
    works("its input by its path", open("/dev/stdin", O_RDONLY) >= 0);
    int shared = open("shared", O_RDWR | O_CREAT, 0600);
    works("a file that others can map", shared >= 0 && ftruncate(shared, 4096) == 0);
    works("mmap", mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0) != MAP_FAILED);
    int sealed = memfd_create("sealed", 8 /* MFD_NOEXEC_SEAL */);
    works("a file that cannot be executed", sealed >= 0 || errno == EINVAL /* before Linux 6.3 */);
}
PROGRAM(memory_honest) {
    char *page = (char *)mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    works("mmap", page != MAP_FAILED);
    works("mprotect", mprotect(page, 4096, PROT_READ) == 0);
    works("madvise", madvise(page, 8192, MADV_DONTNEED) == 0);
    page = (char *)mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    works("mremap", mremap(page, 8192, 16384, MREMAP_MAYMOVE) != MAP_FAILED);
}
PROGRAM(personality_any) {
    must_fail("personality without randomisation", personality(ADDR_NO_RANDOMIZE));
    must_fail("personality with readable means executable", personality(READ_IMPLIES_EXEC));
    must_fail("personality of 32 bits", personality(PER_LINUX32));
}
PROGRAM(kexec) {
    must_fail("kexec_load", syscall(SYS_kexec_load, 0, 0, nullptr, 0));
    must_fail("kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0, nullptr, 4));
}
PROGRAM(modules) {
    must_fail("init_module", syscall(SYS_init_module, "x", 1, ""));
    must_fail("finit_module", syscall(SYS_finit_module, 0, "", 0));
    must_fail("delete_module", syscall(SYS_delete_module, "nothing", O_NONBLOCK));
}
PROGRAM(machine) {
    must_fail("reboot", reboot(RB_DISABLE_CAD)); // the most harmless command
    must_fail("swapon", swapon("/box/swap", 0));
    must_fail("swapoff", swapoff("/box/swap"));
    must_fail("acct", syscall(SYS_acct, nullptr));
    must_fail("quotactl", quotactl(QCMD(Q_SYNC, USRQUOTA), nullptr, 0, nullptr));
    must_fail("vhangup", syscall(SYS_vhangup));
    must_fail("syslog", klogctl(3, nullptr, 0) >= 0 ? 0 : klogctl(10, nullptr, 0));
}
PROGRAM(clock_set) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    timeval same{now.tv_sec, now.tv_nsec / 1000};
    timex slew{};
    slew.modes = ADJ_TICK, slew.tick = 10000;
    must_fail("clock_settime", clock_settime(CLOCK_REALTIME, &now));
    must_fail("settimeofday", settimeofday(&same, nullptr));
    must_fail("adjtimex", adjtimex(&slew));
}
PROGRAM(ports) {
    must_fail("iopl", iopl(3));
    must_fail("ioperm", ioperm(0x80, 1, 1));
}
PROGRAM(old_calls) {
    must_fail("modify_ldt", syscall(SYS_modify_ldt, 1, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
    must_fail("uselib", syscall(SYS_uselib, "/bin/true"));
    must_fail("sysfs", syscall(SYS_sysfs, 3));
    must_fail("lookup_dcookie", syscall(SYS_lookup_dcookie, 0, nullptr, 0));
    must_fail("nfsservctl", syscall(SYS_nfsservctl, 0, nullptr, nullptr));
    must_fail("_sysctl", syscall(SYS__sysctl, nullptr));
}
PROGRAM(pages_of_others) {
    must_fail("migrate_pages of init", syscall(SYS_migrate_pages, 1, 0, nullptr, nullptr));
    must_fail("move_pages of init", syscall(SYS_move_pages, 1, 0, nullptr, nullptr, nullptr, 0));
}

PROGRAM(become_root) {
    must_fail("setuid", setuid(0));
    must_fail("setgid", setgid(0));
    must_fail("setresuid", setresuid(0, 0, 0));
    must_fail("setreuid", setreuid(0, 0));
    gid_t none = 0;
    must_fail("setgroups", setgroups(1, &none));
    must_fail("another uid", setuid(getuid() + 1));
    long before = syscall(SYS_setfsuid, 0);
    say("%s setfsuid", syscall(SYS_setfsuid, -1) == 0 && before != 0 ? "ESCAPED" : "DENIED");
}
PROGRAM(capabilities) {
    for (const char *set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Groups"}) {
        FILE *status = fopen("/proc/self/status", "r");
        char line[256];
        while (status && fgets(line, sizeof line, status)) {
            if (strncmp(line, set, strlen(set)) || line[strlen(set)] != ':') continue;
            line[strcspn(line, "\n")] = 0;
            const char *value = line + strlen(set) + 1 + strspn(line + strlen(set) + 1, " \t");
            bool good = set[0] == 'C' ? strtoull(value, nullptr, 16) == 0 : set[0] == 'N' ? value[0] == '1' : set[0] == 'S' ? value[0] == '2' : true;
            say("%s %s %s", good ? "DENIED" : "ESCAPED", set, value);
        }
        if (status) fclose(status);
    }
    struct { uint32_t version; int pid; } header{0x20080522, 0};
    uint32_t all[6] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
    must_fail("capset", syscall(SYS_capset, &header, all));
    must_fail("ambient capability", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
    must_fail("securebits", prctl(PR_SET_SECUREBITS, 0));
    must_fail("no_new_privs undone", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    must_fail("seccomp undone", prctl(PR_SET_SECCOMP, 0, 0, 0, 0));
}
PROGRAM(ids_honest) { works("getuid", getuid() == geteuid() && getgid() == getegid()); }

// Other entries into the same kernel. A filter that checks the numbers of only one table would allow these.
PROGRAM(entry_32_bit) {
    in_child("int 0x80 getpid", [] {
        long result = 20; // getpid in the 32-bit table
        asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        errno = (int)-result;
        must_fail("int 0x80 getpid", result < 0 ? -1 : 0);
    });
    in_child("int 0x80 unshare", [] {
        long result = 310; // unshare in the 32-bit table
        asm volatile("int $0x80" : "+a"(result) : "b"(CLONE_NEWUSER) : "memory", "r8", "r9", "r10", "r11");
        errno = (int)-result;
        must_fail("int 0x80 unshare", result < 0 ? -1 : 0);
    });
}
PROGRAM(entry_x32) {
    in_child("x32 getpid", [] { must_fail("x32 getpid", syscall(0x40000000 + SYS_getpid)); });
    in_child("x32 unshare", [] { must_fail("x32 unshare", syscall(0x40000000 + SYS_unshare, CLONE_NEWUSER)); });
    in_child("x32 ptrace", [] { must_fail("x32 ptrace", syscall(0x40000000 + 521, 0, 0, 0, 0)); });
}
PROGRAM(high_bits) {
    // the kernel reads 32 bits of clone's flags and of a socket's family, and so must the filter
    long child = syscall(SYS_clone, (1UL << 40) | CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) _exit(0);
    must_fail("clone with high bits", child);
    must_fail("unshare with high bits", syscall(SYS_unshare, (1UL << 40) | CLONE_NEWUSER));
    must_fail("socket with high bits", syscall(SYS_socket, (1UL << 32) | 2UL, 1UL, 0UL));
    must_fail("socket that looks like AF_UNIX in the high bits", syscall(SYS_socket, (1UL << 32) | 16UL, 3UL, 0UL));
}
PROGRAM(calls_unknown) {
    int allowed = 0;
    for (long call = 470; call < 600; call++) { // numbers newer than this suite
        errno = 0;
        syscall(call, -1, -1, -1, -1, -1, -1);
        if (errno != ENOSYS && errno != EPERM) say("ESCAPED system call %ld %s", call, errno_name()), allowed++;
    }
    say("DENIED unknown system calls, %d allowed", allowed);
}
PROGRAM(terminal_inject) {
    char key = 'x';
    must_fail("TIOCSTI", syscall(SYS_ioctl, 0, 0x5412, &key));
    must_fail("controlling terminal", open("/dev/tty", O_RDWR));
    must_fail("TIOCLINUX", syscall(SYS_ioctl, 0, 0x541c, &key));
}
PROGRAM(names_of_host) {
    utsname name{};
    uname(&name);
    bool shown = !args.empty() && args[0] == name.nodename;
    say("%s nodename %s domain %s", shown ? "ESCAPED" : "DENIED", name.nodename, name.domainname);
}
