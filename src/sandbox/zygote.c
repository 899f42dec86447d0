/*
 * The slot's half of the warm interpreters. Runs forked from one zygote share its hash seed and address
 * layout, so a zygote serves one account only, for at most 200 runs or 30 s. Then the spare replaces it,
 * in an idle slot, too. A slot has these zygotes:
 *
 *   current  the one that served last. A box waits for its next run; but where accounts take turns, it is only made when
 *            a run comes, or when the slot has nothing to do.
 *   parked   those of a few other accounts that the slot served before, without a box. Accounts that take
 *            turns would otherwise start an interpreter each time, which takes longer than most runs.
 *   spare    one that serves no account yet. A zygote that has served nobody needs no spare: so a slot that
 *            was idle for long keeps only one.
 *
 * A zygote lives in the slot's group, because no process can join a group at request time. In v1 the
 * CPU time of its start would be counted as some run's. So it starts while the slot is idle, and is
 * stopped during a run. Under a load without pauses it would never become ready; so after some runs
 * that found no zygote the slot waits for one to start.
 *
 * A start that fails is repeated after a pause, which doubles with each failure in a row.
 *
 * Any request that is not exactly of the warm kind gets a plain run, which gives the same result.
 */
#define _GNU_SOURCE
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box_ahead.h"
#include "cgroup_files.h"
#include "cgroup_run.h"
#include "failure.h"
#include "input_file.h"
#include "message.h"
#include "monotonic.h"
#include "options.h"
#include "questions.h"
#include "relay.h"

enum {
  RUNS_MOST = 200,
  SECONDS_MOST = 30,
  START_MS = 10000, /* an interpreter that takes longer is given up */
  PARKED_MOST = 4, /* 8 MiB each */
  RESTS_S = 2, /* one that has not served for so long makes room for another account's */
  MISSES_MOST = 4, /* plain runs before the slot waits for a start */
  RECIPE_BYTES = 4096,
  PAUSE_MS = 3, /* idle time before a start */
  RETRY_FIRST_S = 1, /* after a failed start; the pause doubles with each further failure in a row */
  RETRY_MOST_S = 600,
};

/*
 * A forked run's memory is measured less exactly than a plain run's, by less than the interpreter's. Below this limit
 * the difference would matter.
 */
static const uint64_t MEMORY_LEAST_BYTES = 64 << 20;

struct zygote {
  pid_t pid; /* 0: none */
  int orders;
  int loading; /* a pipe that the process holds open until its execve */
  bool ready;  /* it is warm */
  bool forked; /* a child of it waits for orders */
  pid_t init; /* of that child, as long as it may exist */
  uint64_t started_us;
  char account[MAX_NAME + 1]; /* empty: none yet */
  unsigned runs;
  uint64_t first_us, last_us;
  uint64_t interpreter_bytes; /* memory of the interpreter itself, without the warm modules */
  uint64_t private_bytes;     /* with them */
};

/* The kind of request that is warm: that of the last plain run which could have been forked. */
static struct {
  char bytes[RECIPE_BYTES];
  const char *program, *variables[MAX_VARIABLES + 3];
  unsigned variable_count;
  int profile; /* -1: not known yet */
} recipe = {.profile = -1};

static const struct slot_setup *setup;
static const struct roots *roots;
static struct zygote current, spare, parked[PARKED_MOST];
static unsigned misses, misses_most = MISSES_MOST, failures;
static bool changed; /* the last run was of another account than the one before */
static uint64_t retry_us; /* no start before */
static uint32_t next_run_group = 1000000000; /* far from the plain runs' numbers */

static void start(struct zygote *zygote);
static void finish_start(struct zygote *zygote, int wait_ms);
static void note_failure(void);
static bool await_message(struct zygote *zygote, char expected, int wait_ms);
static void become_zygote(int orders);
static void retire(struct zygote *zygote);
static void reap_init(pid_t init);
static void replace(void);
static void fork_child(struct zygote *zygote);
static void note_ready(void);
static bool is_warm_kind(const struct request *request);

void zygotes_open(const struct slot_setup *slot_setup, const struct roots *slot_roots) {
  setup = slot_setup;
  roots = slot_roots;
  setup->shared->zygote.group = *setup->group;
  setup->shared->zygote.identity = setup->identity;
  setup->shared->zygote.reports = setup->reports;
  setup->shared->zygote.slot = getpid();
}

