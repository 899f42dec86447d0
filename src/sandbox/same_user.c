/*
 * The kernel lets a user signal, slow down and limit all of his processes, change modes and times of all of
 * his files, and use all of his System V objects. A program with the worker's user id could do all of this
 * to the worker. Landlock prevents only part of it: opening files, tracing, and (from Linux 6.12) signals.
 * This filter denies the rest. A call that names a process may name only the program's own. A call that changes a file's
 * mode, owner or times by a descriptor has no effect: the filter cannot see whose file it is.
 *
 * A filter cannot ask which process calls, so it contains the process id of the program. Where it filters
 * signals, a process that the program starts can therefore signal the program and its own process group,
 * and no other process. The program has a session of its own, so that group is never the worker's.
 */
#define _GNU_SOURCE
#include "same_user.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "array.h"
#include "failure.h"

enum test {
  ALWAYS,    /* the call is denied */
  IDLE,      /* the call returns success and does nothing */
  FOREIGN,   /* denied if the argument is neither 0 nor the program's process id */
  EQUAL,     /* denied if the argument is `value` */
  NOT_NULL,  /* denied if the argument, a pointer, is not null */
  EMPTIES,   /* denied if the argument, the flags of an open, lets the kernel truncate what was not opened for writing */
};

struct row {
  unsigned call;
  enum test test;
  unsigned argument, value;
};

static const struct row ROWS[] = {
    /* resource limits and priorities of other processes; who 0 with PRIO_USER or IOPRIO_WHO_USER is the whole user */
    {SYS_prlimit64, FOREIGN, 0, 0},
    {SYS_setpriority, FOREIGN, 1, 0},
    {SYS_setpriority, EQUAL, 0, 2 /* PRIO_USER */},
    {SYS_ioprio_set, FOREIGN, 1, 0},
    {SYS_ioprio_set, EQUAL, 0, 3 /* IOPRIO_WHO_USER */},
    {SYS_sched_setparam, FOREIGN, 0, 0},
    /* files by path: Landlock does not cover modes, owners, attributes, times and (before Linux 6.2) truncate */
    {SYS_truncate, ALWAYS, 0, 0},
    {SYS_openat, EMPTIES, 2, 0},
    {SYS_fchmodat, ALWAYS, 0, 0},
    {452 /* fchmodat2 */, ALWAYS, 0, 0},
    {SYS_fchownat, ALWAYS, 0, 0},
    {SYS_setxattr, ALWAYS, 0, 0},
    {SYS_lsetxattr, ALWAYS, 0, 0},
    {SYS_removexattr, ALWAYS, 0, 0},
    {SYS_lremovexattr, ALWAYS, 0, 0},
    {SYS_utimensat, NOT_NULL, 1, 0},
    /* files by descriptor: one that is open for reading will do; linkers and archivers do this to files of their own */
    {SYS_fchmod, IDLE, 0, 0},
    {SYS_fchown, IDLE, 0, 0},
    {SYS_utimensat, IDLE, 0, 0},
    {SYS_fsetxattr, ALWAYS, 0, 0},
    {SYS_fremovexattr, ALWAYS, 0, 0},
#ifdef __x86_64__
    {SYS_open, EMPTIES, 1, 0},
    {SYS_chmod, ALWAYS, 0, 0},
    {SYS_chown, ALWAYS, 0, 0},
    {SYS_lchown, ALWAYS, 0, 0},
    {SYS_utime, ALWAYS, 0, 0},
    {SYS_utimes, ALWAYS, 0, 0},
    {SYS_futimesat, NOT_NULL, 1, 0},
    {SYS_futimesat, IDLE, 0, 0},
#endif
    /* the user's System V objects and queues; the program can make none of its own */
    {SYS_shmat, ALWAYS, 0, 0},
    {SYS_shmctl, ALWAYS, 0, 0},
    {SYS_semop, ALWAYS, 0, 0},
    {SYS_semtimedop, ALWAYS, 0, 0},
    {SYS_semctl, ALWAYS, 0, 0},
    {SYS_msgsnd, ALWAYS, 0, 0},
    {SYS_msgrcv, ALWAYS, 0, 0},
    {SYS_msgctl, ALWAYS, 0, 0},
    {SYS_mq_unlink, ALWAYS, 0, 0},
};

