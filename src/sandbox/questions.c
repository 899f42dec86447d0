/*
 * Two system calls stop the calling thread until the launcher has answered. The filter chooses them
 * (ASK in seccomp_rules.c).
 *
 * sysinfo shows the host's uptime, load, tasks and free memory. An error would be no answer: libc does
 * not check for one, and sort functions and virtual machines would take what lay on the stack for the
 * size of the memory. So the launcher writes the same facts into every program's memory: those of a
 * machine with MACHINE_BYTES and one task. The process that asks can die at any moment, and its id can
 * be reused. So the launcher opens its memory first, and checks after it that the question still
 * stands: then the memory is that of the process that asked.
 *
 * mmap or mremap for more memory than a program can ever use would fail in the kernel, too, but at a
 * size that depends on the machine, and without a trace. So the launcher refuses it first, and counts
 * that in the report: a runtime that then reports the end of its memory is believed. What is large for
 * most limits is not for a limit of many GiB; the kernel decides about that. Letting it decide is safe:
 * the arguments are in registers, which no other thread can change, and no other filter denied the call.
 *
 * A program could ask without end. After ANSWERS_MOST answers the launcher leaves the questions of the
 * slot unread for PAUSE_US, so they cost at most a few percent of a processor. A question that is
 * never read costs the program its own time only.
 */
#define _GNU_SOURCE
#include "questions.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "monotonic.h"
#include "poll.h"

enum { ANSWERS_MOST = 8, PAUSE_US = 10 * 1000 };
static const uint64_t MACHINE_BYTES = 8ull << 30;
/* A mapping may be sparse: a program may ask for this many times its limit in one piece, and touch less. */
enum { LIMITS_AT_ONCE = 4 };

void questions_open(struct slot *slot, int listener) {
  questions_close(slot);
  slot->listener = listener;
  slot->answers = 0;
  poll_add(listener, EVENT_QUESTION, slot->number, EPOLLIN);
}

void questions_close(struct slot *slot) {
  if (slot->listener < 0) return;
  poll_remove(slot->listener); /* a process that was just forked may still have a copy, which would keep its event alive */
  close(slot->listener);
  slot->listener = -1;
  slot->pause_end_us = 0;
}

static int write_sysinfo(const struct slot *slot, const struct seccomp_notif *question) {
  const struct sysinfo facts = {.totalram = MACHINE_BYTES, .freeram = MACHINE_BYTES, .procs = 1, .mem_unit = 1};
  char path[32];
  int error = EPERM;
  snprintf(path, sizeof path, "/proc/%u/mem", question->pid);
  int memory = open(path, O_WRONLY | O_CLOEXEC);
  if (memory >= 0 && !ioctl(slot->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &question->id))
    error = pwrite(memory, &facts, sizeof facts, (off_t)question->data.args[0]) == sizeof facts ? 0 : EFAULT;
  if (memory >= 0) close(memory);
  return error;
}

static bool is_too_much(const struct slot *slot, const struct seccomp_data *call) {
  const bool moves = call->nr == SYS_mremap;
  uint64_t wanted = call->args[moves ? 2 : 1];
  if (moves && wanted <= call->args[1]) return false;
  return wanted / LIMITS_AT_ONCE > slot->request.limits.memory_bytes;
}

/* Without a question, the ioctl would block; and the listener of a dead slot is ready, too. */
static bool has_question(const struct slot *slot) {
  struct pollfd listener = {.fd = slot->listener, .events = POLLIN};
  if (slot->listener < 0 || poll(&listener, 1, 0) <= 0) return false;
  if (listener.revents & POLLIN) return true;
  poll_remove(slot->listener);
  return false;
}

void questions_answer(struct slot *slot) {
  struct seccomp_notif question = {0};
  if (!has_question(slot) || ioctl(slot->listener, SECCOMP_IOCTL_NOTIF_RECV, &question)) return;
  struct seccomp_notif_resp answer = {.id = question.id};
  bool refused = false;
  if (question.data.nr == SYS_sysinfo) answer.error = -write_sysinfo(slot, &question);
  else if ((refused = is_too_much(slot, &question.data))) answer.error = -ENOMEM;
  else answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  /* A signal withdraws the question, and the call may ask again: only an answer that arrives counts. */
  if (!ioctl(slot->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer)) slot->memory_refused += refused;
  if (++slot->answers < ANSWERS_MOST) return;
  poll_remove(slot->listener);
  slot->pause_end_us = monotonic_us() + PAUSE_US;
}

uint64_t questions_check(struct slot *slot, uint64_t now) {
  if (!slot->pause_end_us) return UINT64_MAX;
  if (now < slot->pause_end_us) return slot->pause_end_us;
  slot->pause_end_us = 0;
  slot->answers = 0;
  poll_add(slot->listener, EVENT_QUESTION, slot->number, EPOLLIN);
  return UINT64_MAX;
}