static bool is_v1(void) { return setup->group->kind == ISOLATION_V1; }

/* v1: the zygote itself, and its child's init and future program. In v2 only the program is counted, in its run group. */
static unsigned tasks_of(const struct zygote *zygote) {
  if (!zygote->pid) return 0;
  return is_v1() ? 1 + (zygote->forked ? BOX_AHEAD_TASKS : 0) : 0;
}

unsigned zygotes_tasks(void) {
  unsigned tasks = tasks_of(&current) + tasks_of(&spare);
  for (unsigned i = 0; i < PARKED_MOST; i++) tasks += tasks_of(&parked[i]);
  return tasks;
}

/* Without a box there are its orders' two ends. */
static unsigned sockets_of(const struct zygote *zygote) { return !zygote->pid ? 0 : zygote->forked ? BOX_AHEAD_SOCKETS : 2; }

unsigned zygotes_sockets(void) {
  unsigned sockets = sockets_of(&current) + sockets_of(&spare);
  for (unsigned i = 0; i < PARKED_MOST; i++) sockets += sockets_of(&parked[i]);
  return sockets;
}

static bool could_fork(const struct request *request) {
  return setup->options->zygote && request->zygote && request->limits.memory_bytes >= MEMORY_LEAST_BYTES && !request->load_count && !request->save_key && !request->stream && !request->pair &&
         request->argument_count == 3 && !strcmp(request->arguments[1], "-I") &&
         !strcmp(request->arguments[2], "/box/main.py") && !strcmp(request->directory, "/box");
}

static bool is_warm_kind(const struct request *request) {
  if (!could_fork(request) || recipe.profile != profile_index(setup->options, request->profile)) return false;
  if (strcmp(recipe.program, request->arguments[0]) || recipe.variable_count != request->variable_count) return false;
  for (unsigned i = 0; i < recipe.variable_count; i++)
    if (strcmp(recipe.variables[i], request->variables[i])) return false;
  return true;
}

/* Milliseconds until the zygote serves no more; -1: it has not served yet. */
static int left_ms(const struct zygote *zygote) {
  if (!zygote->pid || !zygote->runs) return -1;
  uint64_t now = monotonic_us(), end = zygote->first_us + SECONDS_MOST * 1000000ull;
  return zygote->runs >= RUNS_MOST || now > end ? 0 : (int)((end - now) / 1000) + 1;
}

/* A zygote that ends after few runs was not worth the wait, so the slot waits less often from now on. */
static void retire_served(struct zygote *zygote) {
  misses_most = zygote->runs >= 2 * MISSES_MOST ? MISSES_MOST : 8 * MISSES_MOST;
  retire(zygote);
}

/* Until the next one serves no more; -1: none has served. */
static int soonest_ms(void) {
  int soonest = left_ms(&current);
  for (unsigned i = 0; i < PARKED_MOST; i++) {
    const int left = left_ms(&parked[i]);
    if (left >= 0 && (soonest < 0 || left < soonest)) soonest = left;
  }
  return soonest;
}

static void retire_old(void) {
  if (left_ms(&current) == 0) retire_served(&current), replace();
  for (unsigned i = 0; i < PARKED_MOST; i++)
    if (left_ms(&parked[i]) == 0) retire_served(&parked[i]);
}

/* A ready zygote that runs nothing sends nothing. If it did, or if it died, it is retired. */
static bool is_alive(struct zygote *zygote) {
  struct pollfd orders = {.fd = zygote->orders, .events = POLLIN};
  if (poll(&orders, 1, 0) != 0) retire(zygote);
  return zygote->pid;
}

static struct zygote *parked_for(const char *account) {
  for (unsigned i = 0; i < PARKED_MOST; i++)
    if (parked[i].pid && !strcmp(parked[i].account, account)) return is_alive(&parked[i]) ? &parked[i] : NULL;
  return NULL;
}

