/*
 * The list of allowed system calls. A call that is not in it does not exist for a program (ENOSYS), so
 * a call that a new kernel adds is denied until somebody reviews it here.
 *
 * A call is allowed if honest programs need it and it reaches nothing outside the box. Boxes share the
 * kernel, and the inodes and cached pages of the toolchains. So a call that shows or changes the state
 * of a shared object is denied, although it reads no byte of another's data: it would tell what other
 * runs and the host do, or stop them. A denied call gets the errno with which libraries fall back.
 *
 * Some calls can keep a processor for long on a kernel that is not preempted in them: a fork of a program with 65,000
 * mappings, 25 to 35 ms; a write to an eventfd that 102,000 entries of epolls watch (60 processes with 64 descriptors each),
 * 20 ms. A filter cannot count mappings or entries, and honest programs need both.
 *
 * clone3 and openat2 have their flags in memory, which a filter cannot read. ENOSYS makes libraries use
 * clone and openat.
 */
#define _GNU_SOURCE
#include "seccomp_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/prctl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "array.h"

#define IS(argument, value) {argument, WITHIN, value, value}
#define BETWEEN(argument, low, high) {argument, WITHIN, low, high}
#define BITS(argument, mask) {argument, ANY_BIT, mask, 0}
#define NOT_NULL(argument) {argument, PRESENT, 0, 0}
#define BELOW_4_GIB(argument) {argument, SMALL, 0, 0}

