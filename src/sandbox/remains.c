#define _GNU_SOURCE
#include "remains.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_files.h"

/* What ends a run needs a moment of a processor. */
enum { KILLER_MS = 5000 };
/* More than a run may have. The next call finds the others. */
enum { MOST = 8192 };

struct found {
  pid_t pids[MOST];
  unsigned count;
};

static bool add_children(struct found *found, pid_t parent, bool (*is_kept)(pid_t child));
static void add_listed(struct found *found, const char *list, bool (*is_kept)(pid_t child));

/*
 * Each process is killed when it is found. From then on no process can become its child, not even one that it was starting. The
 * passes go on until one finds nothing. Nothing is reaped before, so the dead count for the limit of processes, and a program
 * that starts others without end reaches it.
 */
bool kill_children(bool (*is_kept)(pid_t child)) {
  static struct found found;
  found.count = 0;
  bool seen = true;
  for (unsigned before = 1; before != found.count && seen;) {
    before = found.count;
    seen = add_children(&found, getpid(), is_kept);
    for (unsigned i = 0; i < found.count; i++) add_children(&found, found.pids[i], NULL);
  }
  return seen && found.count == 0;
}

/* Each thread has children of its own. false: there is no list. */
static bool add_children(struct found *found, pid_t parent, bool (*is_kept)(pid_t child)) {
  static char list[65536];
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", parent);
  DIR *tasks = opendir(path);
  if (!tasks) return false;
  for (struct dirent *task; (task = readdir(tasks));) {
    if (*task->d_name == '.') continue;
    snprintf(path, sizeof path, "%.20s/children", task->d_name);
    if (read_text(dirfd(tasks), path, list, sizeof list) > 0) add_listed(found, list, is_kept);
  }
  closedir(tasks);
  return true;
}

static bool is_found(const struct found *found, pid_t pid) {
  for (unsigned i = 0; i < found->count; i++)
    if (found->pids[i] == pid) return true;
  return false;
}

static void add_listed(struct found *found, const char *list, bool (*is_kept)(pid_t child)) {
  for (char *end; *list && found->count < MOST; list = end + 1) {
    pid_t child = (pid_t)strtol(list, &end, 10);
    /* The kernel writes a space behind each number: without it, this one was cut off. */
    if (child <= 1 || *end != ' ') break;
    if ((is_kept && is_kept(child)) || is_found(found, child)) continue;
    kill(child, SIGKILL);
    found->pids[found->count++] = child;
  }
}

/*
 * The kernel ends what has the box's id as real or saved id. A process may signal only processes of which one of these is its
 * own, so no program can stop the process that does this: its real and saved ids are those of no other process. (Root's
 * would not do: the signal would reach every process of root.)
 */
bool kill_user(const struct identity *identity) {
  pid_t killer = fork();
  if (killer == 0) _exit(setresuid(identity->ender, identity->uid, identity->ender) || (kill(-1, SIGKILL) && errno != ESRCH));
  if (killer < 0) return false;
  struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, killer, 0), .events = POLLIN};
  int status;
  if (end.fd >= 0 && poll(&end, 1, KILLER_MS) == 0) kill(killer, SIGKILL);
  if (end.fd >= 0) close(end.fd);
  return waitpid(killer, &status, 0) == killer && status == 0;
}
