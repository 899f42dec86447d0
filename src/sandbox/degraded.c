/*
 * Runs without control groups and namespaces, for machines that allow neither. The launcher never
 * chooses them itself, and every report and health check marks them. They are for one's own code.
 *
 * What must stay true: a program cannot read or change the worker's processes and files. Two things can
 * ensure that, and without both the launcher does not start:
 *
 *   another user id   if the launcher can take one, as root can. Without Landlock a program can then
 *                     still read what every user of the machine can read, and write to /tmp.
 *   Landlock          of any version, with the filter of same_user.c, where the program has the
 *                     worker's user id. It can learn the names of files, but not open them.
 *
 * Subordinate ids would be of no use: using them takes user namespaces, and a user who can make those usually has a
 * delegated group, too, and then full isolation. If the launcher is killed, a process that a program started goes on. The
 * next launcher kills it if it has a user id of its own.
 *
 * The limits are weaker. CPU time and writable memory are limited for each process, shared memory only in the
 * program's first process, disk space for each file, and peak memory is the peak of the largest process. If
 * programs share the worker's user id, their limit of processes is inexact, because it counts all processes of
 * that user.
 *
 * There is no private root (degraded_files.h). The slot is the reaper of every process that its runs
 * leave, and takes the next run only when it has no child. At a limit the launcher kills the program's first process only,
 * and the slot kills the others. A process that blocks the slot through the lock of a pipe (streams.h) is such another one:
 * then the run goes on until that lock is free. Other runs go on as usual.
 */
#define _GNU_SOURCE
#include "degraded.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array.h"
#include "box.h"
#include "degraded_files.h"
#include "failure.h"
#include "identity.h"
#include "kernel_files.h"
#include "landlock.h"
#include "monotonic.h"
#include "relay.h"
#include "remains.h"
#include "same_user.h"
#include "seccomp.h"

/* The slot reaps orphans as often. */
enum { ORPHANS_MS = 50 };
enum { RESIDENT_SLACK = 32 << 20 };
/* Between two attempts to kill. It grows, so that a slot that waits for the kernel takes no processor from it. */
enum { KILL_AGAIN_US = 200, KILL_AGAIN_MOST_US = 10000 };

static const struct slot_setup *setup;
static const struct request *request;
static unsigned tasks_before; /* of the worker's user, if programs share its id */

static void serve_until_end_of(pid_t program);
static void run_program(pid_t slot, const int *files);
static void kill_all(void);

bool degraded_usable(unsigned uid_base, char *why, size_t size) {
  if (other_id_usable(uid_base) || landlock_version()) return true;
  snprintf(why, size, "degraded isolation needs another user id for programs (run as root) or Landlock (Linux 5.13, "
           "with landlock in the kernel's parameter lsm=), or a program could read its worker's secrets");
  return false;
}

void degraded_open(const struct slot_setup *slot_setup) {
  setup = slot_setup;
  must(prctl(PR_SET_CHILD_SUBREAPER, 1), "become the reaper of orphans");
  if (!setup->identity.shares_uid && !kill_user(&setup->identity)) /* of an earlier launcher */
    fail("end what an earlier run left");
  degraded_files_open(setup);
  degraded_remove();
  /* Only root has these sets to give up. */
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) prctl(PR_CAPBSET_DROP, capability);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

