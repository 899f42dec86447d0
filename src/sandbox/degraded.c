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
 * The limits are weaker. CPU time and writable memory are limited for each process, disk space for each
 * file, and peak memory is the peak of the largest process. If programs share the worker's user id, their
 * limit of processes is inexact, because it counts all processes of that user.
 *
 * There is no private root. Instead, /box, /tmp and /load in a request's command and variables are
 * rewritten to directories of the slot, which only the slot's programs can enter. The slot is the reaper of every process that its runs
 * leave, and takes the next run only when it has no child. At a limit the launcher kills the program's first process only,
 * and the slot kills the others. A process that blocks the slot through the lock of a pipe (streams.h) is such another one:
 * then the run goes on until that lock is free. Other runs go on as usual.
 */
#define _GNU_SOURCE
#include "degraded.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array.h"
#include "cgroup.h"
#include "failure.h"
#include "identity.h"
#include "input_file.h"
#include "kernel_files.h"
#include "landlock.h"
#include "monotonic.h"
#include "relay.h"
#include "remove_tree.h"
#include "same_user.h"
#include "seccomp.h"

/* The slot reaps orphans as often. */
enum { ORPHANS_MS = 50 };

static const struct slot_setup *setup;
static char work_directory[160]; /* of this slot: the real path of /box */
static const struct request *request;
static unsigned tasks_before; /* of the worker's user, if programs share its id */

static void rewrite(char *into, size_t size, const char *text);
static const char *target_of(const char *at);
static bool open_input(struct box *box);
static void load(const char *key, const char *target);
static void make_directories(void);
static void write_files(void);
static void serve_until_end_of(pid_t program);
static void run_program(const int *files);
static void kill_all(void);
static void kill_tree(pid_t parent);

bool degraded_usable(unsigned uid_base, char *why, size_t size) {
  if (other_id_usable(uid_base) || landlock_version()) return true;
  snprintf(why, size, "degraded isolation needs another user id for programs (run as root) or Landlock (Linux 5.13, "
           "with landlock in the kernel's parameter lsm=), or a program could read its worker's secrets");
  return false;
}

void degraded_open(const struct slot_setup *slot_setup) {
  setup = slot_setup;
  must(prctl(PR_SET_CHILD_SUBREAPER, 1), "become the reaper of orphans");
  snprintf(work_directory, sizeof work_directory, "%s/runledger.%u/s%u/box", groups_base(), groups_instance(), setup->number);
  /* Programs of other slots have other groups. Where all have the same, Landlock keeps them apart. */
  must(chown(target_of(""), (uid_t)-1, setup->identity.gid), "give the slot's directory to its group");
  must(chmod(target_of(""), setup->identity.shares_uid ? 0700 : 0710), "close the slot's directory");
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
  const bool found = open_input(box);
  relay_begin(box, sockets);
  if (!found) {
    for (int i = 0; i < 3; i++) close(box->files[i]);
    return relay_end(true);
  }
  getrusage(RUSAGE_CHILDREN, &before);
  make_directories();
  write_files();
  tasks_before = setup->identity.shares_uid ? same_user_tasks() : 0;
  pid_t program = (pid_t)must(fork(), "fork the program");
  if (program == 0) run_program(box->files);
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
  if (request->save_key || request->has_keep) {
    int directory = (int)must(open(work_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the work directory");
    relay_keep(directory);
  }
  relay_end(true);
}

/* Orphans become the slot's children. It reaps them as they end, and the program last. */
static void serve_until_end_of(pid_t program) {
  int pidfd = (int)must((long)syscall(SYS_pidfd_open, program, 0), "watch the program");
  for (bool ended = false; !ended;) {
    ended = relay_serve(pidfd, ORPHANS_MS);
    for (siginfo_t end = {0}; !waitid(P_ALL, 0, &end, WEXITED | WNOWAIT | WNOHANG) && end.si_pid && end.si_pid != program;
         end.si_pid = 0)
      waitpid(end.si_pid, NULL, 0);
  }
  close(pidfd);
}

static void make_directory(const char *path) {
  must(mkdir(path, 0700), "make a directory of the run");
  must(chown(path, setup->identity.uid, setup->identity.gid), "change the owner of a directory of the run");
}

/* The previous run's files are removed only now, because the launcher may have been saving from them until its answer. */
static void make_directories(void) {
  static const char *const NAMES[] = {"/box", "/tmp", "/load", "/load2"};
  for (unsigned i = 0; i < COUNT(NAMES); i++) remove_tree(AT_FDCWD, target_of(NAMES[i]));
  make_directory(work_directory);
  make_directory(target_of("/tmp"));
  must(chdir(work_directory), "enter the work directory");
}

/* `path` is relative to the work directory, which is the current one. */
static void make_parents(const char *path) {
  char part[MAX_PATH];
  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    if (!mkdir(part, 0755) && chown(part, setup->identity.uid, setup->identity.gid)) fail("change the owner of a directory");
  }
}

static void write_files(void) {
  static const char WORK[] = "/box/";
  for (uint32_t i = 0; i < request->folder_count; i++) {
    make_parents(request->folders[i]);
    if (mkdir(request->folders[i], 0755) && errno != EEXIST) fail("make the folder %s", request->folders[i]);
    must(chown(request->folders[i], setup->identity.uid, setup->identity.gid), "change the owner of a folder");
  }
  if (request->single_loads) must(mkdir(target_of(FILES_FOLDER), 0755), "make the folder of files");
  for (uint32_t i = 0; i < request->load_count; i++) {
    const char *at = request->loads[i].at;
    if (!strncmp(at, WORK, sizeof WORK - 1)) make_parents(at + sizeof WORK - 1);
    load(request->loads[i].key, target_of(at));
  }
  for (uint32_t i = 0; i < request->file_count; i++) {
    const struct wire_file *file = &request->files[i];
    make_parents(file->path);
    int descriptor = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file->mode);
    if (descriptor < 0 || write(descriptor, file->bytes, file->length) != (ssize_t)file->length) fail("write the file %s", file->path);
    must(fchown(descriptor, setup->identity.uid, setup->identity.gid), "change the owner of a file");
    close(descriptor);
  }
}

