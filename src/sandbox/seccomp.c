/*
 * The system calls of a box. The filter has a list of denied calls, each with the errno that makes
 * libraries fall back, and a ceiling: a call that is newer than the list does not exist (ENOSYS). It
 * denies calls that reach beyond the box, calls that no judged program needs, and calls with a history
 * of kernel vulnerabilities.
 *
 * The numbers are searched as a tree. When the filter is installed, the kernel runs it once for every
 * number, to find those that are always allowed; a linear list would make each run slower.
 */
#define _GNU_SOURCE
#include "seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "array.h"
#include "failure.h"

#if defined __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "the launcher has the system call numbers of x86-64 and arm64 only"
#endif

/* mseal, of Linux 6.10, is the last call that was reviewed. */
enum { LAST_KNOWN = 462, X32_BIT = 0x40000000 };

struct denial {
  unsigned number, error;
};

static const struct denial DENIED[] = {
    /* other processes' memory and registers */
    {SYS_ptrace, EPERM}, {SYS_process_vm_readv, EPERM}, {SYS_process_vm_writev, EPERM},
    {SYS_pidfd_getfd, EPERM}, {SYS_kcmp, EPERM}, {SYS_process_madvise, EPERM},
    {448 /* process_mrelease */, EPERM},
    /* mounts and roots */
    {SYS_mount, EPERM}, {SYS_umount2, EPERM}, {SYS_pivot_root, EPERM}, {SYS_chroot, EPERM},
    {SYS_open_tree, EPERM}, {SYS_move_mount, EPERM}, {SYS_fsopen, EPERM}, {SYS_fsconfig, EPERM},
    {SYS_fsmount, EPERM}, {SYS_fspick, EPERM}, {442 /* mount_setattr */, EPERM},
    {457 /* statmount */, EPERM}, {458 /* listmount */, EPERM},
    {SYS_name_to_handle_at, EPERM}, {SYS_open_by_handle_at, EPERM},
    /* namespaces; a filter cannot read the flags of clone3, which are in memory: ENOSYS makes libc use clone */
    {SYS_unshare, EPERM}, {SYS_setns, EPERM}, {SYS_clone3, ENOSYS},
    /* keys, tracing, programs for the kernel, and asynchronous calls, which this filter does not see */
    {SYS_add_key, EPERM}, {SYS_request_key, EPERM}, {SYS_keyctl, EPERM}, {SYS_bpf, EPERM},
    {SYS_perf_event_open, EACCES}, {SYS_io_uring_setup, ENOSYS}, {SYS_io_uring_enter, ENOSYS},
    {SYS_io_uring_register, ENOSYS}, {SYS_userfaultfd, EPERM}, {SYS_seccomp, EPERM},
    {SYS_fanotify_init, EPERM}, {SYS_fanotify_mark, EPERM}, {SYS_lookup_dcookie, EPERM},
    {447 /* memfd_secret */, ENOSYS},
    /* the machine: modules, kernels, clocks, names, swap, accounting, logs */
    {SYS_init_module, EPERM}, {SYS_finit_module, EPERM}, {SYS_delete_module, EPERM},
    {SYS_kexec_load, EPERM}, {SYS_reboot, EPERM}, {SYS_swapon, EPERM}, {SYS_swapoff, EPERM},
    {SYS_settimeofday, EPERM}, {SYS_clock_settime, EPERM}, {SYS_adjtimex, EPERM},
    {SYS_clock_adjtime, EPERM}, {SYS_sethostname, EPERM}, {SYS_setdomainname, EPERM},
    {SYS_acct, EPERM}, {SYS_quotactl, EPERM}, {443 /* quotactl_fd */, EPERM}, {SYS_syslog, EPERM},
    {SYS_vhangup, EPERM}, {SYS_nfsservctl, ENOSYS},
    /* placement of pages */
    {SYS_mbind, EPERM}, {SYS_set_mempolicy, EPERM}, {SYS_migrate_pages, EPERM},
    {SYS_move_pages, EPERM}, {450 /* set_mempolicy_home_node */, EPERM},
#ifdef SYS_kexec_file_load
    {SYS_kexec_file_load, EPERM},
#endif
#ifdef __x86_64__
    {SYS_modify_ldt, EPERM}, {SYS_iopl, EPERM}, {SYS_ioperm, EPERM}, {SYS_uselib, ENOSYS},
    {SYS_ustat, ENOSYS}, {SYS_sysfs, ENOSYS}, {SYS__sysctl, ENOSYS}, {SYS_create_module, ENOSYS},
    {SYS_get_kernel_syms, ENOSYS}, {SYS_query_module, ENOSYS},
#endif
};

/* Objects that outlive their process and its limits. Without an ipc namespace nothing removes them after the run. */
static const struct denial OUTLIVING[] = {
    {SYS_shmget, EPERM}, {SYS_msgget, EPERM}, {SYS_semget, EPERM}, {SYS_mq_open, EPERM},
};

static struct sock_filter filter[512];
static unsigned filter_length;

static void emit(struct sock_filter instruction) {
  if (filter_length == COUNT(filter)) abort();
  filter[filter_length++] = instruction;
}

static void emit_return(unsigned answer) { emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer)); }
static void emit_error(unsigned error) { emit_return(SECCOMP_RET_ERRNO | error); }
static void emit_load(size_t offset) { emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset)); }

/* The next `skip` instructions run only if the comparison of the loaded number with `value` is true. */
static void emit_only_if(unsigned comparison, unsigned value, unsigned char skip) {
  emit((struct sock_filter)BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 0, skip));
}

