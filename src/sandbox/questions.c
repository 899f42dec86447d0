/*
 * Two system calls stop the calling thread until the slot has answered. The filter chooses them
 * (ASK in seccomp_rules.c).
 *
 * sysinfo shows the host's uptime, load, tasks and free memory. An error would be no answer: libc does
 * not check for one, and sort functions and virtual machines would take what lay on the stack for the
 * size of the memory. So the slot writes the same facts into every program's memory: those of a
 * machine with MACHINE_BYTES and one task. The process that asks can die at any moment, and its id can
 * be reused. So the slot opens its memory first, and checks after it that the question still
 * stands: then the memory is that of the process that asked. (In degraded isolation a root without CAP_SYS_PTRACE may not open
 * it. Then the kernel answers.)
 *
 * mmap or mremap for more memory than a program can ever use would fail in the kernel, too, but at a
 * size that depends on the machine, and without a trace. So the slot refuses it first, and counts
 * that in the report: a runtime that then reports the end of its memory is believed. What is large for
 * most limits is not for a limit of many GiB; the kernel decides about that. Letting it decide is safe:
 * the arguments are in registers, which no other thread can change, and no other filter denied the call.
 *
 * A request that only reserves addresses (PROT_NONE, MAP_NORESERVE, a mapping of a file) asks nothing. brk is never refused,
 * so a C library may get the memory that way; then the limit decides. On a machine with less than 4 GiB the kernel refuses
 * smaller requests, too, and no count shows it: a runtime that then says that memory ran out gets RE or SIG. So does one
 * that refuses by itself, as for an array larger than the heap of a JVM.
 *
 * The kernel can ask only one process about a program's calls. In some containers the launcher runs under a filter that asks
 * another one. There the slot cannot be asked: the program's filter answers large requests with ENOMEM, and nothing is
 * counted.
 *
 * The launcher answers no question, because each touches what a program can lock: a write into its
 * memory waits for the lock of its address space and can free that memory, and the listener has a lock
 * that a program's thread can keep while it waits for a processor.
 *
 * A program could ask without end. The slot gives ANSWERS_MOST answers in WINDOW_US, and then leaves
 * questions unread until these are over, so they cost at most a few percent of a processor. A virtual
 * machine asks five times when it starts and never waits. A question that is never read costs the
 * program its own time only.
 */
#define _GNU_SOURCE
#include "questions.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "monotonic.h"

enum { ANSWERS_MOST = 8, WINDOW_US = 10 * 1000 };
static const uint64_t MACHINE_BYTES = 8ull << 30;
/* A mapping may be sparse: a program may ask for this many times its limit in one piece, and touch less. */
enum { LIMITS_AT_ONCE = 4 };

static int listener = -1, proc;
static struct shared *shared;
static const struct limits *limits;
static unsigned answers;       /* in the window */
static uint64_t window_end_us; /* the first answer after it begins the next */
static uint64_t pause_end_us;  /* 0: there is no pause */

static void answer_one(void);
static int wait_until(struct pollfd *polled, unsigned count, uint64_t now, uint64_t until_us);

void questions_open(int slot_listener, int machine_proc, struct shared *pages) {
  listener = slot_listener;
  proc = machine_proc;
  shared = pages;
}

void questions_limit(const struct limits *of_run) { limits = of_run; }

int questions_poll(struct pollfd *polled, unsigned count, uint64_t until_us) {
  for (;;) {
    uint64_t now = monotonic_us();
    if (now >= pause_end_us) pause_end_us = 0;
    polled[count] = (struct pollfd){.fd = pause_end_us ? -1 : listener, .events = POLLIN};
    const bool wakes = pause_end_us && pause_end_us < until_us;
    int ready = wait_until(polled, count + 1, now, wakes ? pause_end_us : until_us);
    const bool asked = ready > 0 && polled[count].revents;
    if (asked) answer_one();
    if (ready > asked) return ready - asked;
    if (!asked && !wakes) return ready;
  }
}

static int wait_until(struct pollfd *polled, unsigned count, uint64_t now, uint64_t until_us) {
  uint64_t left = until_us > now ? until_us - now : 0;
  struct timespec wait = {.tv_sec = (time_t)(left / 1000000), .tv_nsec = (long)(left % 1000000) * 1000};
  return ppoll(polled, count, until_us == UINT64_MAX ? NULL : &wait, NULL);
}

static int write_sysinfo(const struct seccomp_notif *question) {
  const struct sysinfo facts = {.totalram = MACHINE_BYTES, .freeram = MACHINE_BYTES, .procs = 1, .mem_unit = 1};
  char path[32];
  int error = EPERM;
  snprintf(path, sizeof path, proc == AT_FDCWD ? "/proc/%u/mem" : "%u/mem", question->pid);
  int memory = openat(proc, path, O_WRONLY | O_CLOEXEC);
  if (memory >= 0 && !ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &question->id))
    error = pwrite(memory, &facts, sizeof facts, (off_t)question->data.args[0]) == sizeof facts ? 0 : EFAULT;
  if (memory >= 0) close(memory);
  else if (errno == EACCES && proc == AT_FDCWD && geteuid() == 0) error = EACCES;
  return error;
}

static bool is_too_much(const struct seccomp_data *call) {
  const bool moves = call->nr == SYS_mremap;
  uint64_t wanted = call->args[moves ? 2 : 1];
  if (!limits || (moves && wanted <= call->args[1])) return false;
  return wanted / LIMITS_AT_ONCE > limits->memory_bytes;
}

static void answer_one(void) {
  struct seccomp_notif question = {0};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &question)) return;
  struct seccomp_notif_resp answer = {.id = question.id};
  bool refused = false;
  if (question.data.nr == SYS_sysinfo) answer.error = -write_sysinfo(&question);
  else if ((refused = is_too_much(&question.data))) answer.error = -ENOMEM;
  else answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  if (answer.error == -EACCES) answer.error = 0, answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  /* A signal withdraws the question, and the call may ask again: only an answer that arrives counts. */
  if (!ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer)) shared->memory_refused += refused;
  uint64_t now = monotonic_us();
  if (now >= window_end_us) {
    window_end_us = now + WINDOW_US;
    answers = 0;
  }
  if (++answers >= ANSWERS_MOST) pause_end_us = window_end_us;
}
