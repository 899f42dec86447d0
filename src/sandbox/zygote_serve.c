/*
 * The zygote's half that is not Python: forks, ahead of time, an init and under it the process that
 * will be the program, and lets that wait for its orders. They come straight from the slot: the
 * request in the shared pages, and the three descriptors. Of the box, init has nothing left to do by
 * then, and the program's process furnishes it, gives up every right, and goes on as the interpreter.
 */
#define _GNU_SOURCE
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpreter.h"
#include "launcher.h"

static int orders = -1, memory = -1, statm = -1;
static uint64_t interpreter_bytes;
static struct box box;
static struct shared *shared;
static struct group group;
static volatile bool *started; /* shared with init: it must not report a child that never had orders */

static pid_t fork_ahead(const struct fork_hooks *hooks);
static void await_orders(void);
static void reap(pid_t init);

/* Before interpreter.c wipes it from the environment: hence the priority. */
__attribute__((constructor(101))) static void read_descriptors(void) {
  const char *text = getenv("RUNLEDGER_ZYGOTE");
  if (text && sscanf(text, "%d:%d:%d", &orders, &memory, &statm) != 3) _exit(EXIT_BROKEN);
}

/* Private pages: what is mapped from files was not charged to a plain run either, it is in the page cache. */
void zygote_initialised(void) {
  char text[128] = "";
  unsigned long all, resident, shared_pages;
  if (pread(statm, text, sizeof text - 1, 0) > 0 && sscanf(text, "%lu %lu %lu", &all, &resident, &shared_pages) == 3)
    interpreter_bytes = (resident - shared_pages) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void zygote_serve(const struct fork_hooks *hooks) {
  char message;
  int unwanted[4];
  unsigned count;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  started = mmap(NULL, sizeof *started, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || (void *)started == MAP_FAILED) _exit(EXIT_BROKEN);
  groups_adopt(shared->zygote.kind);
  group = shared->zygote.group;
  group.leaf = -1; /* the slot's own was closed by execve: its number may be another file's */
  box = (struct box){.shared = shared, .group = &group, .identity = shared->zygote.identity,
                     .control = shared->zygote.control, .started = started};
  shared->zygote.interpreter_bytes = interpreter_bytes;
  close(statm);
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
  if (getppid() != shared->zygote.slot) _exit(EXIT_BROKEN);
  must((long)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC), "close nothing yet");
  box.parent = (int)must((long)syscall(SYS_pidfd_open, getpid(), 0), "open the zygote's own pidfd");
  seccomp_build(false);
  must(send_message(orders, MESSAGE_READY, NULL, 0), "say that the zygote is ready");
  while (receive_message(orders, &message, unwanted, &count, true) == 1 && message == MESSAGE_FORK) {
    pid_t init = fork_ahead(hooks);
    if (init == 0) return;
    reap(init);
    must(send_message(orders, MESSAGE_FORK, NULL, 0), "say that a child is reaped");
  }
  _exit(0);
}

/* In the zygote: init's pid. In the program's process: 0, with everything done. */
static pid_t fork_ahead(const struct fork_hooks *hooks) {
  struct clone_args arguments = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC, .exit_signal = SIGCHLD};
  *started = false;
  if (groups_kind() != ISOLATION_V1) {
    group_follow(&group, shared->zygote.leaf);
    arguments.flags |= CLONE_INTO_CGROUP | CLONE_NEWCGROUP;
    arguments.cgroup = (uint64_t)group.leaf;
  }
  hooks->before();
  pid_t init = (pid_t)must((long)syscall(SYS_clone3, &arguments, sizeof arguments), "clone init");
  if (init > 0) {
    hooks->after_parent();
    shared->zygote.init_pid = init;
    must(send_message(orders, MESSAGE_READY, NULL, 0), "say that a child is ready");
    return init;
  }
  box_die_with_parent(&box);
  pid_t program = (pid_t)must(fork(), "fork the program");
  if (program > 0) {
    close(0), close(1), close(2);
    seccomp_confine();
    box_await(&box, program);
  }
  hooks->after_child();
  await_orders();
  return 0;
}

static void await_orders(void) {
  static struct request request;
  char message;
  unsigned count;
  if (receive_message(orders, &message, box.files, &count, true) != 1 || message != MESSAGE_RUN || count != 3) _exit(0);
  fault_sink = &shared->fault;
  *started = true;
  if (wire_parse(shared->frame, shared->frame_length, &request)) fail("a request is not understood");
  box.request = &request;
  struct limits limits = zygote_limits(&request, shared);
  if (groups_kind() != ISOLATION_V1) group_limit(&group, &limits, 1);
  box_furnish(&box);
  shared->memory_start_bytes = read_counter(group.memory, NULL);
  seccomp_confine();
  box_become_program(&box);
  /* As after an execve: the change of user has hidden the process's own /proc/self from it. */
  must(prctl(PR_SET_DUMPABLE, 1), "show the program's process");
  box_start_clock(&box);
  /* No execve will do this. What is mapped here is the next run's, too. */
  struct shared *pages = shared;
  fault_sink = NULL;
  shared = box.shared = NULL;
  syscall(SYS_close_range, 3, ~0u, 0);
  munmap(pages, sizeof *pages);
  munmap((void *)started, sizeof *started);
}

/* As the slot does it: init_pid is zeroed while the pid is still taken. */
static void reap(pid_t init) {
  siginfo_t end;
  waitid(P_PID, (id_t)init, &end, WEXITED | WNOWAIT);
  int mine = init;
  __atomic_compare_exchange_n((int *)&shared->init_pid, &mine, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  shared->zygote.init_pid = 0;
  waitpid(init, NULL, 0);
}
