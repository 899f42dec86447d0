#define _GNU_SOURCE
#include "remains.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failure.h"
#include "kernel_files.h"

/* What ends a run needs a moment of a processor. */
enum { KILLER_MS = 5000 };
/* More than a run may have. The next call finds the others. */
enum { MOST = 8192 };

struct found {
  pid_t pids[MOST];
  unsigned count;
};

static void add_children(struct found *found, pid_t parent, bool (*is_kept)(pid_t child));
static void add_listed(struct found *found, const char *list, bool (*is_kept)(pid_t child));

/*
 * Each process first loses the right to start others. That takes effect at once, in all of its threads, and for good: only
 * root's programs keep it. It is stopped, too: this slows those of root down, and others might go on.
 */
bool kill_children(bool (*is_kept)(pid_t child)) {
  static struct found found;
  found.count = 0;
  add_children(&found, getpid(), is_kept);
  for (unsigned i = 0; i < found.count; i++) {
    prlimit(found.pids[i], RLIMIT_NPROC, &(struct rlimit){0}, NULL);
    kill(found.pids[i], SIGSTOP);
    add_children(&found, found.pids[i], NULL);
  }
  for (unsigned i = 0; i < found.count; i++) kill(found.pids[i], SIGKILL);
  return found.count == 0;
}

/* Each thread has children of its own. */
static void add_children(struct found *found, pid_t parent, bool (*is_kept)(pid_t child)) {
  char path[64], list[8192];
  snprintf(path, sizeof path, "/proc/%d/task", parent);
  DIR *tasks = opendir(path);
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    if (*task->d_name == '.') continue;
    snprintf(path, sizeof path, "%.20s/children", task->d_name);
    if (read_text(dirfd(tasks), path, list, sizeof list) > 0) add_listed(found, list, is_kept);
  }
  if (tasks) closedir(tasks);
}

static void add_listed(struct found *found, const char *list, bool (*is_kept)(pid_t child)) {
  for (char *end; *list && found->count < MOST; list = end + 1) {
    pid_t child = (pid_t)strtol(list, &end, 10);
    /* The kernel writes a space behind each number: without it, this one was cut off. */
    if (child <= 1 || *end != ' ') break;
    if (!is_kept || !is_kept(child)) found->pids[found->count++] = child;
  }
}

/*
 * The kernel ends what has the box's id as real or saved id. A process may signal only processes of which one of these is its
 * own, so no program can stop the process that does this: its real and saved ids are those of no other process. (Root's
 * would not do: the signal would reach every process of root.)
 */
void kill_user(const struct identity *identity) {
  pid_t killer = fork();
  if (killer == 0) {
    if (!setresuid(identity->ender, identity->uid, identity->ender)) kill(-1, SIGKILL);
    _exit(0);
  }
  if (killer < 0) return;
  struct pollfd end = {.fd = (int)must((long)syscall(SYS_pidfd_open, killer, 0), "watch what ends a run"), .events = POLLIN};
  if (poll(&end, 1, KILLER_MS) == 0) kill(killer, SIGKILL);
  close(end.fd);
  waitpid(killer, NULL, 0);
}
