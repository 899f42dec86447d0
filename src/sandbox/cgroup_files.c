#define _GNU_SOURCE
#include "cgroup_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failure.h"
#include "kernel_files.h"

/* The two versions' names for the same files. */
struct names {
  const char *cpu, *cpu_line; /* the file, and the line in it */
  uint64_t cpu_divisor; /* to microseconds */
  const char *memory, *peak, *memory_events, *memory_limit, *swap_limit, *cache_line, *anonymous_line;
};
static const struct names V1 = {
    "cpuacct.usage", NULL, 1000, "memory.usage_in_bytes", "memory.max_usage_in_bytes",
    "memory.oom_control", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "cache", "rss"};
/* v2's swap limit is set once, when the run group is made. */
static const struct names V2 = {"cpu.stat",      "usage_usec", 1,    "memory.current", "memory.peak",
                                "memory.events", "memory.max", NULL, "file", "anon"};

/*
 * What the kernel charges for even the smallest program: page tables and the like, 64 KiB and more. It is not the
 * program's, so it is left out of limit and peak. A program that is a page over its limit stays over it, because no
 * program has less. (In v2 the filter is installed inside the run group, and counts: some tens of KiB.)
 */
static const uint64_t KERNEL_BYTES = 48 << 10;

/* Positions in group.files: of the counters that v1 has for the slot, and of the run group's. */
enum { COUNTED = 1, OF_RUN = 6 };

static const struct names *names(const struct group *group) { return group->kind == ISOLATION_V1 ? &V1 : &V2; }

static void open_counted(struct group *group, int cpu, int processes);
static void limit_memory(struct group *group, uint64_t bytes);

void group_clear(struct group *group, enum isolation kind) {
  *group = (struct group){.kind = kind, .run_group = -1};
  memset(group->directories, -1, sizeof group->directories);
  memset(group->files, -1, sizeof group->files);
}

void group_open(struct group *group) {
  group->slot_memory = openat(group->directories[0], names(group)->memory, O_RDONLY | O_CLOEXEC);
  if (group->kind == ISOLATION_V1) open_counted(group, group->directories[1], group->directories[2]);
}

void group_run_name(const struct group *group, uint32_t run, char *name) {
  if (group->kind == ISOLATION_V1) snprintf(name, RUN_NAME, "run");
  else snprintf(name, RUN_NAME, "r%u", run);
}

