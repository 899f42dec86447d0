/*
 * The launcher runs untrusted programs for a worker, which talks to it over a socket.
 *
 * Theory of operation
 * -------------------
 * Five kinds of process run, each the parent of the next:
 *
 *   worker (Node) - launcher - slot (room for one run) - init (one per run) - program
 *
 * The *launcher* is one process with one loop. It reads requests, gives each to a free slot, checks the
 * clock and the group's CPU counter, ends runs that exceed a limit, and writes one answer per request.
 * It is never inside a slot's control group, so no program can take memory from it. It knows no secret:
 * its environment is empty.
 *
 * A *slot* is long-lived. It makes once what is slow to make and safe to reuse: its control group, an
 * empty network namespace, a host name, a user id, and for each profile a mount namespace that contains
 * only a read-only root. For each request it clones an init into fresh pid, mount and ipc namespaces,
 * waits until init is reaped and nothing of the run is left, and reports that it is idle. During the run
 * it reads the program's output and answers the system calls about which the filter asks (relay.c). Two
 * slots can run a pair, each of which gets the other's output as its input (partner.h).
 *
 * An *init* is process 1 of its run. It mounts a fresh /proc and a fresh tmpfs, writes the request's
 * files, forks the program, waits for it, records how and when it ended, and exits. Its exit makes the
 * kernel kill every process that the program left.
 *
 * Launcher, slot and init share some pages (struct shared), which a program loses at execve. A socket
 * pair for each slot carries one-byte messages such as run, done and idle (message.h).
 *
 * What must stay true
 * -------------------
 * - A slot takes a run only after its group was empty. No process outlives its run.
 * - The launcher never waits for, and never pays for, an object that a program can lock, or on which it
 *   can put waiters: a pipe, an address space, the listener of the filter, the last reference to its
 *   memory or files. It touches control groups, pidfds, and what it shares with slots. A slot may be
 *   blocked by its program: the launcher ends a run without the slot's help, and the program's death
 *   releases whatever the program had locked.
 * - A process that dies takes its children with it. The launcher ends when its socket closes, and by
 *   SIGTERM when the worker dies. Slots and inits die by SIGKILL when their parent dies, and programs
 *   die with their init. If something is left nevertheless (the machine stopped in the middle), the
 *   next launcher sweeps it.
 * - Nothing depends on process 1, which in a container may never reap orphans. The launcher reaps those of a
 *   dead slot, and a slot those of a dead zygote.
 * - The worker's heartbeats move a deadline. When it passes, the launcher ends every run, because by
 *   then another worker may have taken over the executions.
 * - Before its first instruction, a program has exactly three descriptors, no capability in any set,
 *   and a filter on its system calls.
 * - The worker gets one answer per request: a report (how the program ended, with evidence) or a fault
 *   (the launcher could not run it). A fault says nothing about the program.
 *
 * Modules
 * -------
 * A module is a .c file with its header, or a header alone. Each includes and calls only modules further
 * down; `test/c_arrows.test.ts` checks that there is no circle.
 *
 *   main                           the loop
 *   requests                       frames from the worker, and their queue
 *   slots                          the launcher's slots
 *   run_watch, run_output, run_report   one run, as the launcher sees it; an open box's streams
 *   answers, artefacts, saving, poll   frames to the worker, the store, the process that writes to it, the descriptors
 *   slot                           the slot's process
 *   zygote, degraded               its other ways to run a program
 *   relay, streams, partner, questions, inherited   what it does while a program runs
 *   kept_files, input_file, output_pages   the bytes that it takes from a program, and gives to one
 *   root, box, degraded_files, landlock, same_user   what surrounds a program
 *   seccomp, seccomp_rules         its system calls
 *   cgroup, cgroup_run, ...       control groups of both versions; cgroup_quota: the processors
 *   identity, message, options, wire, remains
 *   failure, kernel_files, buffer, monotonic, remove_tree, isolation
 *
 * `interpreter.c` and `zygote_serve.c` are preloaded into a Python interpreter, with some of the others.
 *
 * Exit codes: 0 the worker is gone, 1 broken, 2 wrong usage, 3 this machine offers no isolation.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answers.h"
#include "array.h"
#include "artefacts.h"
#include "cgroup.h"
#include "degraded.h"
#include "failure.h"
#include "identity.h"
#include "isolation.h"
#include "monotonic.h"
#include "options.h"
#include "poll.h"
#include "requests.h"
#include "run_output.h"
#include "run_watch.h"
#include "seccomp.h"
#include "slots.h"

enum { WHY_SIZE = 1200 };
/* No valid address, descriptor, process or flag; test/sandbox/programs/cpp/calls.cpp has it too. */
static const uint64_t SAMPLE_ARGUMENT = 0x7f7f7f7f7f7f7f7f;