/* Signals, and the descriptors that make the kernel send them. */
static const struct row SIGNALS[] = {
    {SYS_kill, FOREIGN, 0, 0},
    {SYS_tkill, FOREIGN, 0, 0},
    {SYS_tgkill, FOREIGN, 0, 0},
    {SYS_rt_sigqueueinfo, FOREIGN, 0, 0},
    {SYS_rt_tgsigqueueinfo, FOREIGN, 0, 0},
    {SYS_pidfd_send_signal, ALWAYS, 0, 0},
    {SYS_fcntl, EQUAL, 1, F_SETOWN},
    {SYS_fcntl, EQUAL, 1, F_SETOWN_EX},
    {SYS_fcntl, EQUAL, 1, F_SETSIG},
    {SYS_ioctl, EQUAL, 1, 0x8901 /* FIOSETOWN */},
    {SYS_ioctl, EQUAL, 1, 0x8902 /* SIOCSPGRP */},
};

enum { ROW_MOST = 8 };
static struct sock_filter filter[1 + ROW_MOST * (COUNT(ROWS) + COUNT(SIGNALS)) + 1];
static unsigned filter_length;

static void emit(struct sock_filter instruction) {
  if (filter_length == COUNT(filter)) abort();
  filter[filter_length++] = instruction;
}

static void emit_load(size_t offset) { emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset)); }

/* Jumps over the next `equal` or `other` instructions, depending on whether the loaded value is `value`. */
static void emit_compare(unsigned value, unsigned char equal, unsigned char other) {
  emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, equal, other));
}

static void emit_deny(void) { emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)); }

/* Begins and ends with the call's number loaded. The kernel reads process ids and commands as 32 bits, and so does this. */
static void emit_row(const struct row *row, unsigned own_pid) {
  const size_t number = offsetof(struct seccomp_data, nr);
  const size_t argument = offsetof(struct seccomp_data, args) + row->argument * sizeof(uint64_t);
  switch (row->test) {
    case ALWAYS:
      emit_compare(row->call, 0, 1);
      emit_deny();
      return;
    case IDLE:
      emit_compare(row->call, 0, 1);
      emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO));
      return;
    case FOREIGN:
      emit_compare(row->call, 0, 5);
      emit_load(argument);
      emit_compare(0, 2, 0);
      emit_compare(own_pid, 1, 0);
      break;
    case EQUAL:
      emit_compare(row->call, 0, 4);
      emit_load(argument);
      emit_compare(row->value, 0, 1);
      break;
    case EMPTIES:
      /* Mode 3 asks for the right to read and to write, and opens for neither: Landlock then sees nothing to forbid. */
      emit_compare(row->call, 0, 7);
      emit_load(argument);
      emit((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_ACCMODE | O_TRUNC));
      emit_compare(O_RDONLY | O_TRUNC, 2, 0);
      emit_compare(O_ACCMODE, 1, 0);
      emit_compare(O_ACCMODE | O_TRUNC, 0, 1);
      break;
    case NOT_NULL:
      emit_compare(row->call, 0, 6);
      emit_load(argument);
      emit_compare(0, 0, 2);
      emit_load(argument + sizeof(uint32_t));
      emit_compare(0, 1, 0);
      break;
  }
  emit_deny();
  emit_load(number);
}

void same_user_confine(bool signals_scoped) {
  const unsigned own_pid = (unsigned)getpid();
  filter_length = 0;
  emit_load(offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < COUNT(ROWS); i++) emit_row(&ROWS[i], own_pid);
  for (unsigned i = 0; !signals_scoped && i < COUNT(SIGNALS); i++) emit_row(&SIGNALS[i], own_pid);
  emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  struct sock_fprog program = {.filter = filter, .len = (unsigned short)filter_length};
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges");
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "confine what the worker's user may do");
}

unsigned same_user_tasks(void) {
  DIR *list = opendir("/proc");
  unsigned tasks = 0;
  for (struct dirent *entry; list && (entry = readdir(list));) {
    char path[300];
    struct stat state;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "%s/task", entry->d_name);
    if (fstatat(dirfd(list), path, &state, 0) || state.st_uid != geteuid()) continue;
    tasks += (unsigned)state.st_nlink - 2; /* a link for each thread, and two of the directory's own */
  }
  if (list) closedir(list);
  return tasks;
}
