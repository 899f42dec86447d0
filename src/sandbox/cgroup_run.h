/*
 * What a slot does with its own control groups. It enters its group once. For each run it has an empty
 * run group, ahead of time: a fresh one, or in v1 that of the run before if nothing worth counting is left in
 * it. (In v2 the kernel's peak cannot be reset before Linux 6.12.)
 *
 * How a program gets into its run group, without a wait at request time:
 *   v2: init clones the program's process into the run group (CLONE_INTO_CGROUP).
 *   v1: the program's process moves itself immediately before its start, by "0" in the run group's `tasks`
 *       file. The kernel moves a calling thread without the lock that a write to `cgroup.procs` takes,
 *       which costs a grace period (Linux 5.5 or newer).
 *
 * What a run leaves in its run group (page cache, the kernel's caches of names) passes to the slot's group
 * when the run group is removed. It never counts for another run. If it becomes much, the slot asks the
 * kernel to reclaim it, between two runs.
 */
#ifndef RUNLEDGER_CGROUP_RUN_H
#define RUNLEDGER_CGROUP_RUN_H
#include "cgroup_files.h"

void group_enter(struct group *group);
/* v1: what the last run left in its run group is too little to count, so the next run may have it. */
bool group_run_is_clean(const struct group *group);
/* Makes the group of the next run and opens its files. */
void group_prepare(struct group *group, uint32_t run);
void group_add_run(struct group *group, uint32_t run);
/* Removes the group of a run that is over. */
void group_retire(struct group *group, uint32_t run);
/* What is charged to the slot now is no leftover: the copies of files in its roots. */
void group_keep_memory(struct group *group);
/* Between two runs: if earlier runs left much memory, has the kernel reclaim it. */
void group_reclaim(struct group *group);

#endif
