#define _GNU_SOURCE
#include "box_ahead.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup_files.h"
#include "failure.h"
#include "kernel_files.h"
#include "message.h"
#include "seccomp.h"
#include "wire.h"

enum { INIT_STACK_BYTES = 16 * 1024 };

/* Between init and the program's process. */
static int link_end = -1;
static struct request request;

static pid_t clone_sharing(struct box *box, int orders, uint32_t run, struct clone_args *arguments);
static long clone_and_wait(const struct clone_args *arguments);
static void forget_run(void);
static void init_ahead(struct box *box, int orders, uint32_t run);
static void await_orders(struct box *box, int from);
static void pass_orders(const struct box *box);
static unsigned list_streams(const struct box *box, int *descriptors);

pid_t box_clone_ahead(struct box *box, int orders, uint32_t run, _Atomic int *pid, int *pidfd) {
  struct clone_args arguments = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_PARENT_SETTID | (pidfd ? CLONE_PIDFD : 0),
                                 .parent_tid = (uint64_t)(uintptr_t)pid, .pidfd = (uint64_t)(uintptr_t)pidfd, .exit_signal = SIGCHLD};
  if (box->thread_id) return clone_sharing(box, orders, run, &arguments);
  pid_t init = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
  if (init == 0) init_ahead(box, orders, run);
  return init;
}

/*
 * To copy an interpreter's page tables and to free the copy costs 0.3 ms, and init needs none of it. So init uses the caller's
 * memory, as after vfork, and goes on below this function's frame. The caller only waits: it writes nothing, and no
 * signal handler runs in it. (After vfork itself it would wait in a state that counts as load of the machine.) The program's process,
 * which init forks, returns from here with a copy of both.
 */
__attribute__((noinline)) static pid_t clone_sharing(struct box *box, int orders, uint32_t run, struct clone_args *arguments) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  arguments->flags |= CLONE_VM;
  const long init = clone_and_wait(arguments);
  if (init == 0) init_ahead(box, orders, run);
  if (init > 0) forget_run();
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (init >= 0) return (pid_t)init;
  errno = (int)-init;
  return -1;
}

/*
 * clone3, and in the caller waitid until the process is dead, without reaping it. It is part of the caller's frame, and no call:
 * what init calls would overwrite the return address. And it is one piece, in which the compiler can put nothing on the stack.
 */
__attribute__((always_inline)) static inline long clone_and_wait(const struct clone_args *arguments) {
#if defined __x86_64__
  long result = SYS_clone3, size = sizeof *arguments;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jle 2f\n\t"
      "mov %%rax, %%r12\n"
      "1:\n\t"
      "mov %[waitid], %%eax\n\t"
      "mov %[by_pid], %%edi\n\t"
      "mov %%r12, %%rsi\n\t"
      "xor %%edx, %%edx\n\t"
      "mov %[how], %%r10d\n\t"
      "xor %%r8d, %%r8d\n\t"
      "syscall\n\t"
      "cmp %[again], %%rax\n\t"
      "je 1b\n\t"
      "mov %%r12, %%rax\n"
      "2:"
      : "+a"(result), "+D"(arguments), "+S"(size)
      : [waitid] "i"(SYS_waitid), [by_pid] "i"(P_PID), [how] "i"(WEXITED | WNOWAIT), [again] "i"(-EINTR)
      : "rcx", "rdx", "r8", "r10", "r11", "r12", "cc", "memory");
  return result;
#else
  register long number __asm__("x8") = SYS_clone3, first __asm__("x0") = (long)arguments, second __asm__("x1") = sizeof *arguments;
  __asm__ volatile(
      "svc 0\n\t"
      "cmp x0, 0\n\t"
      "b.le 2f\n\t"
      "mov x9, x0\n"
      "1:\n\t"
      "mov x8, %[waitid]\n\t"
      "mov x0, %[by_pid]\n\t"
      "mov x1, x9\n\t"
      "mov x2, 0\n\t"
      "mov x3, %[how]\n\t"
      "mov x4, 0\n\t"
      "svc 0\n\t"
      "cmn x0, %[again]\n\t"
      "b.eq 1b\n\t"
      "mov x0, x9\n"
      "2:"
      : "+r"(number), "+r"(first), "+r"(second)
      : [waitid] "i"(SYS_waitid), [by_pid] "i"(P_PID), [how] "i"(WEXITED | WNOWAIT), [again] "i"(EINTR)
      : "x2", "x3", "x4", "x9", "cc", "memory");
  return first;
