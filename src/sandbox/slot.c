/*
 * A slot: a place to run one program at a time. It is forked by the launcher, enters its control
 * group, network, host name and (for an ordinary user) user namespace once, and then, for each
 * request, clones an init into fresh pid, mount and ipc namespaces, and waits for its end. It holds
 * no request of another customer: what it reads lies in the pages it shares with the launcher.
 *
 * It tells "idle" only when its group has no process but itself.
 */
#define _GNU_SOURCE
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

#include "launcher.h"

/* The leaf that the next plain run will enter (v2). */
static uint32_t leaf = 1;

static void die_with_launcher(const struct slot_setup *setup);
static void serve_degraded(struct slot_setup *setup);
static void keep_only(const struct slot_setup *setup);
static void reset_signals(void);
static void enter_namespaces(struct slot_setup *setup);
static void give_up_rights(const struct slot_setup *setup);
static void serve(struct slot_setup *setup, const struct roots *roots);
static bool await_request(struct slot_setup *setup, struct box *box);
static void run_plain(struct slot_setup *setup, struct box *box, const struct roots *roots);
static void run_forked(struct slot_setup *setup, struct box *box, struct zygote *zygote);
static bool open_artefacts(struct box *box, const struct roots *roots);
static void close_box(const struct box *box);
static pid_t clone_init(struct box *box);
static void reap(struct slot_setup *setup, pid_t init, bool saves);
static void await_empty_group(struct group *group, bool saves);

void slot_main(struct slot_setup *setup) {
  struct roots roots;
  fault_sink = &setup->shared->fault;
  die_with_launcher(setup);
  keep_only(setup);
  reset_signals();
  /* What a dead zygote leaves is reaped here: the machine's first process may take seconds, or never do it. */
  must(prctl(PR_SET_CHILD_SUBREAPER, 1), "become the reaper of orphans");
  /* The launcher's priority is for watching programs, not for being one. */
  setpriority(PRIO_PROCESS, 0, setup->priority);
  /* Should memory run out, it is a program's turn. An ordinary user may not ask for this. */
  write_text(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
  if (groups_kind() == ISOLATION_RLIMITS) serve_degraded(setup);
  setup->proc = (int)must(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), "open /proc");
  group_enter(setup->group);
  enter_namespaces(setup);
  roots_build(setup->options, &setup->identity, &roots);
  give_up_rights(setup);
  group_prepare(setup->group, leaf);
  group_note_idle(setup->group);
  must(send_message(setup->control, MESSAGE_READY, NULL, 0), "say that the slot is ready");
  serve(setup, &roots);
  _exit(0);
}

static void die_with_launcher(const struct slot_setup *setup) {
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the launcher");
  if (getppid() != setup->launcher) _exit(EXIT_BROKEN);
}

/* Everything else belongs to the launcher: the worker's socket, other slots, others' pipes. */
static void keep_only(const struct slot_setup *setup) {
  int kept[2 * HIERARCHIES + 16];
  unsigned count = group_descriptors(setup->group, kept);
  kept[count++] = setup->control;
  kept[count++] = setup->memory;
  for (int from = 3;;) {
    int next = -1;
    for (unsigned i = 0; i < count; i++)
      if (kept[i] >= from && (next < 0 || kept[i] < next)) next = kept[i];
    if (next < 0) {
      must((long)syscall(SYS_close_range, from, ~0u, 0), "close the launcher's descriptors");
      return;
    }
    if (next > from) must((long)syscall(SYS_close_range, from, next - 1, 0), "close the launcher's descriptors");
    from = next + 1;
  }
}

/* A program inherits what is ignored and what is blocked: nothing shall be. */
static void reset_signals(void) {
  sigset_t none;
  for (int number = 1; number < _NSIG; number++) signal(number, SIG_DFL);
  sigemptyset(&none);
  must(sigprocmask(SIG_SETMASK, &none, NULL), "unblock signals");
}