/* The box goes. Its zygote then says that it has reaped it. */
static void give_up_box(struct zygote *zygote) {
  if (zygote->forked && (send_message(zygote->orders, MESSAGE_DROP, NULL, 0) || !await_message(zygote, MESSAGE_FORK, START_MS))) {
    retire(zygote);
    return;
  }
  zygote->forked = false;
  zygote->init = 0;
}

/*
 * A place for one more zygote: an empty one, or that of the zygote that has rested longest. NULL: none rests, and other accounts
 * get plain runs. If more accounts than places took turns, and each took the place of another, none would find its zygote.
 */
static struct zygote *free_place(void) {
  struct zygote *place = &parked[0];
  for (unsigned i = 1; i < PARKED_MOST && place->pid; i++)
    if (!parked[i].pid || parked[i].last_us < place->last_us) place = &parked[i];
  return !place->pid || monotonic_us() - place->last_us > RESTS_S * 1000000ull ? place : NULL;
}

/* One that has served nobody is as good as a spare. */
static void park_current(void) {
  struct zygote *place = free_place();
  give_up_box(&current);
  if (current.pid && !current.runs) {
    retire(&spare);
    spare = current;
  } else if (current.pid) {
    if (place->pid) retire_served(place);
    *place = current;
  }
  current = (struct zygote){0};
}

static void change_to(struct zygote *its) {
  struct zygote taken = *its;
  *its = (struct zygote){0};
  park_current();
  current = taken;
  changed = true;
}

struct zygote *zygotes_choose(const struct request *request) {
  if (!is_warm_kind(request)) return NULL;
  retire_old();
  /* Before its child has orders, a zygote sends nothing. If it did, the child died of something else. */
  if (current.ready) is_alive(&current);
  if (spare.ready) is_alive(&spare);
  changed = false;
  if (!current.pid || strcmp(current.account, request->zygote)) {
    struct zygote *its = parked_for(request->zygote);
    if (its) change_to(its);
    else if (current.runs && spare.ready && free_place()) change_to(&spare);
    else if (!current.pid) replace();
    /* A plain run does not disturb the box that waits for the account of the last one. */
  }
  const bool serves = current.ready && (!current.runs || !strcmp(current.account, request->zygote));
  if (serves && !current.forked) fork_child(&current);
  if (!serves || !current.forked) {
    misses++;
    return NULL;
  }
  current.last_us = monotonic_us();
  if (!current.runs++) {
    current.first_us = current.last_us;
    snprintf(current.account, sizeof current.account, "%s", request->zygote);
  }
  return &current;
}

bool zygote_run(struct zygote *zygote, const struct box *box) {
  struct shared *shared = setup->shared;
  char message;
  unsigned count;
  shared->inherited_bytes = zygote->interpreter_bytes;
  shared->forked_bytes = zygote->private_bytes;
  if (!is_v1()) shared->run_group = shared->zygote.run_group;
  shared->init_pid = shared->zygote.init_pid;
  bool done = !box_order_run(box, zygote->orders);
  for (int i = 0; i < 3; i++) close(box->files[i]);
  if (done) relay_serve(zygote->orders, -1);
  done = done && receive_message(zygote->orders, &message, NULL, &count, true) == 1 && message == MESSAGE_FORK;
  zygote->forked = false;
  if (done) zygote->init = 0;
  else retire(zygote);
  return done;
}

void zygotes_learn(const struct request *request) {
  if (!could_fork(request) || is_warm_kind(request)) return;
  char *at = recipe.bytes, *end = recipe.bytes + sizeof recipe.bytes;
  retire(&current);
  retire(&spare);
  for (unsigned i = 0; i < PARKED_MOST; i++) retire(&parked[i]);
  recipe.profile = -1;
  recipe.variable_count = 0;
  recipe.program = at;
  at = stpncpy(at, request->arguments[0], MAX_PATH) + 1;
  for (unsigned i = 0; i < request->variable_count; i++) {
    size_t length = strlen(request->variables[i]) + 1;
    if (at + length > end) return;
    memcpy(at, request->variables[i], length);
    recipe.variables[recipe.variable_count++] = at;
    at += length;
  }
  recipe.profile = profile_index(setup->options, request->profile);
  failures = 0;
  retry_us = 0;
}

static bool lacks_box(void) { return current.ready && !current.forked; }

