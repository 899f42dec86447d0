/*
 * sysinfo shows the host's uptime, load, tasks and free memory. An error would be no answer: libc does
 * not check for one, and sort functions and virtual machines would take what lay on the stack for the
 * size of the memory. So the kernel stops the calling thread and asks the launcher, which writes the
 * same facts into every program's memory: those of a machine with MACHINE_BYTES and one task.
 *
 * A program could ask without end. After ANSWERS_MOST answers the launcher leaves the questions of the
 * slot unread for PAUSE_US, so they cost at most a few percent of a processor. A question that is
 * never read costs the program its own time only.
 *
 * The process that asks can die at any moment, and its id can be reused. So the launcher opens its
 * memory first, and checks after it that the question still stands: then the memory is that of the
 * process that asked.
 */
#define _GNU_SOURCE
#include "sysinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "monotonic.h"
#include "poll.h"

enum { ANSWERS_MOST = 8, PAUSE_US = 10 * 1000 };
static const uint64_t MACHINE_BYTES = 8ull << 30;

void sysinfo_open(struct slot *slot, int listener) {
  sysinfo_close(slot);
  slot->listener = listener;
  slot->answers = 0;
  poll_add(listener, EVENT_SYSINFO, slot->number, EPOLLIN);
}

void sysinfo_close(struct slot *slot) {
  if (slot->listener < 0) return;
  poll_remove(slot->listener); /* a process that was just forked may still have a copy, which would keep its event alive */
  close(slot->listener);
  slot->listener = -1;
  slot->pause_end_us = 0;
}

static int write_answer(const struct slot *slot, const struct seccomp_notif *question) {
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

/* Without a question, the ioctl would block; and the listener of a dead slot is ready, too. */
static bool has_question(const struct slot *slot) {
  struct pollfd listener = {.fd = slot->listener, .events = POLLIN};
  if (slot->listener < 0 || poll(&listener, 1, 0) <= 0) return false;
  if (listener.revents & POLLIN) return true;
  poll_remove(slot->listener);
  return false;
}

void sysinfo_answer(struct slot *slot) {
  struct seccomp_notif question = {0};
  if (!has_question(slot) || ioctl(slot->listener, SECCOMP_IOCTL_NOTIF_RECV, &question)) return;
  struct seccomp_notif_resp answer = {.id = question.id, .error = -write_answer(slot, &question)};
  ioctl(slot->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  if (++slot->answers < ANSWERS_MOST) return;
  poll_remove(slot->listener);
  slot->pause_end_us = monotonic_us() + PAUSE_US;
}

uint64_t sysinfo_check(struct slot *slot, uint64_t now) {
  if (!slot->pause_end_us) return UINT64_MAX;
  if (now < slot->pause_end_us) return slot->pause_end_us;
  slot->pause_end_us = 0;
  slot->answers = 0;
  poll_add(slot->listener, EVENT_SYSINFO, slot->number, EPOLLIN);
  return UINT64_MAX;
}