/* Each change of ids makes the kernel forget the wish to die with the parent, and hide /proc/self. */
static void enter_user_namespace(struct slot_setup *setup) {
  char message;
  unsigned count;
  must(unshare(CLONE_NEWUSER), "make a user namespace");
  must(prctl(PR_SET_DUMPABLE, 1), "show the slot to the launcher");
  must(send_message(setup->control, MESSAGE_MAP, NULL, 0), "ask for ids");
  if (receive_message(setup->control, &message, NULL, &count, true) != 1) _exit(EXIT_BROKEN);
  if (!setup->identity.shares_uid) {
    must(setresgid(0, 0, 0), "become root of the user namespace");
    must(setresuid(0, 0, 0), "become root of the user namespace");
    must(prctl(PR_SET_DUMPABLE, 1), "show /proc/self to the slot");
  }
  die_with_launcher(setup);
}

static void enter_namespaces(struct slot_setup *setup) {
  if (setup->identity.own_namespace) enter_user_namespace(setup);
  must(unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC), "make the slot's namespaces");
  /* On v2 nobody enters a group from a namespace that does not hold it: there each init gets one. */
  if (groups_kind() == ISOLATION_V1)
    must(unshare(CLONE_NEWCGROUP), "make the slot's control group namespace");
  must(sethostname("runledger", 9), "set the host name");
  must(setdomainname("", 0), "set the domain name");
}

