/*
 * The part of a zygote that is not Python. It makes a box ahead of each run (box_ahead.h). The program's
 * process, a fork of the interpreter, gives up every right and continues as the interpreter.
 */
#define _GNU_SOURCE
#include "zygote_serve.h"

#include <pthread.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "box_ahead.h"
#include "cgroup_files.h"
#include "failure.h"
#include "kernel_files.h"
#include "message.h"
#include "seccomp.h"

static int orders = -1, memory = -1, statm = -1;
static uint64_t interpreter_bytes;
static struct box box;
static struct shared *shared;
static struct group group;

static pid_t fork_ahead(const struct fork_hooks *hooks);
static void size_threads(uint64_t bytes);
static void register_sequences(void);
static void prepare_program(void);
static void forget_shared_pages(void);
static void reap(pid_t init);

/* The priority makes this run before interpreter.c erases the variable from the environment. */
__attribute__((constructor(101))) static void read_descriptors(void) {
  const char *text = getenv("RUNLEDGER_ZYGOTE");
  if (text && sscanf(text, "%d:%d:%d", &orders, &memory, &statm) != 3) _exit(EXIT_BROKEN);
}

void zygote_initialised(void) { interpreter_bytes = read_private_bytes(statm); }

void zygote_serve(const struct fork_hooks *hooks) {
  char message;
  int unwanted[4];
  unsigned count;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (shared == MAP_FAILED) _exit(EXIT_BROKEN);
  group = shared->zygote.group;
  box = (struct box){.shared = shared, .group = &group, .identity = shared->zygote.identity,
                     .reports = shared->zygote.reports};
  shared->zygote.interpreter_bytes = interpreter_bytes;
  shared->zygote.private_bytes = read_private_bytes(statm);
  close(statm);
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
  if (getppid() != shared->zygote.slot) _exit(EXIT_BROKEN);
  must((long)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC), "mark descriptors to close on exec");
  box.parent = (int)must((long)syscall(SYS_pidfd_open, getpid(), 0), "open the zygote's own pidfd");
  /* A kernel without CONFIG_CHECKPOINT_RESTORE does not say. */
  if (prctl(PR_GET_TID_ADDRESS, &box.thread_id)) box.thread_id = NULL;
  seccomp_build(false);
  must(send_message(orders, MESSAGE_READY, NULL, 0), "report that the zygote is ready");
  while (receive_message(orders, &message, unwanted, &count, true) == 1 && (message == MESSAGE_FORK || message == MESSAGE_DROP)) {
    if (message == MESSAGE_DROP) continue;
    pid_t init = fork_ahead(hooks);
    if (init == 0) return;
    reap(init);
    must(send_message(orders, MESSAGE_FORK, NULL, 0), "report that a child is reaped");
  }
  _exit(0);
}

/* Returns init's pid in the zygote, and 0 in the program's process once everything is done. */
static pid_t fork_ahead(const struct fork_hooks *hooks) {
  const struct box own_box = box;
  const struct group own_group = group;
  hooks->before();
  pid_t init = (pid_t)must(box_clone_ahead(&box, orders, shared->zygote.run_group, &shared->zygote.init_pid, NULL), "clone init");
  if (init > 0) {
    /* Descriptors that init opened are in its table alone. */
    box = own_box;
    group = own_group;
    failure_sink = NULL;
    hooks->after_parent();
    return init;
  }
  register_sequences();
  hooks->after_child();
  prepare_program();
  return 0;
}

/* Init has none, because it uses the zygote's memory. So the kernel would not tell the program on which processor it runs. */
static void register_sequences(void) {
#ifdef RSEQ_SIG
  /* The kernel knows no size below 32, and libc reports the bytes in use. */
  if (__rseq_size) syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, __rseq_size < 32 ? 32 : __rseq_size, 0, RSEQ_SIG);
#endif
}

static void prepare_program(void) {
  box_await_run(&box, orders);
  box_become_program(&box);
  /* An execve would do this too: the change of user made the process's own /proc/self inaccessible. */
  must(prctl(PR_SET_DUMPABLE, 1), "make the program's process dumpable");
  size_threads(box.request->limits.stack_bytes);
  box_start_clock(&box);
  forget_shared_pages();
}

/* An execve would have made this the size of a thread's stack; glibc read the limit when the interpreter started. */
static void size_threads(uint64_t bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return;
  if (!pthread_attr_setstacksize(&attributes, bytes)) pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

/* There is no execve to do this. These pages also carry the next run. */
static void forget_shared_pages(void) {
  struct shared *pages = shared;
  failure_sink = NULL;
  shared = box.shared = NULL;
  syscall(SYS_close_range, 3, ~0u, 0);
  munmap(pages, sizeof *pages);
}

/* As in the slot: init_pid becomes 0 while no other process can have the pid. */
static void reap(pid_t init) {
  siginfo_t end;
  waitid(P_PID, (id_t)init, &end, WEXITED | WNOWAIT);
  int mine = init;
  __atomic_compare_exchange_n((int *)&shared->init_pid, &mine, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  shared->zygote.init_pid = 0;
  waitpid(init, NULL, 0);
}