void group_follow(struct group *group, uint32_t run, enum use use) {
  char name[RUN_NAME];
  group_run_name(group, run, name);
  unsigned first = group->kind == ISOLATION_V1 ? OF_RUN : COUNTED;
  close_all(group->files + first, GROUP_FILES - first);
  if (group->run_group >= 0) close(group->run_group);
  int run_group = group->run_group = openat(group->directories[0], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (group->kind != ISOLATION_V1) open_counted(group, run_group, run_group);
  group->memory = openat(run_group, names(group)->memory, O_RDONLY | O_CLOEXEC);
  if (use == READS_COUNTERS) {
    group->peak = openat(run_group, names(group)->peak, O_RDWR | O_CLOEXEC);
    if (group->peak < 0) group->peak = openat(run_group, names(group)->peak, O_RDONLY | O_CLOEXEC);
    group->memory_events = openat(run_group, names(group)->memory_events, O_RDONLY | O_CLOEXEC);
    return;
  }
  group->memory_limit = openat(run_group, names(group)->memory_limit, O_WRONLY | O_CLOEXEC);
  if (group->kind == ISOLATION_V1) {
    group->swap_limit = openat(run_group, names(group)->swap_limit, O_WRONLY | O_CLOEXEC);
    group->entrance = openat(run_group, "tasks", O_WRONLY | O_CLOEXEC);
  }
  /* Most runs have the limit of the run before, so it is set while there is time. */
  uint64_t last = group->memory_applied;
  group->memory_applied = 0;
  if (last) limit_memory(group, last);
}

static void open_counted(struct group *group, int cpu, int processes) {
  group->cpu = openat(cpu, names(group)->cpu, O_RDONLY | O_CLOEXEC);
  group->processes = openat(processes, "pids.current", O_RDONLY | O_CLOEXEC);
  group->process_events = openat(processes, "pids.events", O_RDONLY | O_CLOEXEC);
  group->processes_peak = openat(processes, "pids.peak", O_RDONLY | O_CLOEXEC);
  group->process_limit = openat(processes, "pids.max", O_WRONLY | O_CLOEXEC);
  group->processes_applied = 0;
}

void group_limit(struct group *group, const struct limits *limits, unsigned others) {
  uint64_t processes = limits->processes + others;
  limit_memory(group, limits->memory_bytes);
  if (processes == group->processes_applied) return;
  if (!write_number(group->process_limit, processes)) fail("set the process limit");
  group->processes_applied = processes;
}

void group_allow_tasks(struct group *group, uint64_t least) {
  if (group->kind != ISOLATION_V1 || !group->processes_applied || group->processes_applied >= least) return;
  if (!write_number(group->process_limit, least)) fail("raise the process limit");
  group->processes_applied = least;
}

static void limit_memory(struct group *group, uint64_t bytes) {
  if (bytes == group->memory_applied) return;
  uint64_t charged = bytes + KERNEL_BYTES;
  bool v1 = group->kind == ISOLATION_V1 && group->swap_limit >= 0;
  /* v1 never allows memory+swap below memory. So one is written first to raise, the other to lower. */
  bool raise = group->memory_applied && bytes > group->memory_applied;
  if (v1 && raise) write_number(group->swap_limit, charged);
  if (!write_number(group->memory_limit, charged)) fail("set the memory limit");
  if (v1 && !raise) write_number(group->swap_limit, charged);
  group->memory_applied = bytes;
}

/* pids.current decreases only when a task is completely gone, so this is never true too early. */
bool group_is_empty(struct group *group, unsigned others) {
  return read_counter(group->processes, NULL) <= others;
}

uint64_t group_cache_bytes(const struct group *group) {
  int file = openat(group->run_group, "memory.stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  uint64_t cache = read_counter(file, names(group)->cache_line), shared = read_counter(file, "shmem");
  close(file);
  /* Shared memory and files on a tmpfs are counted as cache too, but the kernel cannot drop them. */
  return cache > shared ? cache - shared : 0;
}

uint64_t group_anonymous_bytes(const struct group *group) {
  int file = openat(group->run_group, "memory.stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  uint64_t bytes = read_counter(file, names(group)->anonymous_line);
  close(file);
  return bytes;
}

uint64_t group_cpu_us(const struct group *group) {
  return read_counter(group->cpu, names(group)->cpu_line) / names(group)->cpu_divisor;
}

void group_reset_peak(const struct group *group) { write_number(group->peak, 0); }

void group_read_memory(const struct group *group, struct counters *counters) {
  uint64_t peak = read_counter(group->peak, NULL);
  counters->memory_bytes = read_counter(group->memory, NULL);
  counters->memory_peak_bytes = peak > KERNEL_BYTES ? peak - KERNEL_BYTES : peak;
}

uint64_t group_oom_kills(const struct group *group) { return read_counter(group->memory_events, "oom_kill"); }
bool group_was_full(const struct group *group) { return read_counter(group->memory_events, "oom") > 0; }

void group_read(const struct group *group, struct counters *counters) {
  group_read_memory(group, counters);
  counters->cpu_us = group_cpu_us(group);
  counters->oom_kills = group_oom_kills(group);
  counters->process_limit_hits = read_counter(group->process_events, "max");
  /* v1 cannot reset it: there it would be the peak over all runs of this slot. */
  bool known = group->kind != ISOLATION_V1 && group->processes_peak >= 0;
  counters->processes_peak = known ? read_counter(group->processes_peak, NULL) : UINT64_MAX;
}

unsigned group_descriptors(const struct group *group, int *descriptors) {
  unsigned count = 0;
  for (unsigned h = 0; h < HIERARCHIES; h++)
    if (group->directories[h] >= 0) descriptors[count++] = group->directories[h];
  if (group->run_group >= 0) descriptors[count++] = group->run_group;
  for (unsigned i = 0; i < GROUP_FILES; i++)
    if (group->files[i] >= 0) descriptors[count++] = group->files[i];
  return count;
}

void close_all(int *descriptors, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    if (descriptors[i] >= 0) close(descriptors[i]);
    descriptors[i] = -1;
  }
}