static struct options options;
static bool stopped; /* by a signal */
static char missing[WHY_SIZE]; /* what this machine lacks for full isolation, and how to get it */

static void keep_sign_of_life(void);
static void die_with_worker(void);
static void find_isolation(void);
static bool find_full(enum isolation wanted, char *why);
static int end_probe(void);
static void open_signals(void);
static int raise_priority(void);
static void say_hello(void);
static void loop(bool (*until)(void));
static bool is_closing(void);
static void handle(const struct ready *ready);
static int check_all(void);

int main(int count, char **arguments) {
  options_parse(count, arguments, &options);
  if (options.print_filter) {
    seccomp_print(options.isolation == ISOLATION_RLIMITS, SAMPLE_ARGUMENT);
    return 0;
  }
  keep_sign_of_life();
  die_with_worker();
  find_isolation();
  artefacts_open(options.store);
  open_signals();
  slots_start(&options, raise_priority());
  loop(slots_ready);
  if (options.probe) return end_probe();
  requests_open(&options);
  say_hello();
  loop(is_closing);
  slots_stop();
  return 0;
}

/* Slots keep the descriptor with this number. If the worker gave none, /dev/null takes the number, so that no other file can. */
static void keep_sign_of_life(void) {
  if (fcntl(SIGN_OF_LIFE, F_SETFD, FD_CLOEXEC) == 0) return;
  int nothing = (int)must(open("/dev/null", O_RDONLY | O_CLOEXEC), "open /dev/null");
  if (nothing == SIGN_OF_LIFE) return;
  must(dup3(nothing, SIGN_OF_LIFE, O_CLOEXEC), "take the number of the sign of life");
  close(nothing);
}

/* The socket closes too, but only when every process that has it is gone. */
static void die_with_worker(void) {
  pid_t worker = getppid();
  clearenv();
  umask(022);
  must(prctl(PR_SET_PDEATHSIG, SIGTERM), "ask to die with the worker");
  if (getppid() != worker) exit(0);
  /* Its memory contains customers' bytes: no core dump, and no tracer. */
  must(prctl(PR_SET_DUMPABLE, 0), "make the launcher not dumpable");
}

static void find_isolation(void) {
  const bool degraded = options.isolation == ISOLATION_RLIMITS;
  char why[WHY_SIZE];
  bool found = find_full(degraded ? ISOLATION_AUTO : options.isolation, why);
  if (degraded) {
    if (found) snprintf(missing, sizeof missing, "nothing that the launcher knows of: set RUNLEDGER_ISOLATION=auto");
    else memcpy(missing, why, sizeof missing);
    found = degraded_usable(options.uid_base, why, sizeof why) && groups_find(ISOLATION_RLIMITS, why, sizeof why);
  }
  if (found && groups_claim(why, sizeof why)) {
    identity_claim(groups_kind(), groups_instance(), options.uid_base);
    if (!groups_limit_cpu(options.slots, options.cpu_reserve, why, sizeof why)) memcpy(missing, why, sizeof missing);
    return;
  }
  fprintf(stderr, "launcher: no isolation: %s%s%s\n", missing, *missing ? "; " : "", why);
  exit(EXIT_NO_ISOLATION);
}

/* Control groups, and the right to make namespaces. */
static bool find_full(enum isolation wanted, char *why) {
  if (!groups_find(wanted, why, WHY_SIZE)) return false;
  return groups_kind() == ISOLATION_V2_USER ? userns_usable(why, WHY_SIZE) : root_usable(options.uid_base, why, WHY_SIZE);
}

