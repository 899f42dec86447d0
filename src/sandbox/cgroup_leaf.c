#define _GNU_SOURCE
#include "cgroup_leaf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "kernel_files.h"

static bool has_leaves(const struct group *group) {
  return group->kind == ISOLATION_V2 || group->kind == ISOLATION_V2_USER;
}

void group_enter(struct group *group) {
  if (has_leaves(group)) {
    must(write_text(group->directories[0], "slot/cgroup.procs", "0") ? 0 : -1, "enter the slot's control group");
    return;
  }
  for (unsigned h = 0; h < HIERARCHIES && group->directories[h] >= 0; h++)
    must(write_text(group->directories[h], "cgroup.procs", "0") ? 0 : -1, "enter the slot's control group");
}

void group_prepare(struct group *group, uint32_t run) {
  if (group->kind == ISOLATION_V1) return;
  group_add_leaf(group, run);
  group_follow(group, run);
  if (group->leaf < 0 || group->cpu < 0 || group->peak < 0 || group->memory_limit < 0 || group->process_limit < 0)
    fail("open the next run's control group");
}

void group_add_leaf(struct group *group, uint32_t run) {
  char name[48];
  snprintf(name, sizeof name, "r%u", run);
  if (mkdirat(group->directories[0], name, 0755) && errno != EEXIST) fail("make the next run's control group");
  /* A run that needs swap is over its limit. A kernel without swap has no such file. */
  snprintf(name, sizeof name, "r%u/memory.swap.max", run);
  write_text(group->directories[0], name, "0");
}

void group_retire(struct group *group, uint32_t run) {
  if (group->kind == ISOLATION_V1) return;
  char name[24];
  snprintf(name, sizeof name, "r%u", run);
  unlinkat(group->directories[0], name, AT_REMOVEDIR);
}