static uint64_t cpu_us(const struct rusage *usage) {
  return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
         (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

void degraded_run(struct box *box, const int *sockets) {
  struct rusage before, after;
  struct shared *shared = setup->shared;
  request = box->request;
  const bool found = degraded_open_input(box);
  relay_begin(box, sockets);
  if (!found) {
    for (int i = 0; i < 3; i++) close(box->files[i]);
    return relay_end(true);
  }
  getrusage(RUSAGE_CHILDREN, &before);
  degraded_furnish(request);
  tasks_before = setup->identity.shares_uid ? same_user_tasks() : 0;
  const pid_t slot = getpid();
  pid_t program = must_fork(fork(), "fork the program");
  if (program == 0) run_program(slot, box->files);
  for (int i = 0; i < 3; i++) close(box->files[i]);
  shared->init_pid = program;
  serve_until_end_of(program);
  shared->end_us = monotonic_us();
  shared->init_pid = 0;
  struct rusage own;
  wait4(program, &shared->wait_status, 0, &own);
  shared->largest_bytes = (uint64_t)own.ru_maxrss * 1024;
  kill_all();
  getrusage(RUSAGE_CHILDREN, &after);
  shared->cpu_start_us = 0;
  shared->cpu_end_us = cpu_us(&after) - cpu_us(&before);
  shared->ended = true;
  if (request->save_key || request->has_keep) relay_keep(degraded_open_work());
  relay_end(true);
  /* The launcher has saved what it wanted. This can take as long as the program took to make its files. */
  degraded_remove();
}

/*
 * Memory that a process shares, with others or with nobody, is in no limit of the kernel's. So the slot looks. The verdict is
 * MLE all the same, by the peak, which is at least this much: the kernel's two counters can differ by less than the slack.
 */
static bool uses_too_much(pid_t program) {
  char path[32], text[128];
  unsigned long long pages;
  snprintf(path, sizeof path, "/proc/%d/statm", program);
  if (read_text(AT_FDCWD, path, text, sizeof text) <= 0 || sscanf(text, "%*u %llu", &pages) != 1) return false;
  return pages * (unsigned long long)sysconf(_SC_PAGESIZE) > request->limits.memory_bytes + RESIDENT_SLACK;
}

/* Orphans become the slot's children. It reaps them as they end, and the program last. */
static void serve_until_end_of(pid_t program) {
  int pidfd = (int)must((long)syscall(SYS_pidfd_open, program, 0), "watch the program");
  for (bool ended = false; !ended;) {
    ended = relay_serve(pidfd, ORPHANS_MS);
    if (!ended && uses_too_much(program)) kill(program, SIGKILL);
    for (siginfo_t end = {0}; !waitid(P_ALL, 0, &end, WEXITED | WNOWAIT | WNOHANG) && end.si_pid && end.si_pid != program;
         end.si_pid = 0)
      waitpid(end.si_pid, NULL, 0);
  }
  close(pidfd);
}

static void limit_resources(void) {
  const struct limits *limits = &request->limits;
  const rlim_t stack = limits->stack_bytes < (64 << 20) ? limits->stack_bytes : 64 << 20;
  const struct {
    int resource;
    rlim_t most;
  } TABLE[] = {
      {RLIMIT_NOFILE, limits->files},
      {RLIMIT_FSIZE, limits->disk_bytes},
      /* threads get stacks of this size, which count as data */
      {RLIMIT_STACK, stack},
      {RLIMIT_MEMLOCK, 64 << 10},
      {RLIMIT_RTPRIO, 0},
      {RLIMIT_MSGQUEUE, 64 << 10},
      {RLIMIT_SIGPENDING, 1024},
      /* the only limit of CPU time: in whole seconds, for each process separately */
      {RLIMIT_CPU, limits->cpu_ms / 1000 + 1},
      /*
       * Only writable memory counts, because a JVM reserves much more than it ever uses. A JVM runs main() on a thread,
       * whose stack counts in full before any of it is touched, while the kernel's own main stack does not count.
       */
      {RLIMIT_DATA, limits->memory_bytes + stack},
      {RLIMIT_AS, limits->memory_bytes + ((rlim_t)16 << 30)},
  };
  for (unsigned i = 0; i < COUNT(TABLE); i++) {
    struct rlimit limit = {TABLE[i].most, TABLE[i].most};
    must(setrlimit(TABLE[i].resource, &limit), "set a resource limit");
  }
  rlim_t most = limits->processes;
  /* The launcher and its slots are not dumpable, so same_user_tasks() does not find them. */
  if (setup->identity.shares_uid) most += tasks_before + setup->options->slots + setup->options->stream_slots + 1;
  struct rlimit processes = {most, most};
  must(setrlimit(RLIMIT_NPROC, &processes), "limit processes");
}

static void give_up_capabilities(void) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {0};
  must(syscall(SYS_capset, &head, none), "drop the program's capabilities");
}

/* Each change of ids resets this. If the slot is dead already, no signal comes, and the next slot may have a run. */
static void die_with_slot(pid_t slot) {
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
  if (getppid() != slot) _exit(EXIT_BROKEN);
}

static void run_program(pid_t slot, const int *files) {
  static char text[(MAX_ARGUMENTS + MAX_VARIABLES) * 2048];
  const char *arguments[MAX_ARGUMENTS + 1] = {0}, *variables[MAX_VARIABLES + 1] = {0};
  char *at = text, directory[MAX_PATH];
  die_with_slot(slot);
  for (uint32_t i = 0; i < request->argument_count; i++, at += strlen(at) + 1)
    degraded_rewrite(at, (size_t)(text + sizeof text - at), request->arguments[i]), arguments[i] = at;
  for (uint32_t i = 0; i < request->variable_count; i++, at += strlen(at) + 1)
    degraded_rewrite(at, (size_t)(text + sizeof text - at), request->variables[i]), variables[i] = at;
  degraded_rewrite(directory, sizeof directory, request->directory);
  for (int i = 0; i < 3; i++) {
    must(dup2(files[i], i), "set up standard input, output and error");
    /* A compile does not get them, see box.c. */
    if (i == 0 && !request->stream && !request->pair) continue;
    if (request->save_key) must(fchmod(i, 0), "close a standard stream to others");
    else if (!setup->identity.shares_uid)
      must(fchown(i, setup->identity.uid, setup->identity.gid), "change the owner of a standard stream");
  }
  must(setsid(), "start a session");
  must(chdir(directory), "enter the working directory");
  landlock_confine(request, setup->options, degraded_path);
  limit_resources();
  if (!setup->identity.shares_uid) {
    must((long)syscall(SYS_setgroups, 0, NULL), "drop supplementary groups");
    must(setresgid(setup->identity.gid, setup->identity.gid, setup->identity.gid), "become the box's group");
    must(setresuid(setup->identity.uid, setup->identity.uid, setup->identity.uid), "become the box's user");
  }
  give_up_capabilities();
  die_with_slot(slot);
  if (setup->identity.shares_uid) same_user_confine(landlock_scopes_signals());
  seccomp_confine();
  setup->shared->start_us = monotonic_us();
  must((long)syscall(SYS_close_range, 3, ~0u, 0), "close all other descriptors"); /* now, see box.c */
  execve(arguments[0], (char *const *)arguments, (char *const *)variables);
  box_not_executed(setup->shared, request, arguments[0]);
}

/*
 * Kills until the slot has no child. If a process forks in time, its child becomes the slot's too. A killed process ends, but a
 * program decides how much the kernel has to free before: that can take seconds, and is no failure.
 */
static void kill_all(void) {
  for (useconds_t pause_us = KILL_AGAIN_US;; pause_us += pause_us < KILL_AGAIN_MOST_US ? pause_us / 8 : 0) {
    pid_t reaped;
    if (setup->identity.shares_uid || !kill_user(&setup->identity)) kill_children(NULL);
    while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0) continue;
    if (reaped < 0 && errno == ECHILD) return;
    usleep(pause_us);
  }
}
