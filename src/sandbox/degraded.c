/*
 * Runs without control groups and namespaces, for machines that allow neither: only when asked for by
 * name, and marked wherever it shows. What is left are another user id (where the launcher is root),
 * Landlock, the system call filter, resource limits per process, and the wall clock.
 *
 * It holds less: CPU time is limited per process, memory by what it can write per process, disk per file,
 * and peak memory is that of the largest process. Without root and without Landlock's signal scope
 * (Linux 6.12) a program could end its worker: then the launcher refuses to start.
 *
 * There is no private root, so /box and /load in a request become a directory of the slot's own and
 * the store's. The slot is the reaper of everything that its runs leave, and takes the next only when
 * it has no child left.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#include "launcher.h"

static const struct slot_setup *setup;
static char place[160]; /* the slot's directory: what /box stands for */
static const struct request *request;

static void rewrite(char *into, size_t size, const char *text);
static const char *target_of(const char *at);
static void load(const char *key, const char *target);
static void make_place(void);
static void write_files(void);
static void run_program(const int *files);
static void kill_all(void);
static void kill_tree(pid_t parent);

void degraded_open(const struct slot_setup *slot_setup) {
  setup = slot_setup;
  must(prctl(PR_SET_CHILD_SUBREAPER, 1), "become the reaper of orphans");
  snprintf(place, sizeof place, "%s/runledger.%u/s%u/box", groups_base(), groups_instance(), setup->number);
}

