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
  const char *memory, *peak, *memory_events, *memory_limit, *swap_limit;
};
static const struct names V1 = {
    "cpuacct.usage", NULL, 1000, "memory.usage_in_bytes", "memory.max_usage_in_bytes",
    "memory.oom_control", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"};
static const struct names V2 = {"cpu.stat",    "usage_usec",    1,            "memory.current",
                                "memory.peak", "memory.events", "memory.max", "memory.swap.max"};

static const struct names *names(const struct group *group) { return group->kind == ISOLATION_V1 ? &V1 : &V2; }

/* v1 has a hierarchy for each of memory, cpuacct and pids; v2 has one leaf for all of them. */
void group_follow(struct group *group, uint32_t run) {
  int memory = group->directories[0], cpu = group->directories[1], pids = group->directories[2];
  bool v1 = group->kind == ISOLATION_V1;
  close_all(group->files, GROUP_FILES);
  if (!v1) {
    char name[24];
    snprintf(name, sizeof name, "r%u", run);
    if (group->leaf >= 0) close(group->leaf);
    group->leaf = openat(group->directories[0], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memory = cpu = pids = group->leaf;
  }
  group->cpu = openat(cpu, names(group)->cpu, O_RDONLY | O_CLOEXEC);
  group->memory = openat(memory, names(group)->memory, O_RDONLY | O_CLOEXEC);
  group->peak = openat(memory, names(group)->peak, (v1 ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  group->memory_events = openat(memory, names(group)->memory_events, O_RDONLY | O_CLOEXEC);
  group->processes = openat(pids, "pids.current", O_RDONLY | O_CLOEXEC);
  group->process_events = openat(pids, "pids.events", O_RDONLY | O_CLOEXEC);
  group->processes_peak = openat(pids, "pids.peak", O_RDONLY | O_CLOEXEC);
  group->memory_limit = openat(memory, names(group)->memory_limit, O_WRONLY | O_CLOEXEC);
  group->swap_limit = openat(memory, names(group)->swap_limit, O_WRONLY | O_CLOEXEC);
  group->process_limit = openat(pids, "pids.max", O_WRONLY | O_CLOEXEC);
  group->memory_applied = group->processes_applied = 0;
}

/* Memory of slot and init themselves: kernel stacks, page tables, mounts. */
static const uint64_t OWN_MEMORY = 2 << 20;

void group_limit(struct group *group, const struct limits *limits, unsigned others) {
  bool v1 = group->kind == ISOLATION_V1;
  uint64_t idle = (group->idle_own_bytes + (1 << 20)) & ~(uint64_t)0xfffff; /* v1: a warm interpreter */
  uint64_t memory = limits->memory_bytes + OWN_MEMORY + idle;
  uint64_t processes = limits->processes + others;
  if (memory != group->memory_applied) {
    /* The kernel never allows memory+swap below memory. So one is written first to raise, the other to lower. */
    bool lower = memory < group->memory_applied;
    if (v1 && !lower && group->swap_limit >= 0) write_number(group->swap_limit, memory);
    if (!write_number(group->memory_limit, memory) && !v1) fail("set the memory limit");
    if (v1 && group->swap_limit >= 0) write_number(group->swap_limit, memory);
    if (v1 && !write_number(group->memory_limit, memory)) fail("set the memory limit");
    group->memory_applied = memory;
  }
  if (processes != group->processes_applied) {
    if (!write_number(group->process_limit, processes)) fail("set the process limit");
    group->processes_applied = processes;
  }
}

/* pids.current decreases only when a task is completely gone, so this is never true too early. */
bool group_is_empty(struct group *group, unsigned others) {
  return read_counter(group->processes, NULL) <= others;
}

static uint64_t page_cache(const struct group *group) {
  int file = openat(group->directories[0], "memory.stat", O_RDONLY | O_CLOEXEC);
  char text[4096];
  uint64_t sum = 0;
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  for (char *line = text; line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (!strncmp(line, "inactive_file ", 14)) sum += strtoull(line + 14, NULL, 10);
    if (!strncmp(line, "active_file ", 12)) sum += strtoull(line + 12, NULL, 10);
  }
  return sum;
}

void group_note_idle(struct group *group) {
  if (group->kind != ISOLATION_V1) return;
  uint64_t files = page_cache(group);
  group->idle_bytes = read_counter(group->memory, NULL);
  group->idle_own_bytes = group->idle_bytes > files ? group->idle_bytes - files : 0;
}

/*
 * A kernel thread tears an ipc namespace down after a grace period. Until then its segments and
 * messages are charged to the group, and the next run could be killed for memory of the last one. The
 * kernel's name caches also grow, slowly; they are reclaimed under pressure, so growth is acceptable.
 */
static const uint64_t DRAINED = 2 << 20, ACCEPTED = 32 << 20;

bool group_is_drained(struct group *group, bool accept) {
  if (group->kind != ISOLATION_V1) return true;
  uint64_t now = read_counter(group->memory, NULL);
  if (now <= group->idle_bytes + DRAINED / 2) return true;
  uint64_t files = page_cache(group), own = now > files ? now - files : 0;
  if (own > group->idle_own_bytes + (accept ? ACCEPTED : DRAINED)) return false;
  group->idle_bytes = now;
  if (accept) group->idle_own_bytes = own;
  return true;
}

uint64_t group_cpu_us(const struct group *group) {
  return read_counter(group->cpu, names(group)->cpu_line) / names(group)->cpu_divisor;
}

void group_reset_peak(struct group *group) {
  if (group->kind == ISOLATION_V1) write_number(group->peak, 0);
}

void group_read(const struct group *group, struct counters *counters) {
  counters->cpu_us = group_cpu_us(group);
  counters->memory_bytes = read_counter(group->memory, NULL);
  counters->memory_peak_bytes = read_counter(group->peak, NULL);
  counters->oom_kills = read_counter(group->memory_events, "oom_kill");
  counters->process_limit_hits = read_counter(group->process_events, "max");
  /* v1 cannot reset it: there it would be the peak over all runs of this slot. Of a leaf's tasks, one is init. */
  bool known = group->kind != ISOLATION_V1 && group->processes_peak >= 0;
  counters->processes_peak = known ? read_counter(group->processes_peak, NULL) - 1 : UINT64_MAX;
}

unsigned group_descriptors(const struct group *group, int *descriptors) {
  unsigned count = 0;
  for (unsigned h = 0; h < HIERARCHIES; h++)
    if (group->directories[h] >= 0) descriptors[count++] = group->directories[h];
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