/* What a slot needs no more, and nobody below it ever gets. */
static void give_up_rights(const struct slot_setup *setup) {
  if (!setup->identity.shares_uid) must((long)syscall(SYS_setgroups, 0, NULL), "drop supplementary groups");
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2];
  must(syscall(SYS_capget, &head, sets), "read capabilities");
  /* A zygote keeps the slot's rights over its execve; a program has lost this set before its own. */
  for (int i = 0; i < 2; i++) sets[i].inheritable = setup->options->zygote ? sets[i].permitted : 0;
  must(syscall(SYS_capset, &head, sets), "set inheritable capabilities");
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
    must(prctl(PR_CAPBSET_DROP, capability), "drop a capability from the bounding set");
  must(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities");
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges");
  /* Not the worker's keys. Kernels without keyrings have none to hide. */
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

static void serve(struct slot_setup *setup, const struct roots *roots) {
  static struct request request;
  struct box box = {.request = &request, .shared = setup->shared, .group = setup->group,
                    .identity = setup->identity, .control = setup->control};
  box.parent = (int)must((long)syscall(SYS_pidfd_open, getpid(), 0), "open the slot's own pidfd");
  zygotes_open(setup, roots);
  while (await_request(setup, &box)) {
    const char *wrong = wire_parse(setup->shared->frame, setup->shared->frame_length, &request);
    if (wrong) fail("a request is not understood: %s", wrong);
    zygotes_hold(true);
    struct zygote *zygote = zygotes_choose(&request);
    if (zygote) run_forked(setup, &box, zygote);
    else run_plain(setup, &box, roots);
    if (!zygote) zygotes_learn(&request);
    zygotes_hold(false);
    zygotes_renew();
    must(send_message(setup->control, MESSAGE_IDLE, NULL, 0), "say that the slot is idle");
  }
}

static void serve_degraded(struct slot_setup *setup) {
  static struct request request;
  struct box box = {.request = &request, .shared = setup->shared, .control = setup->control};
  degraded_open(setup);
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges");
  must(send_message(setup->control, MESSAGE_READY, NULL, 0), "say that the slot is ready");
  while (await_request(setup, &box)) {
    const char *wrong = wire_parse(setup->shared->frame, setup->shared->frame_length, &request);
    if (wrong) fail("a request is not understood: %s", wrong);
    degraded_run(&box);
    must(send_message(setup->control, MESSAGE_IDLE, NULL, 0), "say that the slot is idle");
  }
  _exit(0);
}

/* Uses a pause to warm an interpreter. */
static bool await_request(struct slot_setup *setup, struct box *box) {
  struct pollfd both[2] = {{.fd = setup->control, .events = POLLIN}, {.events = POLLIN}};
  char message;
  unsigned count;
  do {
    if (both[0].revents == 0 && both[1].revents) zygotes_tend();
    int patience_ms = zygotes_patience_ms(&both[1].fd);
    if (poll(both, 2, patience_ms) == 0) zygotes_tend();
  } while (!both[0].revents);
  if (receive_message(setup->control, &message, box->files, &count, true) != 1) return false;
  if (message != MESSAGE_RUN || count != 3) fail("a message is not understood");
  return true;
}

/* Slot and zygotes are in a v1 group, and init is in any. */
static unsigned resident_tasks(void) { return (groups_kind() == ISOLATION_V1 ? 1 : 0) + zygotes_tasks(); }

static void run_plain(struct slot_setup *setup, struct box *box, const struct roots *roots) {
  setup->shared->leaf = leaf;
  setup->shared->inherited_bytes = 0;
  group_limit(setup->group, &box->request->limits, resident_tasks() + 1);
  if (!open_artefacts(box, roots)) {
    close_box(box);
    return;
  }
  int profile = profile_index(setup->options, box->request->profile);
  must(setns(roots->profiles[profile], CLONE_NEWNS), "enter the profile's root");
  pid_t init = clone_init(box);
  close_box(box);
  reap(setup, init, box->request->save_key != NULL);
}

static void run_forked(struct slot_setup *setup, struct box *box, struct zygote *zygote) {
  zygote_run(zygote, box);
  for (int i = 0; i < 3; i++) close(box->files[i]);
  /* In v2 its leaf is empty when it is reaped, or it could not be removed; in v1 it is looked at. */
  if (groups_kind() == ISOLATION_V1) await_empty_group(setup->group, false);
}

/* A mount of its own for each, taken where the store is in sight, attached where it is not. */
static bool open_artefacts(struct box *box, const struct roots *roots) {
  for (unsigned i = 0; i < MAX_LOADS; i++) box->loads[i] = -1;
  if (!box->request->load_count) return true;
  must(setns(roots->store, CLONE_NEWNS), "enter the store");
  for (unsigned i = 0; i < box->request->load_count; i++) {
    char path[MAX_NAME + 16];
    snprintf(path, sizeof path, "/store/%s", box->request->loads[i].key);
    box->loads[i] = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (box->loads[i] >= 0) continue;
    /* The caller's cache was wrong about it: its run cannot be, but the slot is sound. */
    struct fault *fault = &box->shared->fault;
    snprintf(fault->step, sizeof fault->step, "find the artefact %.60s", box->request->loads[i].key);
    fault->error = errno;
    return false;
  }
  return true;
}

static void close_box(const struct box *box) {
  for (int i = 0; i < 3; i++) close(box->files[i]);
  for (unsigned i = 0; i < box->request->load_count; i++)
    if (box->loads[i] >= 0) close(box->loads[i]);
}

static pid_t clone_init(struct box *box) {
  struct clone_args arguments = {.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC, .exit_signal = SIGCHLD};
  if (box->group->leaf >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP | CLONE_NEWCGROUP;
    arguments.cgroup = (uint64_t)box->group->leaf;
  }
  pid_t init = (pid_t)must((long)syscall(SYS_clone3, &arguments, sizeof arguments), "clone init");
  if (init == 0) box_init(box);
  box->shared->init_pid = init;
  return init;
}

/*
 * The launcher signals init by its pid, and checks init_pid after it opened a pidfd for it: so it
 * is zeroed while the pid is still taken, and only then reaped.
 */
static void reap(struct slot_setup *setup, pid_t init, bool saves) {
  siginfo_t end;
  while (waitid(P_PID, (id_t)init, &end, WEXITED | WNOWAIT) && errno == EINTR) continue;
  setup->shared->init_pid = 0;
  must(waitpid(init, NULL, 0), "reap init");
  await_empty_group(setup->group, saves);
  /* The launcher still reads this run's counters: what goes is the leaf of the run before. */
  group_retire(setup->group, leaf - 1);
  group_prepare(setup->group, ++leaf);
}

/* Init's death ends all others, but the last of them, and their memory, may still be on their way. */
static void await_empty_group(struct group *group, bool saves) {
  for (int tries = 0; !group_is_empty(group, resident_tasks()); tries++) {
    if (tries == 2000) fail("processes are left in the control group");
    usleep(tries < 20 ? 100 : 1000);
  }
  /* What is to be saved is there until the launcher has saved it, and it waits for us: then it is gone. */
  for (int tries = 0; !saves && !group_is_drained(group, tries == 500); tries++) {
    if (tries == 500) fail("memory is left in the control group");
    usleep(tries < 20 ? 100 : 1000);
  }
}