#define ROW(call, otherwise) {.number = SYS_##call, .name = #call, .outcome = otherwise}
#define ALLOWED(call) ROW(call, ALLOW)
#define JUDGED(call, list, otherwise) \
  {.number = SYS_##call, .name = #call, .outcome = otherwise, .clauses = list, .clause_count = COUNT(list)}
/* Numbers that older headers lack; they are the same on every architecture. */
#define NUMBERED(nr, call, otherwise) {.number = nr, .name = #call, .outcome = otherwise}

/* O_DIRECT reads from the disk each time and makes packets of a pipe; either costs others more than the program. */
static const struct clause OPEN[] = {{{BITS(1, O_DIRECT)}, EINVAL}};
static const struct clause OPENAT[] = {{{BITS(2, O_DIRECT)}, EINVAL}};

/* Nor packets from the start: what splice sends on is read with loss, and not counted. O_EXCL would be O_NOTIFICATION_PIPE. */
static const struct clause PIPE[] = {{{BITS(1, O_DIRECT | O_EXCL)}, EINVAL}};

/*
 * Not F_NOTIFY, leases and F_OFD_*: they show or delay what others open. Not F_SETPIPE_SZ: the pages of
 * all pipes of a user share one limit, and the slot made the standard streams. The kernel charges
 * record locks to nobody and a program can make millions, so they are granted without being kept: a
 * program that opens a database of its own goes on. Not F_SEAL_WRITE: it makes every processor empty its lists of pages.
 */
static const struct clause FCNTL[] = {
    {{IS(1, F_SETFL), BITS(2, O_DIRECT | O_ASYNC)}, EINVAL},
    {{BETWEEN(1, F_DUPFD, F_GETLK)}, ALLOW},
    {{BETWEEN(1, F_SETLK, F_SETLKW)}, DONE},
    {{IS(1, F_DUPFD_CLOEXEC)}, ALLOW},
    {{IS(1, F_GETPIPE_SZ)}, ALLOW},
    {{IS(1, F_ADD_SEALS), BITS(2, F_SEAL_WRITE)}, EPERM},
    {{BETWEEN(1, F_ADD_SEALS, F_GET_SEALS)}, ALLOW},
};

/* There is no terminal and no device, so all others would be answered with ENOTTY anyway, or should be. */
static const struct clause IOCTL[] = {
    {{IS(1, FIONREAD)}, ALLOW},
    {{IS(1, FIONBIO)}, ALLOW},
    {{BETWEEN(1, FIONCLEX, FIOCLEX)}, ALLOW},
};

/* The flags include RWF_NOWAIT, which shows what is cached, and RWF_DONTCACHE, which evicts it. */
static const struct clause FLAGS_OF_READ[] = {{{IS(5, 0)}, ALLOW}};

/* NORMAL, RANDOM, SEQUENTIAL and NOREUSE concern the descriptor alone; DONTNEED evicts pages that others use. */
static const struct clause FADVISE[] = {{{BETWEEN(3, 0, 2)}, ALLOW}, {{IS(3, 5)}, ALLOW}};

/*
 * A huge page comes from a pool that the host reserved for others, and no group is charged for it.
 *
 * The slot is asked about memory in pieces of 4 GiB and more, so that a refusal is seen and does not
 * depend on the machine. It is not asked about addresses alone, which runtimes reserve by the TiB: they
 * cannot be written to, are marked as not to be accounted, or belong to a file.
 */
static const struct clause MMAP[] = {
    {{BITS(3, MAP_HUGETLB)}, EINVAL},
    {{BELOW_4_GIB(1)}, ALLOW},
    {{BITS(3, MAP_NORESERVE)}, ALLOW},
    {{BITS(2, PROT_WRITE), BITS(3, MAP_ANONYMOUS)}, ASK | ENOMEM},
};
static const struct clause MREMAP[] = {{{BELOW_4_GIB(2)}, ALLOW}};
/*
 * Only files that can never be executed. They would be the only ones that a program can write and execute: the kernel starts
 * modprobe on the host, as root and charged to nobody, for each file whose format it does not know.
 */
static const struct clause MEMFD[] = {{{BITS(1, MFD_HUGETLB)}, EINVAL}, {{BITS(1, 8 /* MFD_NOEXEC_SEAL */)}, ALLOW}};
static const struct clause SHMGET[] = {{{BITS(2, SHM_HUGETLB)}, EPERM}};

/*
 * Not MERGEABLE: the time of a write shows whether another process has a page with the same content.
 * Not COLD and PAGEOUT, which act on shared pages. Not COLLAPSE: it makes every processor empty its lists of pages.
 */
static const struct clause MADVISE[] = {
    {{BETWEEN(2, MADV_NORMAL, MADV_DONTNEED)}, ALLOW},
    {{BETWEEN(2, MADV_FREE, MADV_DOFORK)}, ALLOW},
    {{BETWEEN(2, MADV_HUGEPAGE, MADV_KEEPONFORK)}, ALLOW},
    {{BETWEEN(2, 22 /* MADV_POPULATE_READ */, 24 /* MADV_DONTNEED_LOCKED */)}, ALLOW},
};

/* MS_SYNC makes the host's disk write. Without it, msync only checks the range. */
static const struct clause MSYNC[] = {{{BITS(2, MS_SYNC)}, DONE}};

/*
 * No namespaces. No pidfds either, here and in pidfd_open: their inode numbers count the processes of the
 * machine.
 */
static const struct clause CLONE[] = {{{BITS(0, CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                               CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_PIDFD)}, EPERM}};

/* The unique id of a mount counts the mounts that the machine ever made. */
static const struct clause STATX[] = {{{BITS(3, 0x4000 /* STATX_MNT_ID_UNIQUE */)}, EINVAL}};

/* Locked segments count against the user's limit until the ipc namespace is removed, which can be after the run. */
static const struct clause SHMCTL[] = {{{IS(1, SHM_LOCK)}, EPERM}};

/* A program may set its own limits, but not that of core dumps: see forbid_cores in seccomp.c. */
static const struct clause SETRLIMIT[] = {{{IS(0, RLIMIT_CORE)}, EPERM}};
static const struct clause PRLIMIT[] = {
    {{IS(1, RLIMIT_CORE), NOT_NULL(2)}, EPERM},
    {{IS(0, 0)}, ALLOW},
};

/* The kernel writes a line into its log where the shift is not one of 0 to 31. No library asks for a shift. */
static const struct clause FUTEX[] = {
    {{IS(1, FUTEX_WAKE_OP), BITS(5, (uint32_t)FUTEX_OP_OPARG_SHIFT << 28)}, ENOSYS},
    {{IS(1, FUTEX_WAKE_OP_PRIVATE), BITS(5, (uint32_t)FUTEX_OP_OPARG_SHIFT << 28)}, ENOSYS},
};

/*
 * A signal to everybody, and the priority of a user's processes: to find whom it concerns, the kernel walks all
 * processes of the machine, and the time that this takes counts them. Only a program's kill is judged: the slot of a
 * degraded run ends its processes by one.
 */
static const struct clause KILL[] = {{{IS(0, 0xffffffff)}, EPERM}};
static const struct clause PRIORITY[] = {{{IS(0, PRIO_USER)}, EPERM}};
/* Where the program has init's user id, it could slow init down. */
static const struct clause SETPRIORITY[] = {{{IS(0, PRIO_USER)}, EPERM}, {{IS(0, PRIO_PROCESS), IS(1, 1)}, EPERM}};

/* Reading the current personality, and setting the usual one. Others switch off address randomization. */
static const struct clause PERSONALITY[] = {{{IS(0, 0xffffffff)}, ALLOW}, {{IS(0, 0)}, ALLOW}};

/*
 * Not PR_SCHED_CORE, which keeps other tenants off the sibling of a core; not PR_SET_MEMORY_MERGE (see
 * MADVISE); not PR_SET_VMA, whose names are charged to nobody; nothing about seccomp, capabilities and mm.
 */
static const struct clause PRCTL[] = {
    {{BETWEEN(0, PR_SET_PDEATHSIG, PR_SET_DUMPABLE)}, ALLOW},
    {{BETWEEN(0, PR_SET_NAME, PR_GET_NAME)}, ALLOW},
    {{IS(0, PR_GET_SECCOMP)}, ALLOW},
    {{IS(0, PR_CAPBSET_READ)}, ALLOW},
    {{BETWEEN(0, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK)}, ALLOW},
    {{BETWEEN(0, PR_SET_CHILD_SUBREAPER, PR_GET_NO_NEW_PRIVS)}, ALLOW},
    {{BETWEEN(0, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE)}, ALLOW},
};

/* The global commands interrupt processors that run other tenants. */
static const struct clause MEMBARRIER[] = {
    {{IS(0, MEMBARRIER_CMD_QUERY)}, ALLOW},
    {{BETWEEN(0, MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)}, ALLOW},
};

/* Another family would reach the network, or make the kernel load a module. */
static const struct clause UNIX_ONLY[] = {{{IS(0, AF_UNIX)}, ALLOW}};

/* Not socket filters: their compiled code uses up memory that the filters of other boxes need. */
static const struct clause SETSOCKOPT[] = {
    {{IS(1, SOL_SOCKET), IS(2, SO_REUSEADDR)}, ALLOW},
    {{IS(1, SOL_SOCKET), BETWEEN(2, SO_BROADCAST, SO_KEEPALIVE)}, ALLOW},
    {{IS(1, SOL_SOCKET), IS(2, SO_LINGER)}, ALLOW},
    {{IS(1, SOL_SOCKET), BETWEEN(2, SO_REUSEPORT, SO_PASSCRED)}, ALLOW},
    {{IS(1, SOL_SOCKET), BETWEEN(2, SO_RCVTIMEO_OLD, SO_SNDTIMEO_OLD)}, ALLOW},
};

/* The policies that need no right: see ROWS. */
static const struct clause SCHEDULER[] = {{{IS(1, SCHED_OTHER)}, DONE}, {{IS(1, SCHED_BATCH)}, DONE}, {{IS(1, SCHED_IDLE)}, DONE}};
/* Not the newer options: a cookie counts the sockets of all runs, and a peer's pidfd the machine's processes. */
static const struct clause GETSOCKOPT[] = {{{BETWEEN(2, SO_DEBUG, SO_PEEK_OFF)}, ALLOW}};

#ifdef __x86_64__
/* The registers of thread-local storage, and what libc asks when it starts. */
static const struct clause ARCH_PRCTL[] = {{{BETWEEN(0, 0x1001, 0x1004)}, ALLOW}, {{BETWEEN(0, 0x1021, 0x1025)}, ALLOW}};
#endif

static const struct rule ROWS[] = {
    /* Bytes of descriptors. tee and vmsplice are missing: they fill the slot's pipes for less than it costs to empty them. */
    ALLOWED(read), ALLOWED(write), ALLOWED(readv), ALLOWED(writev), ALLOWED(pread64), ALLOWED(pwrite64),
    ALLOWED(preadv), ALLOWED(pwritev), JUDGED(preadv2, FLAGS_OF_READ, EOPNOTSUPP),
    JUDGED(pwritev2, FLAGS_OF_READ, EOPNOTSUPP), ALLOWED(lseek), ALLOWED(sendfile), ALLOWED(splice),
    ALLOWED(copy_file_range), ALLOWED(close), NUMBERED(436, close_range, ALLOW), ALLOWED(dup), ALLOWED(dup3),
    JUDGED(pipe2, PIPE, ALLOW), ALLOWED(eventfd2),
    /* Files and directories: the mounts decide what a path reaches, and the user id what it allows. */
    JUDGED(openat, OPENAT, ALLOW), ALLOWED(fstat), ALLOWED(newfstatat), JUDGED(statx, STATX, ALLOW), ALLOWED(faccessat),
    NUMBERED(439, faccessat2, ALLOW), ALLOWED(readlinkat), ALLOWED(getdents64), ALLOWED(getcwd), ALLOWED(chdir),
    ALLOWED(fchdir), ALLOWED(mkdirat), ALLOWED(mknodat), ALLOWED(unlinkat), ALLOWED(renameat), ALLOWED(renameat2),
    ALLOWED(linkat), ALLOWED(symlinkat), ALLOWED(fchmod), ALLOWED(fchmodat), NUMBERED(452, fchmodat2, ALLOW),
    ALLOWED(fchown), ALLOWED(fchownat), ALLOWED(utimensat), ALLOWED(truncate), ALLOWED(ftruncate),
    ALLOWED(fallocate), ALLOWED(umask),
    /* No file system of a box has attributes; programs that copy files know this answer. */
    ROW(getxattr, EOPNOTSUPP), ROW(lgetxattr, EOPNOTSUPP), ROW(fgetxattr, EOPNOTSUPP), ROW(listxattr, EOPNOTSUPP),
    ROW(llistxattr, EOPNOTSUPP), ROW(flistxattr, EOPNOTSUPP), ROW(setxattr, EOPNOTSUPP), ROW(lsetxattr, EOPNOTSUPP),
    ROW(fsetxattr, EOPNOTSUPP), ROW(removexattr, EOPNOTSUPP), ROW(lremovexattr, EOPNOTSUPP), ROW(fremovexattr, EOPNOTSUPP),
    /* What a program writes is in memory: there is nothing to write to a disk, and the host's disks are not its own. */
    ROW(sync, DONE), ROW(syncfs, DONE), ROW(fsync, DONE), ROW(fdatasync, DONE), ROW(sync_file_range, DONE),
    /* A lock on a file of the toolchains would stop other runs and the host. Like record locks, it is granted and not kept. */
    ROW(flock, DONE),
    /* What is cached shows what others have read. */
    JUDGED(fadvise64, FADVISE, EPERM), ROW(readahead, EPERM), ROW(mincore, EPERM),
    /* The program's own memory. */
    JUDGED(mmap, MMAP, ALLOW), ALLOWED(munmap), ALLOWED(mprotect),
    JUDGED(mremap, MREMAP, ASK | ENOMEM), ALLOWED(brk),
    JUDGED(madvise, MADVISE, EINVAL), JUDGED(msync, MSYNC, ALLOW), ALLOWED(mlock), ALLOWED(mlock2), ALLOWED(munlock),
    ALLOWED(mlockall), ALLOWED(munlockall),
    /* Processes and threads: only those of its own pid namespace exist. */
    JUDGED(clone, CLONE, ALLOW), ALLOWED(execve), ALLOWED(execveat), ALLOWED(exit), ALLOWED(exit_group),
    ALLOWED(wait4), ALLOWED(waitid), ALLOWED(tkill), ALLOWED(tgkill), ALLOWED(rt_sigqueueinfo),
    ALLOWED(rt_tgsigqueueinfo), ALLOWED(getpid), ALLOWED(getppid), ALLOWED(gettid), ALLOWED(getpgid), ALLOWED(setpgid),
    ALLOWED(getsid), ALLOWED(setsid), ALLOWED(set_tid_address), ALLOWED(set_robust_list), ALLOWED(rseq),
    JUDGED(futex, FUTEX, ALLOW), NUMBERED(449, futex_waitv, ALLOW),
    ALLOWED(restart_syscall), JUDGED(membarrier, MEMBARRIER, EINVAL),
    /* Its ids, which it cannot change: it has no capability. */
    ALLOWED(getuid), ALLOWED(geteuid), ALLOWED(getgid), ALLOWED(getegid), ALLOWED(getresuid), ALLOWED(getresgid),
    ALLOWED(getgroups), ALLOWED(setuid), ALLOWED(setgid), ALLOWED(setreuid), ALLOWED(setregid), ALLOWED(setresuid),
    ALLOWED(setresgid), ALLOWED(setfsuid), ALLOWED(setfsgid), ALLOWED(setgroups), ALLOWED(capget), ALLOWED(capset),
    /* Its signals. */
    ALLOWED(rt_sigaction), ALLOWED(rt_sigprocmask), ALLOWED(rt_sigreturn), ALLOWED(rt_sigpending),
    ALLOWED(rt_sigtimedwait), ALLOWED(rt_sigsuspend), ALLOWED(sigaltstack),
    /*
     * Its limits, its priority and the processors that it may use. It cannot choose among these: a move between processors
     * is work of the kernel that no group pays for. Nor can it choose another policy: the kernel places others' tasks on a
     * processor that runs only idle tasks as if it were free, and a slice is for the service to decide. Programs that pin
     * their threads go on.
     */
    ALLOWED(getrlimit), JUDGED(setrlimit, SETRLIMIT, ALLOW), JUDGED(prlimit64, PRLIMIT, EPERM), ALLOWED(getrusage),
    JUDGED(getpriority, PRIORITY, ALLOW), JUDGED(setpriority, SETPRIORITY, ALLOW),
    ALLOWED(sched_yield), ALLOWED(sched_getaffinity),
    ROW(sched_setaffinity, DONE), ALLOWED(sched_getparam), ALLOWED(sched_setparam), ALLOWED(sched_getscheduler),
    JUDGED(sched_setscheduler, SCHEDULER, EPERM), ALLOWED(sched_get_priority_max), ALLOWED(sched_get_priority_min),
    ALLOWED(sched_rr_get_interval), ALLOWED(sched_getattr), ROW(sched_setattr, EPERM), ALLOWED(getcpu), ALLOWED(uname),
    JUDGED(personality, PERSONALITY, EPERM),
    /*
     * Clocks and timers. The work of a timer that ends is done in an interrupt: its time is charged to the process that is
     * interrupted, which can be another's. So a timer may wake one task, as those of sleeps, waits and setitimer do. These
     * wake many, and are missing: timerfds and signalfds (each epoll that watches one), and timer_create (SIGCONT or a stop
     * signal concerns each thread of a process).
     */
    ALLOWED(nanosleep), ALLOWED(clock_nanosleep), ALLOWED(clock_gettime), ALLOWED(clock_getres), ALLOWED(gettimeofday),
    ALLOWED(times), ALLOWED(getitimer), ALLOWED(setitimer), ALLOWED(getrandom),
    /* Waiting for descriptors. */
    ALLOWED(ppoll), ALLOWED(pselect6), ALLOWED(epoll_create1), ALLOWED(epoll_ctl), ALLOWED(epoll_pwait),
    NUMBERED(441, epoll_pwait2, ALLOW),
    /* Sockets between its own processes: the network namespace and the root are empty. */
    JUDGED(socket, UNIX_ONLY, EAFNOSUPPORT), JUDGED(socketpair, UNIX_ONLY, EAFNOSUPPORT), ALLOWED(connect),
    ALLOWED(bind), ALLOWED(listen), ALLOWED(accept), ALLOWED(accept4), ALLOWED(getsockname), ALLOWED(getpeername),
    ALLOWED(sendto), ALLOWED(recvfrom), ALLOWED(sendmsg), ALLOWED(recvmsg), ALLOWED(sendmmsg), ALLOWED(recvmmsg),
    ALLOWED(shutdown), JUDGED(getsockopt, GETSOCKOPT, ENOPROTOOPT), JUDGED(setsockopt, SETSOCKOPT, ENOPROTOOPT),
    /* Memory, queues and semaphores of its own ipc namespace. */
    JUDGED(shmget, SHMGET, ALLOW), ALLOWED(shmat), ALLOWED(shmdt), JUDGED(shmctl, SHMCTL, ALLOW), ALLOWED(semget), ALLOWED(semop),
    ALLOWED(semtimedop), ALLOWED(semctl), ALLOWED(msgget), ALLOWED(msgsnd), ALLOWED(msgrcv), ALLOWED(msgctl),
    ALLOWED(mq_open), ALLOWED(mq_unlink), ALLOWED(mq_timedsend), ALLOWED(mq_timedreceive), ALLOWED(mq_notify),
    ALLOWED(mq_getsetattr),
    /* The host's load, tasks and memory are not a program's business. libc ignores an error here, so there is an answer. */
    ROW(sysinfo, ASK | ENOSYS),
#ifdef __x86_64__
    /* Older forms of the above. */
    JUDGED(open, OPEN, ALLOW), ALLOWED(creat), ALLOWED(stat), ALLOWED(lstat), ALLOWED(access), ALLOWED(readlink),
    ALLOWED(getdents), ALLOWED(mkdir), ALLOWED(rmdir), ALLOWED(mknod), ALLOWED(unlink), ALLOWED(rename), ALLOWED(link),
    ALLOWED(symlink), ALLOWED(chmod), ALLOWED(chown), ALLOWED(lchown), ALLOWED(utime), ALLOWED(utimes),
    ALLOWED(futimesat), ALLOWED(dup2), ALLOWED(pipe), ALLOWED(eventfd), ALLOWED(fork), ALLOWED(vfork),
    ALLOWED(getpgrp), ALLOWED(alarm), ALLOWED(pause), ALLOWED(time), ALLOWED(poll), ALLOWED(select),
    ALLOWED(epoll_create), ALLOWED(epoll_wait), JUDGED(arch_prctl, ARCH_PRCTL, EINVAL),
#endif
    /* Calls that programs know as not permitted, rather than as missing. */
    ROW(ptrace, EPERM), ROW(process_vm_readv, EPERM), ROW(process_vm_writev, EPERM), ROW(kcmp, EPERM),
    NUMBERED(438, pidfd_getfd, EPERM), NUMBERED(440, process_madvise, EPERM), NUMBERED(448, process_mrelease, EPERM),
    ROW(umount2, EPERM), ROW(pivot_root, EPERM), ROW(chroot, EPERM), ROW(unshare, EPERM),
    NUMBERED(430, fsopen, EPERM), NUMBERED(431, fsconfig, EPERM), NUMBERED(432, fsmount, EPERM),
    NUMBERED(433, fspick, EPERM), NUMBERED(442, mount_setattr, EPERM), ROW(name_to_handle_at, EPERM),
    ROW(open_by_handle_at, EPERM), ROW(add_key, EPERM), ROW(request_key, EPERM), ROW(keyctl, EPERM), ROW(bpf, EPERM),
    ROW(perf_event_open, EACCES), ROW(userfaultfd, EPERM), ROW(seccomp, EPERM), ROW(fanotify_init, EPERM),
    ROW(fanotify_mark, EPERM), ROW(init_module, EPERM), ROW(finit_module, EPERM), ROW(delete_module, EPERM),
    ROW(kexec_load, EPERM), ROW(reboot, EPERM), ROW(swapon, EPERM), ROW(swapoff, EPERM), ROW(settimeofday, EPERM),
    ROW(clock_settime, EPERM), ROW(adjtimex, EPERM), ROW(clock_adjtime, EPERM), ROW(sethostname, EPERM),
    ROW(setdomainname, EPERM), ROW(acct, EPERM), ROW(quotactl, EPERM), ROW(syslog, EPERM), ROW(vhangup, EPERM),
    ROW(ioprio_set, EPERM), ROW(mbind, EPERM), ROW(set_mempolicy, EPERM), ROW(migrate_pages, EPERM), ROW(move_pages, EPERM),
    /* Calls of slot and init. */
    {.number = SYS_mount, .name = "mount", .outcome = EPERM, .setup = true},
    {.number = SYS_setns, .name = "setns", .outcome = EPERM, .setup = true},
    {.number = 428, .name = "open_tree", .outcome = EPERM, .setup = true},
    {.number = 429, .name = "move_mount", .outcome = EPERM, .setup = true},
    {.number = 434, .name = "pidfd_open", .outcome = ENOSYS, .setup = true},
    {.number = 435, .name = "clone3", .outcome = ENOSYS, .setup = true},
    {.number = 444, .name = "landlock_create_ruleset", .outcome = ENOSYS, .setup = true},
    {.number = 445, .name = "landlock_add_rule", .outcome = ENOSYS, .setup = true},
    {.number = 446, .name = "landlock_restrict_self", .outcome = ENOSYS, .setup = true},
    {.number = SYS_kill, .name = "kill", .outcome = ALLOW, .clauses = KILL, .clause_count = COUNT(KILL), .setup = true},
    /* The slot seals inputs. */
    {.number = SYS_fcntl, .name = "fcntl", .outcome = EINVAL, .clauses = FCNTL, .clause_count = COUNT(FCNTL), .setup = true},
    /* The slot makes inputs, before Linux 6.3 without the seal. */
    {.number = SYS_memfd_create, .name = "memfd_create", .outcome = ENOSYS, .clauses = MEMFD, .clause_count = COUNT(MEMFD), .setup = true},
    /* The slot reads and answers questions by it. */
    {.number = SYS_ioctl, .name = "ioctl", .outcome = ENOTTY, .clauses = IOCTL, .clause_count = COUNT(IOCTL), .setup = true},
    {.number = SYS_prctl, .name = "prctl", .outcome = EINVAL, .clauses = PRCTL, .clause_count = COUNT(PRCTL), .setup = true},
};

/* A datagram socket of a pair can send to any path, and a stream cannot. */
static const struct clause CONNECTED_PAIR[] = {{{BITS(1, SOCK_DGRAM)}, EAFNOSUPPORT}, {{IS(0, AF_UNIX)}, ALLOW}};
static const struct clause OWN_FIRST[] = {{{IS(0, 0)}, ALLOW}};
static const struct clause OWN_PRIORITY[] = {{{IS(0, PRIO_PROCESS), IS(1, 0)}, ALLOW}};

/*
 * Without namespaces a program could connect to the machine's services by path, objects of System V and
 * message queues would outlive it, and with the worker's user id it could slow the worker down.
 */
static const struct rule DEGRADED[] = {
    ROW(socket, EAFNOSUPPORT), JUDGED(socketpair, CONNECTED_PAIR, EAFNOSUPPORT), ROW(connect, EPERM), ROW(bind, EPERM),
    ROW(shmget, EPERM), ROW(shmat, EPERM), ROW(shmctl, EPERM), ROW(semget, EPERM), ROW(semop, EPERM),
    ROW(semtimedop, EPERM), ROW(semctl, EPERM), ROW(msgget, EPERM), ROW(msgsnd, EPERM), ROW(msgrcv, EPERM),
    ROW(msgctl, EPERM), ROW(mq_open, EPERM), ROW(mq_unlink, EPERM),
    JUDGED(sched_setparam, OWN_FIRST, EPERM), JUDGED(setpriority, OWN_PRIORITY, EPERM),
};

static int by_number(const void *a, const void *b) {
  const struct rule *one = a, *other = b;
  return one->number < other->number ? -1 : one->number > other->number;
}

unsigned seccomp_rules(bool degraded, struct rule *rules) {
  unsigned count = COUNT(ROWS);
  _Static_assert(COUNT(ROWS) <= MOST_RULES, "there are too many rules");
  memcpy(rules, ROWS, sizeof ROWS);
  for (unsigned i = 0; degraded && i < COUNT(DEGRADED); i++)
    for (unsigned n = 0; n < count; n++)
      if (rules[n].number == DEGRADED[i].number) rules[n] = DEGRADED[i];
  qsort(rules, count, sizeof *rules, by_number);
  for (unsigned n = 1; n < count; n++)
    if (rules[n].number == rules[n - 1].number) abort();
  return count;
}