#endif
}

/* What init left of its request and on the stack. The program of the next run gets a copy of this memory. */
__attribute__((noinline)) static void forget_run(void) {
  char stack[INIT_STACK_BYTES];
  explicit_bzero(stack, sizeof stack);
  explicit_bzero(&request, sizeof request);
}

/* Returns in the program's process only. */
__attribute__((noinline)) static void init_ahead(struct box *box, int orders, uint32_t run) {
  int ends[2], kept[GROUP_DESCRIPTORS + 4];
  failure_sink = NULL; /* no run has failed yet */
  box_die_with_parent(box);
  if (box->group->kind != ISOLATION_V1) group_follow(box->group, run, SETS_LIMITS);
  must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "make a socket between init and program");
  /* What the slot or the zygote has open lives on in it otherwise, whatever becomes of them. */
  unsigned count = group_descriptors(box->group, kept);
  const int own[] = {orders, box->reports, ends[0], ends[1]};
  for (unsigned i = 0; i < 4; i++) kept[count++] = own[i];
  must(close_all_but(kept, count), "close the descriptors of the process that makes the box");
  box_mount(box);
  pid_t program = box_fork_program(box);
  close(ends[program > 0]);
  link_end = ends[program == 0];
  if (program == 0) return;
  close(0), close(1), close(2);
  /* The program's process is the first that a machine without memory ends. Then both sockets of the orders close. */
  struct pollfd either[] = {{.fd = orders, .events = POLLIN}, {.fd = link_end, .events = POLLIN}};
  if (poll(either, 2, -1) < 0 || either[1].revents) _exit(0);
  await_orders(box, orders);
  /* In v1 the slot has set the limits of the run group that it made. */
  if (box->group->kind != ISOLATION_V1) group_limit(box->group, &box->request->limits, 0);
  box_limit_files(box->request);
  box_furnish(box);
  pass_orders(box);
  box_raise_priority();
  seccomp_confine();
  box_await(box, program);
}

/* To compile the filter takes the kernel 0.04 ms. What follows are calls that every program may make. */
void box_await_run(struct box *box, int orders) {
  box_protect_proc();
  seccomp_confine();
  must(send_message(orders, MESSAGE_READY, NULL, 0), "report that a box is ready");
  await_orders(box, link_end);
}

/* Without orders the process exits: the slot does not need the box, or init is dead. */
static void await_orders(struct box *box, int from) {
  char message;
  unsigned count;
  int passed[MESSAGE_DESCRIPTORS], *next = passed;
  if (receive_message(from, &message, passed, &count, true) != 1 || message != MESSAGE_RUN) _exit(0);
  failure_sink = &box->shared->failure;
  if (wire_parse(box->shared->frame, box->shared->frame_length, &request)) fail("parse a request");
  box->request = &request;
  const unsigned streams = box->group->kind == ISOLATION_V1 ? 4 : 3;
  if (count != streams && count != streams + request.load_count) fail("receive the descriptors of a run");
  for (int i = 0; i < 3; i++) box->files[i] = *next++;
  box->group->entrance = streams == 4 ? *next++ : -1;
  for (unsigned i = 0; i < count - streams; i++) box->loads[i] = *next++;
}

int box_order_run(const struct box *box, int orders) {
  int passed[MESSAGE_DESCRIPTORS];
  unsigned count = list_streams(box, passed);
  for (unsigned i = 0; i < box->request->load_count; i++) passed[count++] = box->loads[i];
  return send_message(orders, MESSAGE_RUN, passed, count);
}

static void pass_orders(const struct box *box) {
  int passed[MESSAGE_DESCRIPTORS];
  unsigned count = list_streams(box, passed);
  must(send_message(link_end, MESSAGE_RUN, passed, count), "send the orders to the program");
  for (int i = 0; i < 3; i++) close(box->files[i]);
}

static unsigned list_streams(const struct box *box, int *descriptors) {
  unsigned count = 0;
  for (; count < 3; count++) descriptors[count] = box->files[count];
  if (box->group->kind == ISOLATION_V1) descriptors[count++] = box->group->entrance;
  return count;
}