void degraded_run(const struct box *box) {
  struct rusage before, after;
  struct shared *shared = setup->shared;
  siginfo_t end;
  request = box->request;
  getrusage(RUSAGE_CHILDREN, &before);
  make_place();
  write_files();
  pid_t program = (pid_t)must(fork(), "fork the program");
  if (program == 0) run_program(box->files);
  for (int i = 0; i < 3; i++) close(box->files[i]);
  shared->init_pid = program;
  /* Orphans come to the slot: they are reaped as they end, the program is left for the last. */
  do {
    if (waitid(P_ALL, 0, &end, WEXITED | WNOWAIT)) continue;
    if (end.si_pid != program) waitpid(end.si_pid, NULL, 0);
  } while (end.si_pid != program);
  shared->end_us = clock_us();
  shared->init_pid = 0;
  struct rusage own;
  wait4(program, &shared->wait_status, 0, &own);
  shared->largest_bytes = (uint64_t)own.ru_maxrss * 1024;
  kill_all();
  getrusage(RUSAGE_CHILDREN, &after);
  shared->cpu_start_us = 0;
  shared->cpu_end_us = (uint64_t)(after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
                       (uint64_t)(after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec - before.ru_stime.tv_usec);
  shared->ended = true;
  if (request->save_key) {
    int directory = (int)must(open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the work directory");
    must(send_message(setup->control, MESSAGE_BOX, &directory, 1), "hand out the work directory");
    close(directory);
  }
}

/* What the run before left goes now: until then the launcher may still have been saving from it. */
static void make_place(void) {
  static const char *const NAMES[] = {"/box", "/load", "/load2"};
  for (unsigned i = 0; i < COUNT(NAMES); i++) remove_tree(AT_FDCWD, target_of(NAMES[i]));
  must(mkdir(place, 0700), "make the work directory");
  must(chown(place, setup->identity.uid, setup->identity.gid), "give away the work directory");
  must(chdir(place), "enter the work directory");
}

static void write_files(void) {
  for (uint32_t i = 0; i < request->load_count; i++) {
    load(request->loads[i].key, target_of(request->loads[i].at));
  }
  for (uint32_t i = 0; i < request->file_count; i++) {
    const struct wire_file *file = &request->files[i];
    char part[MAX_PATH];
    for (const char *slash = strchr(file->path, '/'); slash; slash = strchr(slash + 1, '/')) {
      snprintf(part, sizeof part, "%.*s", (int)(slash - file->path), file->path);
      if (!mkdir(part, 0755) && chown(part, setup->identity.uid, setup->identity.gid)) fail("give away a directory");
    }
    int descriptor = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file->mode);
    if (descriptor < 0 || write(descriptor, file->bytes, file->length) != (ssize_t)file->length) fail("write the file %s", file->path);
    must(fchown(descriptor, setup->identity.uid, setup->identity.gid), "give away a file");
    close(descriptor);
  }
}

/* Where something that would be mounted in a box is put here: /box/x in the work directory, /load beside it. */
static const char *target_of(const char *at) {
  static char path[MAX_PATH + sizeof place];
  int base = (int)(strrchr(place, '/') - place);
  snprintf(path, sizeof path, "%.*s%s", base, place, at);
  return path;
}

/* A copy: the store may lie where another user id cannot go. */
static void copy_tree(int from, const char *name, const char *target) {
  int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  struct stat state;
  if (source < 0 || fstat(source, &state)) fail("find the artefact %.60s", name);
  if (S_ISREG(state.st_mode)) {
    int file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755 & state.st_mode);
    off_t left = state.st_size;
    for (ssize_t count; left && (count = sendfile(file, source, NULL, (size_t)left)) > 0;) left -= count;
    if (file < 0 || left) fail("copy the artefact's %.60s", name);
    close(file);
  } else {
    DIR *list = mkdir(target, 0755) ? NULL : fdopendir(dup(source));
    if (!list) fail("copy the artefact's %.60s", name);
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

static void load(const char *key, const char *target) {
  int store = open(setup->options->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  copy_tree(store, key, target);
  close(store);
}

/* /box and /load where they begin a path, alone or after a character that cannot belong to one. */
static void rewrite(char *into, size_t size, const char *text) {
  static const char *const NAMES[] = {"/box", "/load2", "/load"};
  size_t used = 0;
  for (const char *at = text; *at && used < size - 1;) {
    bool begins = at == text || strchr("=:,@I'\" ", at[-1]);
    const char *instead = NULL;
    size_t width = 0;
    for (unsigned n = 0; begins && !instead && n < COUNT(NAMES); n++) {
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
  const struct {
    int resource;
    rlim_t most;
  } TABLE[] = {
      {RLIMIT_NOFILE, limits->files},
      {RLIMIT_FSIZE, limits->disk_bytes},
      {RLIMIT_STACK, limits->memory_bytes < (64 << 20) ? limits->memory_bytes : 64 << 20},
      {RLIMIT_MEMLOCK, 64 << 10},
      {RLIMIT_RTPRIO, 0},
      {RLIMIT_MSGQUEUE, 64 << 10},
      {RLIMIT_SIGPENDING, 1024},
      /* The only limit of CPU time: whole seconds, of each process by itself. */
      {RLIMIT_CPU, limits->cpu_ms / 1000 + 1},
      /* What can be written counts; a JVM reserves much more than it ever uses. */
      {RLIMIT_DATA, limits->memory_bytes},
      {RLIMIT_AS, limits->memory_bytes + ((rlim_t)16 << 30)},
  };
  for (unsigned i = 0; i < COUNT(TABLE); i++) {
    struct rlimit limit = {TABLE[i].most, TABLE[i].most};
    must(setrlimit(TABLE[i].resource, &limit), "set a resource limit");
  }
  struct rlimit processes = {limits->processes, limits->processes};
  if (!setup->identity.shares_uid) must(setrlimit(RLIMIT_NPROC, &processes), "limit processes");
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
  for (int i = 0; i < 3; i++) must(dup2(files[i], i), "place standard input, output, error");
  must((long)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC), "close the rest");
  must(setsid(), "begin a session");
  must(chdir(directory), "enter the working directory");
  landlock_confine(request, setup->options, target_of);
  limit_resources();
  if (!setup->identity.shares_uid) {
    must((long)syscall(SYS_setgroups, 0, NULL), "drop supplementary groups");
    must(setresgid(setup->identity.gid, setup->identity.gid, setup->identity.gid), "become the box's group");
    must(setresuid(setup->identity.uid, setup->identity.uid, setup->identity.uid), "become the box's user");
  }
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
  seccomp_confine();
  setup->shared->start_us = clock_us();
  execve(arguments[0], (char *const *)arguments, (char *const *)variables);
  setup->shared->exec_error = errno;
  _exit(127);
}

/* Until the slot has no child: whoever forks meanwhile has its child fall to the slot as well. */
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
  fail("processes are left");
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