/* The real path of a path of the box: /box/x lies in the work directory, /load beside it. */
static const char *target_of(const char *at) {
  static char path[MAX_PATH + sizeof work_directory];
  int base = (int)(strrchr(work_directory, '/') - work_directory);
  snprintf(path, sizeof path, "%.*s%s", base, work_directory, at);
  return path;
}

/* Copies, because the program's user id may not be able to enter the store. */
static void copy_tree(int from, const char *name, const char *target) {
  int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  struct stat state;
  if (source < 0 || fstat(source, &state)) fail("find the artefact %.60s", name);
  if (S_ISREG(state.st_mode)) {
    /* Executable in any case: a linker that may not change modes could not make it so. */
    int file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    off_t left = state.st_size;
    for (ssize_t count; left && (count = sendfile(file, source, NULL, (size_t)left)) > 0;) left -= count;
    if (file < 0 || left) fail("copy %.60s of an artefact", name);
    close(file);
  } else {
    DIR *list = mkdir(target, 0755) ? NULL : fdopendir(dup(source));
    if (!list) fail("copy %.60s of an artefact", name);
    for (struct dirent *entry; (entry = readdir(list));) {
      char inner[MAX_PATH + 512];
      if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
      snprintf(inner, sizeof inner, "%s/%s", target, entry->d_name);
      copy_tree(source, entry->d_name, inner);
    }
    closedir(list);
  }
  close(source);
}

/* A copy: a program with the worker's user id could change the file in the store through a descriptor of it. */
static bool open_input(struct box *box) {
  char path[MAX_PATH + MAX_NAME];
  box->files[0] = box->files[1] = box->files[2] = -1;
  if (!request->input_key) return true;
  snprintf(path, sizeof path, "%s/%s", setup->options->store, request->input_key);
  int file = input_of_store(path);
  if (file >= 0) {
    box->files[0] = input_copy(setup->proc, file);
    return true;
  }
  struct failure *failure = &setup->shared->failure;
  failure->error = errno;
  snprintf(failure->step, sizeof failure->step, "find the artefact %.70s", request->input_key);
  return false;
}

