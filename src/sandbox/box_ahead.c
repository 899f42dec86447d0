#define _GNU_SOURCE
#include "box_ahead.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cgroup_files.h"
#include "failure.h"
#include "kernel_files.h"
#include "message.h"
#include "seccomp.h"
#include "wire.h"

/* Between init and the program's process. */
static int link_end = -1;

static long clone_here(const struct clone_args *arguments);
static void init_ahead(struct box *box, int orders, uint32_t run);
static void await_orders(struct box *box, int from);
static void pass_orders(const struct box *box);
static unsigned list_streams(const struct box *box, int *descriptors);

/*
 * To copy an interpreter's page tables and to free the copy costs 0.3 ms, and init needs none of it. So it is made as by vfork:
 * it goes on below this function's frame, which the suspended caller finds as it left it. The program's process, which init
 * forks, returns from here with a copy of both.
 */
__attribute__((noinline)) pid_t box_clone_ahead(struct box *box, int orders, uint32_t run, _Atomic int *pid, int *pidfd) {
  const uint64_t shared = box->thread_id ? CLONE_VM | CLONE_VFORK : 0;
  struct clone_args arguments = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_PARENT_SETTID | shared | (pidfd ? CLONE_PIDFD : 0),
                                 .parent_tid = (uint64_t)(uintptr_t)pid, .pidfd = (uint64_t)(uintptr_t)pidfd, .exit_signal = SIGCHLD};
  const long init = clone_here(&arguments);
  if (init == 0) init_ahead(box, orders, run);
  if (init >= 0) return (pid_t)init;
  errno = (int)-init;
  return -1;
}

/* Part of the caller, and no call: the return address of a call would be overwritten by what init calls. */
__attribute__((always_inline)) static inline long clone_here(const struct clone_args *arguments) {
#if defined __x86_64__
  long result = SYS_clone3;
  __asm__ volatile("syscall" : "+a"(result) : "D"(arguments), "S"(sizeof *arguments) : "rcx", "r11", "memory");
  return result;
#else
  register long number __asm__("x8") = SYS_clone3, first __asm__("x0") = (long)arguments, second __asm__("x1") = sizeof *arguments;
  __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second) : "memory");
  return first;
#endif
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
  static struct request request;
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
