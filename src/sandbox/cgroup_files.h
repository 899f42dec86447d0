/*
 * One slot's control groups by their open files: limits are written to them and counters are read from
 * them, in both versions. Launcher, slot and zygote use this, each with a struct group of its own.
 *
 * A *run group* is a group that holds the program and its descendants, and nothing else: the slot and
 * init are outside. It is made for one run, so its memory limit and its memory peak are the program's
 * own, to the page. In v1 the run group exists in the memory hierarchy only, and the other counters are the
 * slot's; in v2 all counters are the run group's.
 * The peak is max_usage_in_bytes in v1, and memory.peak in v2 (Linux 5.19).
 */
#ifndef RUNLEDGER_CGROUP_FILES_H
#define RUNLEDGER_CGROUP_FILES_H
#include <stdbool.h>
#include <stdint.h>

#include "cgroup_layout.h"
#include "wire.h"

enum { RUN_NAME = 24, GROUP_FILES = 12, GROUP_DESCRIPTORS = HIERARCHIES + 1 + GROUP_FILES };

/* What the launcher reads from a group while a program runs in it, and afterwards. */
struct counters {
  uint64_t cpu_us, memory_bytes, memory_peak_bytes, oom_kills, process_limit_hits;
  uint64_t processes_peak; /* UINT64_MAX: this kernel does not provide it */
};

struct group {
  enum isolation kind;
  char name[16];
  int directories[HIERARCHIES]; /* v2: only the first is used */
  int run_group;                     /* the directory of the run's group; -1: none */
  union {
    struct {
      int slot_memory; /* the slot's: what it and its past runs use */
      /* v1: the slot's, open for its whole life; v2: the run group's */
      int cpu, processes, process_events, processes_peak, process_limit;
      /* the run group's */
      int memory, peak, memory_events, memory_limit, swap_limit;
      int entrance; /* v1: a process that writes "0" moves itself into the run group */
    };
    int files[GROUP_FILES];
  };
  uint64_t memory_applied, processes_applied; /* limits as last written */
  uint64_t reclaim_above_bytes;
};

/* A group with no open descriptor. */
void group_clear(struct group *group, enum isolation kind);
/* Opens the files of the slot's whole life. */
void group_open(struct group *group);
/* In v1 a program can read it, so it counts nothing: the newest group has the same name each time. */
void group_run_name(const struct group *group, uint32_t run, char *name);
enum use { SETS_LIMITS, READS_COUNTERS };
/* Opens a run's group. Opening takes time, so the slot opens what it writes, and the launcher what it reads. */
void group_follow(struct group *group, uint32_t run, enum use use);

/* `others`: tasks in the counted group that are not the program's. */
void group_limit(struct group *group, const struct limits *limits, unsigned others);
/* v1: between two runs the slot makes processes for the next ones, whatever the limit of the last one was. */
void group_allow_tasks(struct group *group, uint64_t least);
bool group_is_empty(struct group *group, unsigned others);

uint64_t group_cpu_us(const struct group *group);
void group_read(const struct group *group, struct counters *counters);
/* Only memory_bytes and memory_peak_bytes. */
void group_read_memory(const struct group *group, struct counters *counters);
/* How many processes of the run group the kernel killed for want of memory: in the group, above it or in the machine. */
uint64_t group_oom_kills(const struct group *group);
/* v2: the run group had as much as its limit, and the kernel could take nothing back. */
bool group_was_full(const struct group *group);
/* Page cache that is charged to the run group: the kernel drops it before it ends a program for its memory limit. */
uint64_t group_cache_bytes(const struct group *group);
/* Private pages that are charged to the run group. */
uint64_t group_anonymous_bytes(const struct group *group);
/* Where the kernel can do this (v1; v2 from Linux 6.12), memory_peak_bytes counts from now on. */
void group_reset_peak(const struct group *group);

/* All open descriptors of a group, at most GROUP_DESCRIPTORS; returns how many. */
unsigned group_descriptors(const struct group *group, int *descriptors);
void close_all(int *descriptors, unsigned count);

#endif
