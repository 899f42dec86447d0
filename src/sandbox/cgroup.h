/*
 * The control groups of one launcher: where they are, which of them are its own, and how they are
 * made and swept.
 *
 *   <own group>/runledger.<instance>/s<slot>          v1: one such directory in each hierarchy; the
 *                                                     slot and its inits stay in it all their lives
 *   <own group>/runledger.<instance>/s<slot>/slot     v2: the slot and its inits
 *   <own group>/runledger.<instance>/s<slot>/r<run>   a fresh run group for each run's program, made ahead of
 *                                                     time (v1: in the memory hierarchy only)
 *
 * A launcher claims an instance by flock on its directories, so two launchers never share one. If a
 * directory's lock is free, the launcher that made it is dead, and the next launcher sweeps it.
 *
 * Quotas of the processors are set at two levels: on runledger.<instance> for all slots together, and
 * on each s<slot> (cgroup_quota.h). Launcher, worker and all else of the service are in neither.
 *
 * Reads from the disk have no limit. For one, the launcher would have to know the block device behind each toolchain, and many
 * file systems (overlays, Btrfs, ZFS, network file systems) do not name it. With v2 it would also need a delegated io
 * controller, which an ordinary user seldom has.
 *
 * No process writes to cgroup.procs at request time, because that waits for a grace period of the
 * kernel, 12 ms on an idle machine. cgroup_run.h says how programs enter their run groups.
 */
#ifndef RUNLEDGER_CGROUP_H
#define RUNLEDGER_CGROUP_H
#include "cgroup_files.h"

enum { MAX_INSTANCES = 64 };

/* Finds a version that this machine offers. false: `why` says what is missing and how to provide it. */
bool groups_find(enum isolation wanted, char *why, size_t size);
enum isolation groups_kind(void);
const char *groups_base(void);
unsigned groups_instance(void);

/* Claims an instance, and sweeps those of dead launchers. */
bool groups_claim(char *why, size_t size);
/* Limits the processor time of all slots together and of each. false: `why` says what is missing for it. */
bool groups_limit_cpu(unsigned slots, unsigned reserve_percent, char *why, size_t size);
void groups_remove(void);

/* One group for each slot. */
bool group_make(struct group *group, unsigned slot);
void group_unmake(struct group *group);
/* Kills everything in the group. true: it is empty. */
bool group_sweep(struct group *group);

#endif
