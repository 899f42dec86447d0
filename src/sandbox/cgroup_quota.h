/*
 * How much of the processors the programs may use.
 *
 * Equal shares do not hold: processes that wake each other all the time, or that move each other
 * between processors, get nearly everything, whatever the weights are. A quota holds, because the
 * kernel stops all tasks of a group that has used it up until the next period.
 *
 *   all slots together   the processors that the launcher may use, less a reserve for launcher, worker,
 *                        web processes and database. The period is short, so these never wait long.
 *   each slot            its part of the processors, and at least one, so that a program with one thread
 *                        never meets this quota. What a slot did not use in earlier periods it may use
 *                        in addition (a burst, Linux 5.14), so a short program has every processor.
 *
 * Fifteen pairs of processes that wake each other, on two processors, kept a process of priority -10 waiting for 8 s. With a
 * share of one processor, a program can use two for up to 100 ms. One that has used up the burst sees longer pauses,
 * which its own threads cause. A slot of a resident compiler has the same quota.
 *
 * The quotas are set when the groups are made, and never at request time.
 */
#ifndef RUNLEDGER_CGROUP_QUOTA_H
#define RUNLEDGER_CGROUP_QUOTA_H
#include <stdbool.h>
#include <stddef.h>

#include "cgroup_layout.h"

/*
 * Limits the group of all slots, an open directory. `reserve_percent` 0: no quotas at all.
 * false: the kernel offers no quotas here. `why` says why, and how to get them.
 */
bool quota_all(int directory, const struct cgroup_layout *layout, unsigned slots, unsigned reserve_percent, char *why, size_t size);
/* Limits a slot's group, an open directory. */
bool quota_slot(int directory);

#endif
