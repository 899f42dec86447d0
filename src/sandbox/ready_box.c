#define _GNU_SOURCE
#include "ready_box.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box_ahead.h"
#include "cgroup_files.h"
#include "cgroup_run.h"
#include "failure.h"
#include "message.h"
#include "monotonic.h"
#include "options.h"
#include "questions.h"

/* PAUSE_MS: longer than the pause of a caller that sends run after run. Otherwise that caller's next run waits for the box. */
enum { NONE = -1, PAUSE_MS = 3, MAKE_MS = 10000 };

static const struct slot_setup *setup;
static const struct roots *roots;
static int parent = -1; /* the slot's own pidfd */
static int last_profile = NONE, wanted_profile = NONE;
static uint32_t run_group = 2000000000; /* v2: far from the plain runs' and the zygotes' numbers */
static struct {
  int profile; /* NONE: there is no box */
  _Atomic int init;
  int pidfd, orders;
} ready = {.profile = NONE};

static void make(void);
static bool await_ready(void);
static void discard(void);

static bool is_v1(void) { return setup->group->kind == ISOLATION_V1; }

void ready_box_open(const struct slot_setup *slot_setup, const struct roots *slot_roots, int slot_pidfd) {
  parent = slot_pidfd;
  setup = slot_setup;
  roots = slot_roots;
}

unsigned ready_box_tasks(void) { return ready.profile != NONE && is_v1() ? BOX_AHEAD_TASKS : 0; }

unsigned ready_box_sockets(void) { return ready.profile != NONE ? BOX_AHEAD_SOCKETS : 0; }

bool ready_box_choose(const struct request *request) {
  const int profile = profile_index(setup->options, request->profile);
  /* A box says nothing while it waits. If it does, something ended it, as a machine without memory may. */
  struct pollfd orders = {.fd = ready.orders, .events = POLLIN};
  if (ready.profile != NONE && poll(&orders, 1, 0) != 0) discard();
  /* Of a compile and the run after it, each would otherwise find the box of the other's profile. */
  if (request->save_key) return false;
  if (profile == last_profile) wanted_profile = profile;
  last_profile = profile;
  if (profile != ready.profile) return false;
  ready.profile = NONE;
  return true;
}

pid_t ready_box_run(const struct box *box, int *pidfd) {
  setup->shared->init_pid = ready.init;
  if (!is_v1()) setup->shared->run_group = run_group;
  /* If init dies before it has its orders, the run ends as if init had died later. */
  box_order_run(box, ready.orders);
  close(ready.orders);
  *pidfd = ready.pidfd;
  return ready.init;
}

/* On a busy slot the next run would wait for its box in any case, and then for one process more. */
int ready_box_pause_ms(void) { return ready.profile == wanted_profile ? -1 : PAUSE_MS; }

void ready_box_make(void) {
  if (ready.profile != NONE) discard();
  make();
  if (ready.profile != NONE) return;
  fprintf(stderr, "launcher: slot %u: a box could not be made in advance; the next runs make their own\n", setup->number);
  last_profile = wanted_profile = NONE;
}

static void make(void) {
  struct box box = {.shared = setup->shared, .group = setup->group, .identity = setup->identity, .reports = setup->reports, .parent = parent};
  int ends[2];
  if (!is_v1()) {
    /* The launcher may still read the last run's counters. */
    group_retire(setup->group, run_group - 1);
    group_add_run(setup->group, ++run_group);
  }
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return;
  must(setns(roots->profiles[wanted_profile], CLONE_NEWNS), "enter the profile's root");
  pid_t init = box_clone_ahead(&box, ends[1], run_group, &ready.init, &ready.pidfd);
  if (init == 0) {
    box_await_run(&box, ends[1]);
    box_execute(&box);
  }
  close(ends[1]);
  ready.orders = ends[0];
  if (init < 0) {
    close(ready.orders);
    return;
  }
  ready.profile = wanted_profile;
  if (!await_ready()) discard();
}

static bool await_ready(void) {
  struct pollfd orders[2] = {{.fd = ready.orders, .events = POLLIN}};
  char message;
  unsigned count;
  if (questions_poll(orders, 1, monotonic_us() + MAKE_MS * 1000ull) <= 0) return false;
  return receive_message(ready.orders, &message, NULL, &count, false) == 1 && message == MESSAGE_READY;
}

static void discard(void) {
  kill(ready.init, SIGKILL);
  waitpid(ready.init, NULL, 0);
  close(ready.orders);
  close(ready.pidfd);
  ready.profile = NONE;
}