static void open_signals(void) {
  sigset_t set;
  signal(SIGPIPE, SIG_IGN);
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  must(sigprocmask(SIG_BLOCK, &set, NULL), "block signals");
  int signals = (int)must(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "make a signalfd");
  poll_add(signals, EVENT_SIGNAL, 0, POLLIN);
}

/* The launcher must see what a program does while that program uses every processor. Returns the priority of before. */
static int raise_priority(void) {
  int worker_priority = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, -10);
  return worker_priority;
}

/* JSON: `missing` is null, or what this machine lacks for full isolation, and how to provide it. */
static size_t describe(char *text, size_t size) {
  char reason[2 * WHY_SIZE] = "null", *at = reason;
  const bool degraded = groups_kind() == ISOLATION_RLIMITS;
  if (*missing) *at++ = '"';
  for (const char *from = missing; *from; from++) {
    if (*from == '"' || *from == '\\') *at++ = '\\';
    *at++ = (unsigned char)*from < ' ' ? ' ' : *from;
  }
  if (*missing) *at++ = '"', *at = 0;
  return (size_t)snprintf(text, size,
                          "{\"kind\":\"%s\",\"degraded\":%s,\"missing\":%s,\"slots\":%u,\"stream_slots\":%u,"
                          "\"groups\":\"%s/runledger.%u\",\"pid\":%d}",
                          isolation_name(groups_kind()), degraded ? "true" : "false", reason, options.slots,
                          options.stream_slots, groups_base(), groups_instance(), getpid());
}

static void say_hello(void) {
  char text[4096];
  struct buffer bytes = {(uint8_t *)text, describe(text, sizeof text), 0};
  answer(FRAME_HELLO, 0, NULL, 0, &bytes, 1);
}

/* A slot has started, so the isolation is not only there but works. */
static int end_probe(void) {
  char text[4096];
  const bool works = slots_ready();
  if (works) describe(text, sizeof text), puts(text);
  slots_stop();
  return works ? 0 : EXIT_BROKEN;
}

static bool is_closing(void) { return stopped || answers_hung_up(); }

static void loop(bool (*until)(void)) {
  struct ready ready[MOST_POLLED];
  while (!until() && !is_closing()) {
    unsigned count = poll_wait(ready, check_all());
    for (unsigned i = 0; i < count && !is_closing(); i++) handle(&ready[i]);
  }
}

static void handle(const struct ready *ready) {
  struct slot *slot = &slots[ready->slot];
  switch (ready->event) {
    case EVENT_WORKER:
      requests_read();
      if (!answers_hung_up() && answers_write()) slots_resume_reading();
      break;
    case EVENT_SIGNAL: stopped = true; break;
    case EVENT_CONTROL:
      slot_read_control(slot);
      requests_dispatch();
      break;
    case EVENT_DEATH:
      if (slot->pid > 0) slot_died(slot);
      requests_dispatch();
      break;
    case EVENT_SAVED:
      if (slot->saver) run_saved(slot);
      break;
    case EVENT_INPUT: run_feed(slot); break;
    case EVENT_STDOUT: output_read(slot, 0); break;
    case EVENT_STDERR: output_read(slot, 1); break;
  }
}

/* Checks the deadline and every run's limits. Returns the milliseconds until the next check; -1: none is needed. */
static int check_all(void) {
  uint64_t next = UINT64_MAX, look;
  bool dead = false;
  for (unsigned i = 0; i < slot_count; i++) {
    if (slots[i].state != SLOT_DEAD) continue;
    dead = true;
    if ((look = slot_revive(&slots[i])) < next) next = look;
  }
  /* What waits for these slots. It may also start a run, which is then checked with the others. */
  if (dead) requests_dispatch();
  uint64_t now = monotonic_us();
  if ((look = requests_check_deadline(now)) < next) next = look;
  for (unsigned i = 0; i < slot_count; i++) {
    struct slot *slot = &slots[i];
    if (requests_deadline_passed() && slot->state == SLOT_BUSY) run_end(slot, ENDING_DEADLINE);
    if (slot->state != SLOT_DEAD && (look = run_check(slot, now)) < next) next = look;
  }
  if (next == UINT64_MAX) return -1;
  return next <= now ? 0 : (int)((next - now + 999) / 1000);
}