/* A binary search between two rows, both included. */
static void emit_search(const struct denial *rows, unsigned first, unsigned last) {
  if (first == last) {
    emit_only_if(BPF_JEQ, rows[first].number, 1);
    emit_error(rows[first].error);
    emit_return(SECCOMP_RET_ALLOW);
    return;
  }
  unsigned middle = (first + last + 1) / 2, at = filter_length;
  emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, rows[middle].number, 0, 0));
  emit_search(rows, first, middle - 1);
  unsigned below = filter_length - at - 1;
  if (below > 255) abort();
  filter[at].jt = (unsigned char)below;
  emit_search(rows, middle, last);
}

static int by_number(const void *a, const void *b) {
  const struct denial *one = a, *other = b;
  return one->number < other->number ? -1 : one->number > other->number;
}

static const size_t ARGUMENT = offsetof(struct seccomp_data, args);

/* See forbid_cores: a program that lowered this limit would make the host handle its crashes. */
static void deny_core_limit(void) {
  emit_only_if(BPF_JEQ, SYS_setrlimit, 4);
  emit_load(ARGUMENT);
  emit_only_if(BPF_JEQ, RLIMIT_CORE, 1);
  emit_error(EPERM);
  emit_return(SECCOMP_RET_ALLOW);
  /* prlimit64 sets a limit if its third argument, a pointer, is not null. */
  emit_only_if(BPF_JEQ, SYS_prlimit64, 8);
  emit_load(ARGUMENT + 8);
  emit_only_if(BPF_JEQ, RLIMIT_CORE, 5);
  emit_load(ARGUMENT + 16);
  emit_only_if(BPF_JEQ, 0, 2);
  emit_load(ARGUMENT + 20);
  emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
  emit_error(EPERM);
  emit_return(SECCOMP_RET_ALLOW);
}

/* Another ABI has other numbers. No honest program uses one. */
static void kill_other_abis(void) {
  emit_load(offsetof(struct seccomp_data, arch));
  emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0));
  emit_return(SECCOMP_RET_KILL_PROCESS);
  emit_load(offsetof(struct seccomp_data, nr));
  emit_only_if(BPF_JGE, X32_BIT, 1);
  emit_return(SECCOMP_RET_KILL_PROCESS);
  emit_only_if(BPF_JGT, LAST_KNOWN, 1);
  emit_error(ENOSYS);
}

static void deny_namespaces_by_clone(void) {
  const unsigned namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                              CLONE_NEWPID | CLONE_NEWNET;
  emit_only_if(BPF_JEQ, SYS_clone, 4);
  emit_load(ARGUMENT);
  emit_only_if(BPF_JSET, namespaces, 1);
  emit_error(EPERM);
  emit_return(SECCOMP_RET_ALLOW);
}

static void allow_unix_sockets(bool degraded) {
  emit_only_if(BPF_JEQ, SYS_socket, 4);
  emit_load(ARGUMENT);
  /* Without a root of its own a program could connect to the machine's services by path. */
  emit_only_if(BPF_JEQ, degraded ? AF_UNSPEC : AF_UNIX, 1);
  emit_return(SECCOMP_RET_ALLOW);
  emit_error(EAFNOSUPPORT);
  /* A pair of another family fails anyway, but only after the kernel has looked for a module. */
  emit_only_if(BPF_JEQ, SYS_socketpair, 4);
  emit_load(ARGUMENT);
  emit_only_if(BPF_JEQ, AF_UNIX, 1);
  emit_return(SECCOMP_RET_ALLOW);
  emit_error(EAFNOSUPPORT);
}

/* Asking for the current personality changes nothing and is allowed. */
static void deny_personalities(void) {
  emit_only_if(BPF_JEQ, SYS_personality, 5);
  emit_load(ARGUMENT);
  emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 1, 0));
  emit_only_if(BPF_JEQ, 0, 1);
  emit_return(SECCOMP_RET_ALLOW);
  emit_error(EPERM);
}

/* TIOCSTI types into a terminal that another process reads. */
static void deny_terminal_input(void) {
  emit_only_if(BPF_JEQ, SYS_ioctl, 4);
  emit_load(ARGUMENT + 8);
  emit_only_if(BPF_JEQ, 0x5412 /* TIOCSTI */, 1);
  emit_error(EPERM);
  emit_return(SECCOMP_RET_ALLOW);
}

static void deny_listed(bool degraded) {
  struct denial rows[COUNT(DENIED) + COUNT(OUTLIVING)];
  unsigned count = 0;
  for (unsigned i = 0; i < COUNT(DENIED); i++) rows[count++] = DENIED[i];
  for (unsigned i = 0; degraded && i < COUNT(OUTLIVING); i++) rows[count++] = OUTLIVING[i];
  qsort(rows, count, sizeof rows[0], by_number);
  emit_search(rows, 0, count - 1);
}

void seccomp_build(bool degraded) {
  if (filter_length) return;
  kill_other_abis();
  deny_namespaces_by_clone();
  allow_unix_sockets(degraded);
  deny_personalities();
  deny_terminal_input();
  deny_core_limit();
  deny_listed(degraded);
}

/*
 * No core dump, neither as a file nor for a handler of the host. A kernel that pipes cores into a
 * program ignores the limit, except that 1 means none. Where 1 would be above the hard limit, 0 remains.
 */
static void forbid_cores(void) {
  const struct rlimit none = {1, 1}, least = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none)) must(setrlimit(RLIMIT_CORE, &least), "limit core dumps");
}

void seccomp_confine(void) {
  struct sock_fprog program = {.filter = filter};
  forbid_cores();
  seccomp_build(false);
  program.len = (unsigned short)filter_length;
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges");
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "confine the system calls");
}
