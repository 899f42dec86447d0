/*
 * Control groups version 2: one tree, and one rule that shapes the rest: a group that delegates
 * controllers to its children may not contain processes. So the worker and its launcher move into a
 * run group, and the slots' groups are made beside that group.
 */
#ifndef RUNLEDGER_CGROUP_V2_H
#define RUNLEDGER_CGROUP_V2_H
#include <stdbool.h>
#include <stddef.h>

#include "cgroup_layout.h"

/* false: `why` says what is missing and how to provide it. */
bool v2_find(struct cgroup_layout *layout, char *why, size_t size);
/* Moves the processes of the group into the worker's own group, so that the group may delegate controllers. */
bool v2_settle(const char *base);
/* Lets the children of a group use the memory and pids controllers, and the cpu controller if it is there. */
bool v2_delegate(int directory);

#endif
