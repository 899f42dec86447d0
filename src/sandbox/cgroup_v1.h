/* Control groups version 1: one hierarchy for each controller. Only root can use them. */
#ifndef RUNLEDGER_CGROUP_V1_H
#define RUNLEDGER_CGROUP_V1_H
#include <stdbool.h>
#include <stddef.h>

#include "cgroup_layout.h"

/* false: `why` says what is missing and how to provide it. */
bool v1_find(struct cgroup_layout *layout, char *why, size_t size);

#endif
