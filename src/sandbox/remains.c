#define _GNU_SOURCE
#include "remains.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernel_files.h"

/* A stopped process starts no more. */
static bool kill_tree(pid_t parent, bool (*is_kept)(pid_t child)) {
  char path[64], list[8192];
  bool none = true;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
  if (read_text(AT_FDCWD, path, list, sizeof list) <= 0) return true;
  for (char *at = list, *end; *at; at = end + 1) {
    pid_t child = (pid_t)strtol(at, &end, 10);
    /* The kernel writes a space behind each number: without it, this one was cut off. */
    if (child <= 1 || *end != ' ') break;
    if (is_kept && is_kept(child)) continue;
    none = false;
    kill(child, SIGSTOP);
    kill_tree(child, NULL);
    kill(child, SIGKILL);
  }
  return none;
}

bool kill_children(bool (*is_kept)(pid_t child)) { return kill_tree(getpid(), is_kept); }
