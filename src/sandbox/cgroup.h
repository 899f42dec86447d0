/*
 * Control groups of both versions behind one face.
 *
 *   <own group>/runledger.<instance>/s<slot>          v1: one such directory in each hierarchy; the
 *                                                     slot lives in it for as long as it lives
 *   <own group>/runledger.<instance>/s<slot>/slot     v2: the slot itself
 *   <own group>/runledger.<instance>/s<slot>/r<run>   v2: a fresh leaf per run, made ahead, entered
 *                                                     by clone3: memory.peak starts at nothing
 *
 * An instance is claimed by flock on its directories: two launchers never share one, and what lies
 * in a directory whose lock is free was left by a launcher that died, and is swept.
 *
 * Nobody joins a group at request time: a write to cgroup.procs waits for a grace period, 12 ms on
 * an idle machine.
 */
#ifndef RUNLEDGER_CGROUP_H
#define RUNLEDGER_CGROUP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "wire.h"

enum { HIERARCHIES = 4, MAX_INSTANCES = 64, GROUP_FILES = 10 };

/* What is read from a group while a program runs in it, and after. */
struct counters {
  uint64_t cpu_us, memory_bytes, memory_peak_bytes, oom_kills, process_refusals;
  uint64_t processes_peak; /* UINT64_MAX: this kernel does not say */
};

struct group {
  char name[16];
  int directories[HIERARCHIES]; /* v2: the first alone */
  int leaf;                     /* v2: the run's own directory; v1: -1 */
  /* open for the slot's whole life (v1) or for the leaf's (v2) */
  union {
    struct {
      int cpu, memory, peak, memory_events, processes, process_events, processes_peak;
      int memory_limit, swap_limit, process_limit;
    };
    int files[GROUP_FILES];
  };
  uint64_t memory_applied, processes_applied;
  uint64_t idle_bytes, idle_own_bytes; /* v1: with nothing running; all, and without page cache */
};

/* Finds a version that can be used here; false: `why` says what is missing and what fixes it. */
bool groups_find(enum isolation wanted, char *why, size_t size);
enum isolation groups_kind(void);
const char *groups_base(void);
unsigned groups_instance(void);

/* Claims an instance, and sweeps what dead launchers left. */
bool groups_claim(char *why, size_t size);
void groups_remove(void);

/* In the launcher: one per slot. */
bool group_make(struct group *group, unsigned slot);
void group_unmake(struct group *group);
/* Kills whatever is inside; true once nothing is. */
bool group_sweep(struct group *group);
/* v2: the launcher follows the slot to its next leaf. */
void group_follow(struct group *group, uint32_t run);

/* In a zygote, which is another program: what groups_find found. */
void groups_adopt(enum isolation kind);

/* In the slot. */
void group_enter(struct group *group);
void group_prepare(struct group *group, uint32_t run);
/* `others`: tasks in the group that are not the program's. */
void group_limit(struct group *group, const struct limits *limits, unsigned others);
bool group_is_empty(struct group *group, unsigned others);
/* v1: what a run held in the kernel is given back some time after its end. */
void group_note_idle(struct group *group);
bool group_is_drained(struct group *group, bool accept);
void group_add_leaf(struct group *group, uint32_t run);
void group_retire(struct group *group, uint32_t run);
/* Every descriptor that the slot must keep; returns how many. */
unsigned group_descriptors(const struct group *group, int *descriptors);

uint64_t group_cpu_us(const struct group *group);
void group_reset_peak(struct group *group);
void group_read(const struct group *group, struct counters *counters);

/* The two versions, for cgroup.c alone. */
struct layout {
  enum isolation kind;
  unsigned hierarchies;
  char bases[HIERARCHIES][512];
};
bool v1_find(struct layout *layout, char *why, size_t size);
bool v2_find(struct layout *layout, char *why, size_t size);
bool v2_settle(const char *base);
bool v2_delegate(int directory);
void close_all(int *descriptors, unsigned count);
#endif
