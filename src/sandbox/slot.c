/*
 * A slot runs one program at a time. The launcher forks it. It enters its control group, network, host
 * name and (for an ordinary user) user namespace once. Then, for each request, it clones an init into
 * fresh pid, mount and ipc namespaces and waits for its end. It keeps no other customer's request: it
 * reads only the pages that it shares with the launcher.
 *
 * During the run it serves the program's streams and questions (relay.c). When init is reaped, every
 * process of the run is dead, and at the latest then the launcher can answer. What follows is
 * not part of the run and cannot fail it: the slot waits until the kernel has forgotten its processes,
 * sockets and queues, makes sure that the next run has an empty run group, and reports "idle".
 * If past runs left much in the kernel's caches, it has the kernel reclaim that first (cgroup_run.h).
 */
#define _GNU_SOURCE
#include "slot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "cgroup_files.h"
#include "cgroup_run.h"
#include "degraded.h"
#include "failure.h"
#include "input_file.h"
#include "kernel_files.h"
#include "message.h"
#include "monotonic.h"
#include "network.h"
#include "options.h"
#include "questions.h"
#include "queues.h"
#include "ready_box.h"
#include "relay.h"
#include "root.h"
#include "seccomp.h"
#include "streams.h"
#include "wire.h"
#include "zygote.h"

/* More than the slot, two zygotes and the boxes that wait have together, while they start as well. */
enum { IDLE_TASKS = 64 };

/* The group of the next run. v2: of the next plain run, because a zygote's child is in a run group already. */
static uint32_t run_group = 1;

static void die_with_launcher(const struct slot_setup *setup);
static void serve_degraded(struct slot_setup *setup);
static void close_other_descriptors(const struct slot_setup *setup);
static void reset_signals(void);
static void enter_namespaces(struct slot_setup *setup);
static void lift_process_limit(void);
static void give_up_rights(const struct slot_setup *setup);
static void report_ready(const struct slot_setup *setup);
static void serve(struct slot_setup *setup, const struct roots *roots);
static bool await_request(struct slot_setup *setup, struct request *request, int *sockets);
static void run_plain(struct slot_setup *setup, struct box *box, const struct roots *roots);
static void run_forked(struct slot_setup *setup, struct box *box, struct zygote *zygote);
static bool open_stored(struct box *box, const struct roots *roots);
static void close_box(const struct box *box);
static pid_t clone_init(const struct slot_setup *setup, struct box *box, const struct roots *roots, int *pidfd);
static void reap(struct slot_setup *setup, pid_t init);
static void await_empty_group(struct group *group);
static void next_run_group(struct slot_setup *setup);
static void prepare_run_group(struct slot_setup *setup);

void slot_main(struct slot_setup *setup) {
  struct roots roots;
  failure_sink = &setup->shared->failure;
  die_with_launcher(setup);
  close_other_descriptors(setup);
  reset_signals();
  streams_open(setup);
  relay_open(setup);
  /* The slot reaps what a dead zygote leaves. The machine's first process may take seconds, or never do it. */
  must(prctl(PR_SET_CHILD_SUBREAPER, 1), "become the reaper of orphans");
  /* The launcher's priority is for supervising programs, and not for running them. */
  setpriority(PRIO_PROCESS, 0, setup->priority);
  /* If the machine runs out of memory, the kernel should kill a program and not the slot. Only root may set this. */
  write_text(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
  if (setup->group->kind == ISOLATION_RLIMITS) serve_degraded(setup);
  setup->proc = (int)must(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), "open /proc");
  group_enter(setup->group);
  /* A user namespace keeps the limit of the moment when it is made. */
  lift_process_limit();
  enter_namespaces(setup);
  network_open(setup->proc, &setup->identity);
  queues_open();
  roots_build(setup->options, &setup->identity, setup->number >= setup->options->slots, &roots);
  group_keep_memory(setup->group);
  give_up_rights(setup);
  /* There are always two run groups, the next and the one before, so that a leak of groups shows. */
  group_add_run(setup->group, run_group - 1);
  prepare_run_group(setup);
  report_ready(setup);
  serve(setup, &roots);
  _exit(0);
}

