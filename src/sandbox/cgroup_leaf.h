/*
 * What a slot does with its own control group: it enters the group once, and in version 2 makes a
 * fresh leaf for each run, ahead of time, so that memory.peak starts at zero.
 */
#ifndef RUNLEDGER_CGROUP_LEAF_H
#define RUNLEDGER_CGROUP_LEAF_H
#include "cgroup_files.h"

void group_enter(struct group *group);
/* v2: makes the leaf of the next run and opens its files. */
void group_prepare(struct group *group, uint32_t run);
void group_add_leaf(struct group *group, uint32_t run);
/* v2: removes the leaf of a run that is over. */
void group_retire(struct group *group, uint32_t run);

#endif
