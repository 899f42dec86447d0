/*
 * One slot's control group by its open files: limits are written to them and counters are read from
 * them, in both versions. Launcher, slot and zygote use this, each with a struct group of its own.
 */
#ifndef RUNLEDGER_CGROUP_FILES_H
#define RUNLEDGER_CGROUP_FILES_H
#include <stdbool.h>
#include <stdint.h>

#include "cgroup_layout.h"
#include "wire.h"

enum { GROUP_FILES = 10, GROUP_DESCRIPTORS = HIERARCHIES + GROUP_FILES };

/* What the launcher reads from a group while a program runs in it, and afterwards. */
struct counters {
  uint64_t cpu_us, memory_bytes, memory_peak_bytes, oom_kills, process_limit_hits;
  uint64_t processes_peak; /* UINT64_MAX: this kernel does not provide it */
};

struct group {
  enum isolation kind;
  char name[16];
  int directories[HIERARCHIES]; /* v2: only the first is used */
  int leaf;                     /* v2: the run's own directory; v1: -1 */
  /* v1: open for the slot's whole life; v2: for the leaf's */
  union {
    struct {
      int cpu, memory, peak, memory_events, processes, process_events, processes_peak;
      int memory_limit, swap_limit, process_limit;
    };
    int files[GROUP_FILES];
  };
  uint64_t memory_applied, processes_applied; /* limits as last written */
  uint64_t idle_bytes, idle_own_bytes;        /* v1: memory with no run: in total, and without page cache */
};

/* Opens the group's files; v2: those of a run's leaf. */
void group_follow(struct group *group, uint32_t run);

/* `others`: tasks in the group that are not the program's. */
void group_limit(struct group *group, const struct limits *limits, unsigned others);
bool group_is_empty(struct group *group, unsigned others);

/* v1: the kernel frees some of a run's memory only after the run's end. Notes how much an idle group has. */
void group_note_idle(struct group *group);
/* v1: whether that memory is back. `accept`: put up with slow growth of the kernel's own caches. */
bool group_is_drained(struct group *group, bool accept);

uint64_t group_cpu_us(const struct group *group);
void group_reset_peak(struct group *group);
void group_read(const struct group *group, struct counters *counters);

/* All open descriptors of a group, at most GROUP_DESCRIPTORS; returns how many. */
unsigned group_descriptors(const struct group *group, int *descriptors);
void close_all(int *descriptors, unsigned count);

#endif