static void die_with_launcher(const struct slot_setup *setup) {
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the launcher");
  if (getppid() != setup->launcher) _exit(EXIT_BROKEN);
}

/* Closes the launcher's other descriptors: the worker's socket, other slots' sockets, other runs' pipes. */
static void close_other_descriptors(const struct slot_setup *setup) {
  int kept[GROUP_DESCRIPTORS + 4];
  unsigned count = group_descriptors(setup->group, kept);
  kept[count++] = setup->control;
  kept[count++] = setup->memory;
  kept[count++] = setup->output;
  kept[count++] = SIGN_OF_LIFE;
  must(close_all_but(kept, count), "close the launcher's descriptors");
}

/* A program inherits ignored and blocked signals. There must be none. */
static void reset_signals(void) {
  sigset_t none;
  for (int number = 1; number < _NSIG; number++) signal(number, SIG_DFL);
  sigemptyset(&none);
  must(sigprocmask(SIG_SETMASK, &none, NULL), "unblock signals");
}

/* Each change of ids resets PR_SET_PDEATHSIG and makes /proc/self inaccessible, so both are set again. */
static void enter_user_namespace(struct slot_setup *setup) {
  char message;
  unsigned count;
  must(unshare(CLONE_NEWUSER), "make a user namespace");
  must(prctl(PR_SET_DUMPABLE, 1), "make the slot accessible to the launcher");
  must(send_message(setup->control, MESSAGE_MAP, NULL, 0), "ask the launcher to map ids");
  if (receive_message(setup->control, &message, NULL, &count, true) != 1) _exit(EXIT_BROKEN);
  if (!setup->identity.shares_uid) {
    must(setresgid(0, 0, 0), "become root of the user namespace");
    must(setresuid(0, 0, 0), "become root of the user namespace");
    must(prctl(PR_SET_DUMPABLE, 1), "make /proc/self accessible to the slot");
  }
  die_with_launcher(setup);
}

static void enter_namespaces(struct slot_setup *setup) {
  if (setup->identity.own_namespace) enter_user_namespace(setup);
  must(unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC), "make the slot's namespaces");
  /* In v2 no process can enter a group outside its cgroup namespace, so each init gets a namespace instead. */
  if (setup->group->kind == ISOLATION_V1)
    must(unshare(CLONE_NEWCGROUP), "make the slot's control group namespace");
  must(sethostname("runledger", 9), "set the host name");
  must(setdomainname("", 0), "set the domain name");
}

/* The group limits a run's processes. This limit counts all of a user, in every group, so it says nothing about a run. */
static void lift_process_limit(void) {
  struct rlimit limit;
  must(getrlimit(RLIMIT_NPROC, &limit), "read the limit of processes");
  limit.rlim_cur = limit.rlim_max;
  must(setrlimit(RLIMIT_NPROC, &limit), "lift the limit of processes");
}

/* Gives up rights that the slot no longer needs and that no process below it ever gets. */
static void give_up_rights(const struct slot_setup *setup) {
  if (!setup->identity.shares_uid) must((long)syscall(SYS_setgroups, 0, NULL), "drop supplementary groups");
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2];
  must(syscall(SYS_capget, &head, sets), "read capabilities");
  /* A zygote keeps the slot's rights across its execve. A program loses this set before its own execve. */
  for (int i = 0; i < 2; i++) sets[i].inheritable = setup->options->zygote ? sets[i].permitted : 0;
  must(syscall(SYS_capset, &head, sets), "set inheritable capabilities");
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
    must(prctl(PR_CAPBSET_DROP, capability), "drop a capability from the bounding set");
  must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities");
  /* Leaves the worker's session keyring. A kernel without keyrings has nothing to leave. */
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

/* From here on, the filter allows the slot no more than what it needs for a run. */
static void report_ready(const struct slot_setup *setup) {
  questions_open(seccomp_confine_slot(), setup->proc < 0 ? AT_FDCWD : setup->proc, setup->shared);
  must(send_message(setup->control, MESSAGE_READY, NULL, 0), "report that the slot is ready");
}