static struct zygote *starting(void) {
  if (current.pid && !current.ready) return &current;
  return spare.pid && !spare.ready ? &spare : NULL;
}

static struct zygote *missing(void) {
  if (recipe.profile < 0 || starting()) return NULL;
  return !current.pid ? &current : current.runs && !spare.pid ? &spare : NULL;
}

/* Notices a start that has ended while the slot was at work. */
static void note_ready(void) {
  struct zygote *one = starting();
  struct pollfd orders = {.fd = one ? one->orders : -1, .events = POLLIN};
  if (one && poll(&orders, 1, 0) == 1) finish_start(one, 0);
}

static struct zygote *wanted(void) { return monotonic_us() < retry_us ? NULL : missing(); }

int zygotes_wait_ms(int *descriptor) {
  struct zygote *one = starting();
  *descriptor = one ? one->orders : -1;
  if (lacks_box()) return PAUSE_MS;
  if (one) return START_MS;
  if (!missing()) return soonest_ms();
  uint64_t now = monotonic_us();
  return now < retry_us ? (int)((retry_us - now) / 1000) + 1 : PAUSE_MS;
}

void zygotes_use_idle_time(void) {
  struct zygote *one = starting();
  if (lacks_box()) fork_child(&current);
  else if (one) finish_start(one, 0);
  else if (soonest_ms() == 0) retire_old();
  else if ((one = wanted())) start(one);
}

/*
 * Until its execve, the process has copies of all descriptors of the slot. Stopped there, it would keep the sockets of a
 * zygote that is retired during the run, and the slot would wait for them until it gives up.
 */
void zygotes_stop_start(bool stop) {
  if (stop) note_ready();
  struct zygote *one = starting();
  if (!one || !is_v1()) return;
  struct pollfd loading = {.fd = one->loading};
  if (stop && poll(&loading, 1, START_MS) != 1) retire(one);
  else kill(one->pid, stop ? SIGSTOP : SIGCONT);
}

/* A zygote that reached its number of runs was worth its start, so the next one is started at once. */
void zygotes_renew(void) {
  if (current.runs >= RUNS_MOST) {
    retire_served(&current);
    replace();
    misses = misses_most;
  }
  if (lacks_box() && !changed) fork_child(&current);
  /* In v2 the start of a spare is not counted as a run's. */
  if (!is_v1() && current.runs >= MISSES_MOST && wanted() == &spare) start(&spare);
  if (misses < misses_most) return;
  misses = 0;
  struct zygote *one = wanted();
  if (one) start(one);
  if ((one = starting())) finish_start(one, START_MS);
}