static void load(const char *key, const char *target) {
  int store = open(setup->options->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  copy_tree(store, key, target);
  close(store);
}

/* Replaces /box, /tmp and /load where they start a path: at the start of the text, or after a character that ends a path. */
static void rewrite(char *into, size_t size, const char *text) {
  static const char *const NAMES[] = {"/box", "/tmp", "/load2", "/load"};
  size_t used = 0;
  for (const char *at = text; *at && used < size - 1;) {
    bool starts = at == text || strchr("=:,@I'\" ", at[-1]);
    const char *instead = NULL;
    size_t width = 0;
    for (unsigned n = 0; starts && !instead && n < COUNT(NAMES); n++) {
      width = strlen(NAMES[n]);
      if (!strncmp(at, NAMES[n], width) && (!at[width] || strchr("/:,'\" ", at[width]))) instead = target_of(NAMES[n]);
    }
    int count = instead ? snprintf(into + used, size - used, "%s", instead) : 1;
    if (!instead) into[used] = *at;
    used += (size_t)count;
    at += instead ? width : 1;
  }
  if (used >= size) fail("a path is too long: %s", text);
  into[used] = 0;
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

static void run_program(const int *files) {
  static char text[(MAX_ARGUMENTS + MAX_VARIABLES) * 2048];
  const char *arguments[MAX_ARGUMENTS + 1] = {0}, *variables[MAX_VARIABLES + 1] = {0};
  char *at = text, directory[MAX_PATH];
  for (uint32_t i = 0; i < request->argument_count; i++, at += strlen(at) + 1)
    rewrite(at, (size_t)(text + sizeof text - at), request->arguments[i]), arguments[i] = at;
  for (uint32_t i = 0; i < request->variable_count; i++, at += strlen(at) + 1)
    rewrite(at, (size_t)(text + sizeof text - at), request->variables[i]), variables[i] = at;
  rewrite(directory, sizeof directory, request->directory);
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
  for (int i = 0; i < 3; i++) {
    must(dup2(files[i], i), "set up standard input, output and error");
    /* A compile does not get them, see box.c. */
    if (!setup->identity.shares_uid && !request->save_key && (i > 0 || request->stream || request->pair))
      must(fchown(i, setup->identity.uid, setup->identity.gid), "change the owner of a standard stream");
  }
  must((long)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC), "close all other descriptors");
  must(setsid(), "start a session");
  must(chdir(directory), "enter the working directory");
  landlock_confine(request, setup->options, target_of);
  limit_resources();
  if (!setup->identity.shares_uid) {
    must((long)syscall(SYS_setgroups, 0, NULL), "drop supplementary groups");
    must(setresgid(setup->identity.gid, setup->identity.gid, setup->identity.gid), "become the box's group");
    must(setresuid(setup->identity.uid, setup->identity.uid, setup->identity.uid), "become the box's user");
  }
  give_up_capabilities();
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
  if (setup->identity.shares_uid) same_user_confine(landlock_scopes_signals());
  seccomp_confine();
  setup->shared->start_us = monotonic_us();
  execve(arguments[0], (char *const *)arguments, (char *const *)variables);
  setup->shared->exec_error = errno;
  _exit(127);
}

/* Kills until the slot has no child. If a process forks in time, its child becomes the slot's too. */
static void kill_all(void) {
  for (int tries = 0; tries < 5000; tries++) {
    pid_t reaped;
    if (!setup->identity.shares_uid) {
      pid_t killer = fork();
      if (killer == 0) {
        if (!setresuid(setup->identity.uid, setup->identity.uid, setup->identity.uid)) kill(-1, SIGKILL);
        _exit(0);
      }
      if (killer > 0) waitpid(killer, NULL, 0);
    } else {
      kill_tree(getpid());
    }
    while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0) continue;
    if (reaped < 0 && errno == ECHILD) return;
    usleep(200);
  }
  fail("kill the processes that are left");
}

static void kill_tree(pid_t parent) {
  char path[64], list[8192];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
  if (read_text(AT_FDCWD, path, list, sizeof list) <= 0) return;
  for (char *at = list, *end; *at; at = *end ? end + 1 : end) {
    pid_t child = (pid_t)strtol(at, &end, 10);
    if (child <= 1) return;
    kill(child, SIGSTOP);
    kill_tree(child);
    kill(child, SIGKILL);
  }
}
