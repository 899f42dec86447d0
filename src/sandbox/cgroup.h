/*
 * The control groups of one launcher: where they are, which of them are its own, and how they are
 * made and swept.
 *
 *   <own group>/runledger.<instance>/s<slot>          v1: one such directory in each hierarchy; the
 *                                                     slot stays in it all its life
 *   <own group>/runledger.<instance>/s<slot>/slot     v2: the slot itself
 *   <own group>/runledger.<instance>/s<slot>/r<run>   v2: a fresh leaf for each run, made ahead of
 *                                                     time and entered by clone3
 *
 * A launcher claims an instance by flock on its directories, so two launchers never share one. If a
 * directory's lock is free, the launcher that made it is dead, and the next launcher sweeps it.
 *
 * No process joins a group at request time: a write to cgroup.procs waits for a grace period of the
 * kernel, 12 ms on an idle machine.
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
void groups_remove(void);

/* One group for each slot. */
bool group_make(struct group *group, unsigned slot);
void group_unmake(struct group *group);
/* Kills everything in the group. true: it is empty. */
bool group_sweep(struct group *group);

#endif
