#define _GNU_SOURCE
#include "cgroup_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "kernel_files.h"

/*
 * The kernel charges each processor's next pages in advance, 252 KiB at most, so an empty group seldom shows 0. What is
 * really left are caches, which the kernel drops at the limit. So this much makes no limit lower, and a peak that much
 * higher at most.
 */
static const uint64_t CLEAN_BYTES = 512 << 10;
/* Less is left alone: it is mostly page cache of the toolchains, and the next run is faster with it. */
static const uint64_t LEFTOVERS_MOST = 128 << 20;
/* v1: the name of the run group before the newest one. */
static const char RUN_BEFORE[] = "run-before";

void group_enter(struct group *group) {
  if (group->kind != ISOLATION_V1) {
    must(write_text(group->directories[0], "slot/cgroup.procs", "0") ? 0 : -1, "enter the slot's control group");
    return;
  }
  for (unsigned h = 0; h < HIERARCHIES && group->directories[h] >= 0; h++)
    must(write_text(group->directories[h], "cgroup.procs", "0") ? 0 : -1, "enter the slot's control group");
}

void group_prepare(struct group *group, uint32_t run) {
  bool v1 = group->kind == ISOLATION_V1;
  group_add_run(group, run);
  group_follow(group, run, SETS_LIMITS);
  if (group->run_group < 0 || group->cpu < 0 || group->memory_limit < 0 || group->process_limit < 0 || (v1 && group->entrance < 0))
    fail("open the next run's control group");
}

bool group_run_is_clean(const struct group *group) {
  return group->kind == ISOLATION_V1 && read_counter(group->memory, NULL) <= CLEAN_BYTES;
}

void group_add_run(struct group *group, uint32_t run) {
  char name[RUN_NAME], swap[RUN_NAME + 24];
  int base = group->directories[0];
  group_run_name(group, run, name);
  if (group->kind == ISOLATION_V1) renameat(base, name, base, RUN_BEFORE);
  /* A run group that a dead slot left would not be fresh. */
  if (mkdirat(base, name, 0755) && (errno != EEXIST || unlinkat(base, name, AT_REMOVEDIR) || mkdirat(base, name, 0755)))
    fail("make the next run's control group");
  if (group->kind == ISOLATION_V1) return;
  /* A run that needs swap is over its limit. A kernel without swap has no such file. */
  snprintf(swap, sizeof swap, "%s/memory.swap.max", name);
  write_text(base, swap, "0");
}

void group_retire(struct group *group, uint32_t run) {
  char name[RUN_NAME];
  group_run_name(group, run, name);
  unlinkat(group->directories[0], group->kind == ISOLATION_V1 ? RUN_BEFORE : name, AT_REMOVEDIR);
}

void group_keep_memory(struct group *group) {
  group->reclaim_above_bytes = read_counter(group->slot_memory, NULL) + LEFTOVERS_MOST;
}

void group_reclaim(struct group *group) {
  uint64_t used = read_counter(group->slot_memory, NULL);
  if (used <= group->reclaim_above_bytes) return;
  if (group->kind == ISOLATION_V1) {
    write_text(group->directories[0], "memory.force_empty", "0");
  } else {
    char bytes[24];
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)(used - group->reclaim_above_bytes + LEFTOVERS_MOST));
    write_text(group->directories[0], "memory.reclaim", bytes);
  }
  /* The rest is in use, as by a warm interpreter. Another try is worth its time only when there is as much again. */
  group_keep_memory(group);
}