static void serve(struct slot_setup *setup, const struct roots *roots) {
  static struct request request;
  int sockets[MESSAGE_DESCRIPTORS];
  struct box box = {.request = &request, .shared = setup->shared, .group = setup->group,
                    .identity = setup->identity, .reports = setup->reports};
  box.parent = (int)must((long)syscall(SYS_pidfd_open, getpid(), 0), "open the slot's own pidfd");
  zygotes_open(setup, roots);
  ready_box_open(setup, roots, box.parent);
  while (await_request(setup, &request, sockets)) {
    zygotes_stop_start(true);
    const bool found = open_stored(&box, roots);
    struct zygote *zygote = found ? zygotes_choose(&request) : NULL;
    relay_begin(&box, sockets);
    if (!found) close_box(&box), relay_end(true);
    else if (zygote) run_forked(setup, &box, zygote);
    else run_plain(setup, &box, roots);
    network_await_empty(zygotes_sockets() + ready_box_sockets());
    queues_await_removed(setup->identity.shares_uid ? getuid() : setup->identity.uid);
    group_allow_tasks(setup->group, IDLE_TASKS);
    if (!zygote) zygotes_learn(&request);
    group_reclaim(setup->group);
    zygotes_stop_start(false);
    zygotes_renew();
    must(send_message(setup->control, MESSAGE_IDLE, NULL, 0), "report that the slot is idle");
  }
}

static void serve_degraded(struct slot_setup *setup) {
  static struct request request;
  int sockets[MESSAGE_DESCRIPTORS];
  struct box box = {.request = &request, .shared = setup->shared};
  degraded_open(setup);
  report_ready(setup);
  while (await_request(setup, &request, sockets)) {
    degraded_run(&box, sockets);
    must(send_message(setup->control, MESSAGE_IDLE, NULL, 0), "report that the slot is idle");
  }
  _exit(0);
}

/* The launcher's sockets of a run: those of an open box, or of a pair. */
static unsigned sockets_of(const struct request *request) { return request->stream ? 3 : request->pair ? 2 : 0; }

/* Makes a box and warms an interpreter while there is no request. */
static bool await_request(struct slot_setup *setup, struct request *request, int *sockets) {
  char message;
  unsigned count;
  do {
    struct pollfd polled[3] = {{.fd = setup->control, .events = POLLIN}, {.events = POLLIN}};
    int wait_ms = zygotes_wait_ms(&polled[1].fd), pause_ms = ready_box_pause_ms();
    const bool makes_box = pause_ms >= 0 && (wait_ms < 0 || wait_ms > pause_ms);
    if (makes_box) wait_ms = pause_ms;
    questions_poll(polled, 2, wait_ms < 0 ? UINT64_MAX : monotonic_us() + (uint64_t)wait_ms * 1000);
    message = 0;
    if (!polled[0].revents && makes_box && !polled[1].revents) ready_box_make();
    else if (!polled[0].revents) zygotes_use_idle_time();
    else if (receive_message(setup->control, &message, sockets, &count, true) != 1) return false;
    /* The last run may have ended before the launcher's order for an estimate came. */
  } while (!message || message == MESSAGE_ESTIMATE);
  const char *wrong = wire_parse(setup->shared->frame, setup->shared->frame_length, request);
  if (wrong) fail("parse a request: %s", wrong);
  if (message != MESSAGE_RUN || count != sockets_of(request)) fail("receive a run from the launcher");
  return true;
}

/* Tasks that are counted with a run's and stay when it ends: in v1 the slot and what waits for other runs, in v2 none. */
static unsigned resident_tasks(const struct group *group) {
  return (group->kind == ISOLATION_V1 ? 1 : 0) + zygotes_tasks() + ready_box_tasks();
}

static void run_plain(struct slot_setup *setup, struct box *box, const struct roots *roots) {
  const bool ready = ready_box_choose(box->request), v1 = setup->group->kind == ISOLATION_V1;
  int init_pidfd = -1;
  setup->shared->inherited_bytes = 0;
  setup->shared->run_group = run_group;
  if (v1 || !ready) group_limit(setup->group, &box->request->limits, resident_tasks(setup->group) + (v1 ? 1 : 0));
  pid_t init = ready ? ready_box_run(box, &init_pidfd) : clone_init(setup, box, roots, &init_pidfd);
  close_box(box);
  relay_serve(init_pidfd, -1);
  close(init_pidfd);
  reap(setup, init);
  if (v1 || !ready) next_run_group(setup);
}