static void start(struct zygote *zygote) {
  int ends[2], loading[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return note_failure();
  must(pipe2(loading, O_CLOEXEC), "make a pipe");
  setup->shared->zygote.group = *setup->group;
  pid_t pid = fork();
  if (pid == 0) become_zygote(ends[1]);
  close(ends[1]);
  close(loading[1]);
  *zygote = (struct zygote){.pid = pid, .orders = ends[0], .loading = loading[0], .started_us = monotonic_us()};
  if (pid > 0) return;
  close(ends[0]);
  close(loading[0]);
  *zygote = (struct zygote){0};
  note_failure();
}

/* Waits for its first message for `wait_ms` milliseconds. */
static void finish_start(struct zygote *zygote, int wait_ms) {
  zygote->ready = await_message(zygote, MESSAGE_READY, wait_ms);
  zygote->interpreter_bytes = setup->shared->zygote.interpreter_bytes;
  zygote->private_bytes = setup->shared->zygote.private_bytes;
  if (!zygote->ready) {
    note_failure();
    retire(zygote);
    return;
  }
  failures = 0;
  if (zygote == &current) fork_child(zygote);
}

/* A failure by chance, as on a busy machine, must not leave the slot without zygotes until it restarts. */
static void note_failure(void) {
  unsigned pause_s = RETRY_FIRST_S << (failures < 10 ? failures : 10);
  if (pause_s > RETRY_MOST_S) pause_s = RETRY_MOST_S;
  failures++;
  retry_us = monotonic_us() + pause_s * 1000000ull;
  fprintf(stderr, "launcher: slot %u: an interpreter could not be started in advance; runs start their own; "
          "the next attempt follows in %u s\n", setup->number, pause_s);
}

static bool await_message(struct zygote *zygote, char expected, int wait_ms) {
  struct pollfd orders[2] = {{.fd = zygote->orders, .events = POLLIN}};
  char message;
  unsigned count;
  if (questions_poll(orders, 1, monotonic_us() + (uint64_t)wait_ms * 1000) <= 0) return false;
  return receive_message(zygote->orders, &message, NULL, &count, false) == 1 && message == expected;
}

static void keep(int descriptor) { must(fcntl(descriptor, F_SETFD, 0), "pass a descriptor to a zygote"); }

/*
 * Its standard streams are like a run's, an empty file and pipes, because the interpreter inspects them when it starts.
 * For the same reason no run of a pair is forked: its input is a pipe.
 */
static void become_zygote(int orders) {
  int kept[GROUP_DESCRIPTORS], pipes[2];
  char marker[64];
  int statm = openat(setup->proc, "self/statm", O_RDONLY);
  /* The kernel leaves room for a stack of this size, and a fork may then have any smaller limit. */
  const struct rlimit stack = {1 << 30, RLIM_INFINITY};
  failure_sink = NULL;
  unsigned count = group_descriptors(setup->group, kept);
  for (unsigned i = 0; i < count; i++) keep(kept[i]);
  keep(orders);
  keep(setup->memory);
  keep(setup->reports);
  must(setns(roots->profiles[recipe.profile], CLONE_NEWNS), "enter the profile's root");
  must(chdir("/box"), "enter the work directory");
  must(setrlimit(RLIMIT_STACK, &stack), "set the stack's limit");
  must(pipe(pipes), "make a zygote's streams");
  must(dup2(input_of_bytes(setup->proc, NULL, 0), 0), "make a zygote's streams");
  must(dup2(pipes[1], 1), "make a zygote's streams");
  must(dup2(pipes[1], 2), "make a zygote's streams");
  close(pipes[0]);
  close(pipes[1]);
  snprintf(marker, sizeof marker, "RUNLEDGER_ZYGOTE=%d:%d:%d", orders, setup->memory, statm);
  const char *arguments[] = {recipe.program, "-I", "/box/main.py", NULL};
  recipe.variables[recipe.variable_count] = "LD_PRELOAD=/zygote.so";
  recipe.variables[recipe.variable_count + 1] = marker;
  recipe.variables[recipe.variable_count + 2] = NULL;
  /* Without root, even of its own namespace, only ambient capabilities survive execve. */
  for (int capability = 0; getuid() && capability < 64; capability++)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0);
  execve(recipe.program, (char *const *)arguments, (char *const *)recipe.variables);
  _exit(127);
}

static void retire(struct zygote *zygote) {
  if (zygote->pid > 0) {
    kill(zygote->pid, SIGKILL);
    waitpid(zygote->pid, NULL, 0);
    if (zygote->init) reap_init(zygote->init);
    close(zygote->orders);
    close(zygote->loading);
  }
  *zygote = (struct zygote){0};
}

/* A child's init dies with its zygote and becomes the slot's child. It counts in the group until it is reaped. */
static void reap_init(pid_t init) {
  siginfo_t end;
  int mine = init;
  if (waitid(P_PID, (id_t)init, &end, WEXITED | WNOWAIT)) return;
  __atomic_compare_exchange_n((int *)&setup->shared->init_pid, &mine, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  waitpid(init, NULL, 0);
}

/* The spare, if there is one, becomes the current zygote. */
static void replace(void) {
  current = spare;
  spare = (struct zygote){0};
  if (current.ready) fork_child(&current);
}

static void fork_child(struct zygote *zygote) {
  struct shared *shared = setup->shared;
  if (!is_v1()) {
    group_retire(setup->group, shared->zygote.run_group - 1);
    shared->zygote.run_group = next_run_group++;
    group_add_run(setup->group, shared->zygote.run_group);
  }
  shared->zygote.init_pid = 0;
  zygote->forked = !send_message(zygote->orders, MESSAGE_FORK, NULL, 0) && await_message(zygote, MESSAGE_READY, START_MS);
  zygote->init = shared->zygote.init_pid;
  if (!zygote->forked) note_failure(), retire(zygote);
}
