/*
 * The launcher: runs programs that nobody trusts, for a worker that speaks to it over a socket.
 *
 * Theory of operation
 * -------------------
 * Four kinds of process, each the parent of the next:
 *
 *   worker (Node) - launcher - slot (one per place to run) - init (one per run) - program
 *
 * The *launcher* is one process with one loop. It reads requests, hands each to a free slot, feeds
 * and reads the program's pipes, watches the clock and the group's CPU counter, ends what is over a
 * limit, and writes one report per request. It is never inside a slot's control group, so no program
 * can starve it of memory, and it knows no secret: its environment is empty.
 *
 * A *slot* lives long. What is slow to make and safe to reuse it makes once: its control group, an
 * empty network namespace, a host name, a user id, and one mount namespace per profile that holds a
 * read-only root and nothing else. Per request it clones an init into fresh pid, mount and ipc
 * namespaces, waits until that is reaped and the group is empty, and says so.
 *
 * An *init* is pid 1 of its run. It mounts a fresh /proc and a fresh tmpfs, writes the request's
 * files, forks the program, waits for it, notes how and when it ended, and exits; its exit is what
 * kills everything that the program left.
 *
 * Launcher, slot and init share a few pages (struct shared); the program loses them when it executes.
 * A socket pair per slot carries one-byte messages: run, done, idle.
 *
 * What must stay true
 * -------------------
 * - A slot takes a run only after its group was seen empty. Nothing outlives its run.
 * - Whoever dies takes its children along: the launcher by its socket's end and by SIGTERM at the
 *   worker's death, slots and inits by SIGKILL at their parent's, programs with their init. What was
 *   left all the same (a machine that stopped half-way) is swept by the next launcher.
 * - The worker's heartbeats move a deadline; when it passes, every run is ended, because by then
 *   another worker may have taken over what this one was running.
 * - A program has exactly three descriptors, no capability in any set, and a filter on its calls,
 *   before its first instruction.
 * - The worker gets one answer per request: a report (how the program ended, with evidence) or a
 *   fault (the launcher could not do it). A fault says nothing about the program.
 *
 * Exit codes: 0 the worker is gone, 1 broken, 2 wrong usage, 3 no isolation to be had.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watch.h"

struct launcher launcher = {.store = -1};

static void die_with_worker(void);
static void find_isolation(void);
static void open_loop(void);
static void open_store(void);
static void loop(bool (*until)(void));
static bool is_closing(void);
static void handle(uint64_t event);
static int check_all(void);

int main(int count, char **arguments) {
  options_parse(count, arguments, &launcher.options);
  die_with_worker();
  find_isolation();
  open_store();
  open_loop();
  slots_start();
  loop(slots_ready);
  worker_open(launcher.options.socket);
  worker_hello();
  loop(is_closing);
  slots_stop();
  return 0;
}

/* The end of the socket says the same, but not while another process holds it. */
static void die_with_worker(void) {
  pid_t worker = getppid();
  clearenv();
  umask(022);
  must(prctl(PR_SET_PDEATHSIG, SIGTERM), "ask to die with the worker");
  if (getppid() != worker) exit(0);
  /* Its memory has customers' bytes: no core of it, and no tracer. */
  must(prctl(PR_SET_DUMPABLE, 0), "hide the launcher");
}

static void find_isolation(void) {
  char why[1200];
  bool found = groups_find(launcher.options.isolation, why, sizeof why);
  if (found && groups_kind() == ISOLATION_V2_USER) found = userns_usable(why, sizeof why);
  if (found && groups_kind() == ISOLATION_RLIMITS) found = degraded_usable(why, sizeof why);
  if (found) {
    if (launcher.options.probe) {
      static const char *const KINDS[] = {"", "v1", "v2", "v2-user", "rlimits"};
      printf("{\"kind\":\"%s\",\"groups\":\"%s\"}\n", KINDS[groups_kind()], groups_base());
      exit(0);
    }
    if (groups_claim(why, sizeof why)) return;
  }
  fprintf(stderr, "launcher: no isolation: %s\n", why);
  exit(EXIT_NO_ISOLATION);
}

static void open_store(void) {
  if (!launcher.options.store) return;
  if (mkdir(launcher.options.store, 0700) && errno != EEXIST) fail("make the store %s", launcher.options.store);
  launcher.store = open(launcher.options.store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (launcher.store < 0) fail("open the store %s", launcher.options.store);
}

static void open_loop(void) {
  sigset_t set;
  launcher.poll = (int)must(epoll_create1(EPOLL_CLOEXEC), "make an epoll");
  signal(SIGPIPE, SIG_IGN);
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  must(sigprocmask(SIG_BLOCK, &set, NULL), "block signals");
  launcher.signals = (int)must(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "make a signalfd");
  poll_add(launcher.signals, EVENT_SIGNAL, 0, EPOLLIN);
  /* It must notice what a program does while that program wants every processor. */
  launcher.priority = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, -10);
}

void poll_add(int descriptor, enum event event, unsigned slot, uint32_t events) {
  struct epoll_event entry = {.events = events, .data.u64 = event | (uint64_t)slot << 8};
  must(epoll_ctl(launcher.poll, EPOLL_CTL_ADD, descriptor, &entry), "watch a descriptor");
}

void poll_remove(int descriptor) { epoll_ctl(launcher.poll, EPOLL_CTL_DEL, descriptor, NULL); }

static bool is_closing(void) { return launcher.closing; }

static void loop(bool (*until)(void)) {
  struct epoll_event events[64];
  while (!until() && !launcher.closing) {
    int count = epoll_wait(launcher.poll, events, COUNT(events), check_all());
    if (count < 0 && errno != EINTR) fail("wait for events");
    for (int i = 0; i < count; i++) handle(events[i].data.u64);
  }
}

static void handle(uint64_t event) {
  struct slot *slot = &launcher.slots[event >> 8];
  switch ((enum event)(event & 0xff)) {
    case EVENT_WORKER:
      worker_read();
      worker_write();
      break;
    case EVENT_SIGNAL: launcher.closing = true; break;
    case EVENT_CONTROL: slot_read_control(slot); break;
    case EVENT_DEATH:
      if (slot->pid > 0) slot_died(slot);
      break;
    case EVENT_INPUT: run_feed(slot); break;
    case EVENT_STDOUT: run_read(slot, 0); break;
    case EVENT_STDERR: run_read(slot, 1); break;
  }
}

/* Every limit and the deadline; milliseconds until the next look, -1 when nothing needs one. */
static int check_all(void) {
  uint64_t now = clock_us(), next = UINT64_MAX;
  if (launcher.deadline_us && !launcher.expired) {
    launcher.expired = now >= launcher.deadline_us;
    next = launcher.deadline_us;
    if (launcher.expired) worker_refuse_queued("the deadline has passed");
  }
  for (unsigned i = 0; i < launcher.slot_count; i++) {
    struct slot *slot = &launcher.slots[i];
    if (launcher.expired && slot->state == SLOT_BUSY) run_end(slot, ENDING_DEADLINE);
    uint64_t look = slot->state == SLOT_DEAD ? (slot_revive(slot), now + 1000) : run_check(slot, now);
    if (look < next) next = look;
  }
  if (next == UINT64_MAX) return -1;
  return next <= now ? 0 : (int)((next - now + 999) / 1000);
}