static void run_forked(struct slot_setup *setup, struct box *box, struct zygote *zygote) {
  const bool v1 = setup->group->kind == ISOLATION_V1;
  /* Of the two tasks of its box, one is the program. */
  if (v1) group_limit(setup->group, &box->request->limits, resident_tasks(setup->group) - 1);
  relay_end(zygote_run(zygote, box));
  if (!v1) return;
  await_empty_group(setup->group);
  next_run_group(setup);
}

/* The caller's cache was wrong. Its request cannot run, but nothing is wrong with the slot. */
static bool is_missing(struct box *box, const char *key) {
  struct failure *failure = &box->shared->failure;
  failure->error = errno;
  snprintf(failure->step, sizeof failure->step, "find the artefact %.70s", key);
  return false;
}

/*
 * Opens what the run needs of the store, in the namespace of the store: its input, and a clone of the mount of each
 * artefact. Init attaches the clones in its own namespace, which has no store.
 */
static bool open_stored(struct box *box, const struct roots *roots) {
  const struct request *request = box->request;
  char path[MAX_NAME + 16];
  box->files[0] = box->files[1] = box->files[2] = -1;
  for (unsigned i = 0; i < MAX_LOADS; i++) box->loads[i] = -1;
  if (!request->load_count && !request->input_key) return true;
  must(setns(roots->store, CLONE_NEWNS), "enter the store");
  if (request->input_key) {
    snprintf(path, sizeof path, "/store/%s", request->input_key);
    box->files[0] = input_of_store(path);
    if (box->files[0] < 0) return is_missing(box, request->input_key);
  }
  for (unsigned i = 0; i < request->load_count; i++) {
    snprintf(path, sizeof path, "/store/%s", request->loads[i].key);
    box->loads[i] = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (box->loads[i] < 0) return is_missing(box, request->loads[i].key);
  }
  return true;
}

static void close_box(const struct box *box) {
  for (int i = 0; i < 3; i++) close(box->files[i]);
  for (unsigned i = 0; i < box->request->load_count; i++)
    if (box->loads[i] >= 0) close(box->loads[i]);
}

static pid_t clone_init(const struct slot_setup *setup, struct box *box, const struct roots *roots, int *pidfd) {
  struct clone_args arguments = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_PIDFD,
                                 .pidfd = (uint64_t)(uintptr_t)pidfd, .exit_signal = SIGCHLD};
  must(setns(roots->profiles[profile_index(setup->options, box->request->profile)], CLONE_NEWNS), "enter the profile's root");
  pid_t init = must_fork((long)syscall(SYS_clone3, &arguments, sizeof arguments), "clone init");
  if (init == 0) box_init(box);
  box->shared->init_pid = init;
  return init;
}

/*
 * The launcher kills init through a pidfd, and checks init_pid after it has opened one. So init_pid
 * becomes 0 while no other process can have the pid, and only then is init reaped.
 */
static void reap(struct slot_setup *setup, pid_t init) {
  siginfo_t end;
  while (waitid(P_PID, (id_t)init, &end, WEXITED | WNOWAIT) && errno == EINTR) continue;
  setup->shared->init_pid = 0;
  must(waitpid(init, NULL, 0), "reap init");
  relay_end(true);
  await_empty_group(setup->group);
}

/* Init's death kills all others, but the kernel may take a moment to forget the last of them. */
static void await_empty_group(struct group *group) {
  for (int tries = 0; !group_is_empty(group, resident_tasks(group)); tries++) {
    if (tries == 2000) fail("empty the control group of processes");
    usleep(tries < 20 ? 100 : 1000);
  }
}

/* The launcher may still read this run's counters, so it is an older run group that is removed. */
static void next_run_group(struct slot_setup *setup) {
  if (group_run_is_clean(setup->group)) return;
  group_retire(setup->group, run_group - 1);
  run_group++;
  prepare_run_group(setup);
}

/* v1: the launcher opens it as soon as the slot is idle. In v2 the run may take a zygote's run group instead. */
static void prepare_run_group(struct slot_setup *setup) {
  group_prepare(setup->group, run_group);
  if (setup->group->kind == ISOLATION_V1) setup->shared->run_group = run_group;
}
