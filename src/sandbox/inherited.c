/*
 * A forked run starts with its zygote's pages, which are charged to the zygote. The interpreter's count as the run's
 * too, as in a plain run. When the program writes to a page, the kernel copies it and charges the copy to the run group, and
 * the page must not count twice. The kernel does not count copies. But the process's private pages less those that are
 * charged to the run group are those that it still shares; so the others are copied or freed. Copies count as the
 * interpreter's first, and then as the warm modules'. With several processes this does not hold, so the last estimate
 * stays.
 *
 * Three errors remain, and so only a run with a limit of 64 MiB or more is forked (zygote.c). Copies of the last 20 ms, or of
 * a run with several processes, count twice: up to 3 MiB. A copy of a page of a warm module counts, although a plain run
 * may not have the module: up to 2.5 MiB. And a run that uses a warm module is not charged for it. The kernel enforces the
 * limit on what is charged to the run group; the verdict is also MLE if the peak with the shared pages is over it.
 *
 * The slot does this, and not the launcher: a process that reads statm of a process that dies can be the last
 * user of its memory, and has to free it.
 */
#define _GNU_SOURCE
#include "inherited.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cgroup_files.h"
#include "kernel_files.h"

static uint64_t above(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* 0: it is dead, or is not the only one. */
static uint64_t private_bytes_of_only(int proc, int run_group) {
  char list[32], path[48];
  ssize_t length = read_text(run_group, "cgroup.procs", list, sizeof list);
  char *end = length > 0 ? strchr(list, '\n') : NULL;
  if (!end || end[1]) return 0;
  snprintf(path, sizeof path, "%.*s/statm", (int)(end - list), list);
  int statm = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (statm < 0) return 0;
  uint64_t bytes = read_private_bytes(statm);
  close(statm);
  return bytes;
}

void inherited_estimate(const struct slot_setup *setup) {
  struct shared *shared = setup->shared;
  struct group group = {.kind = setup->group->kind};
  char name[RUN_NAME];
  group_run_name(&group, shared->run_group, name);
  group.run_group = openat(setup->group->directories[0], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (group.run_group < 0) return;
  uint64_t private = private_bytes_of_only(setup->proc, group.run_group);
  if (private) {
    uint64_t shares = above(private, group_anonymous_bytes(&group));
    uint64_t left = above(shared->inherited_bytes, above(shared->forked_bytes, shares));
    if (left < shared->inherited_left) shared->inherited_left = left;
  }
  close(group.run_group);
}
