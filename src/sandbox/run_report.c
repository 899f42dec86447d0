/*
 * What the reported peak of the memory is, and why it is not exact.
 *
 * The kernel charges in advance, in portions of up to 256 KiB for each processor. So a peak can be too high, by as much for
 * each processor on which the program ran. At the limit the kernel takes back the unused part before it kills. But each
 * processor has to return its part itself, and the kernel does not wait long for that. So on a busy machine a program can
 * be killed below its limit, by as much for each other processor on which it ran.
 *
 * Page cache is in the kernel's peak and is subtracted (note_memory). Peak and cache are read every 20 ms and at the end.
 * If the cache grows between two readings, after memory has reached its peak, too much is subtracted: at most what a disk
 * delivers in 20 ms.
 *
 * What an ended process or thread used in the kernel (about 20 KiB) stays charged until every processor has passed a grace
 * period (RCU): some milliseconds, and longer on a busy machine. In one measurement 20,000 children, one at a time, peaked at
 * 26 MiB, and 20,000 threads at 10 MiB; 30 ms after the end 60 KiB were left. Nothing can make a program at its limit wait
 * until the kernel has freed this memory: v1 has no means, and memory.high of v2 would slow down every program that uses
 * most of its limit.
 *
 * Files that come with the submission are written by init, which is outside the run group. To charge them, the program's
 * process would have to write them, in every run.
 */
#define _GNU_SOURCE
#include "run_report.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "answers.h"
#include "array.h"
#include "cgroup_files.h"
#include "failure.h"
#include "kernel_files.h"
#include "message.h"
#include "monotonic.h"
#include "wire.h"

enum { REPORT_SIZE = 128 };

/* A run group with no more than this in use at the end had no page cache worth a look. */
static const uint64_t LITTLE_BYTES = 512 << 10;
/* A forked run that is younger has copied little. Most are over by then, and the estimate costs 50 us. */
enum { YOUNG_US = 5000 };
/* So much less than its limit a full run group can show as its peak, for each processor: they charge it side by side. */
static const uint64_t CHARGE_BYTES = 256 << 10;

static void add_inherited(struct slot *slot, uint64_t own_bytes);
static void note_peak(struct slot *slot);
static bool fill_report(struct slot *slot, const struct saved *saved, uint8_t *report);
static bool was_full(const struct slot *slot);
static uint64_t dropped_bytes(const struct slot *slot);
static size_t end_bytes(const struct slot *slot);

/* v1's counters go on from run to run, so a run's share is a difference. */
static uint64_t above(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

void run_follow_group(struct slot *slot) {
  uint32_t run_group = slot->shared->run_group;
  enum isolation kind = slot->group.kind;
  if (kind == ISOLATION_V1 || kind == ISOLATION_RLIMITS || slot->run_group == run_group) return;
  group_follow(&slot->group, run_group, READS_COUNTERS);
  slot->run_group = run_group;
  slot->before = (struct counters){0};
}

/* v1: the slot's work for a pair would be charged to the side that the partner floods. */
static uint64_t program_cpu_us(const struct slot *slot, uint64_t group_us) {
  const uint64_t served_us = slot->group.kind == ISOLATION_V1 ? slot->shared->served_us : 0;
  return above(group_us, slot->shared->cpu_start_us + served_us);
}

uint64_t run_cpu_us(const struct slot *slot) { return program_cpu_us(slot, group_cpu_us(&slot->group)); }

/*
 * The run group's peak contains page cache that the program was the first to load, as from a library on disk. That is no memory
 * of the program's: the kernel drops it at the limit, and the next run that reads the file gets it for nothing. The kernel
 * has no peak without it. So peak and cache are read together, often enough that little can change in between, and the
 * peak starts again where there was cache.
 */
static void note_memory(struct slot *slot, uint64_t now_bytes, uint64_t peak_bytes) {
  if (peak_bytes > slot->kernel_peak_bytes) slot->kernel_peak_bytes = peak_bytes;
  if (peak_bytes <= slot->charged_peak_bytes) return;
  uint64_t cache = now_bytes <= LITTLE_BYTES ? 0 : group_cache_bytes(&slot->group);
  uint64_t own = above(peak_bytes, cache);
  if (own > slot->charged_peak_bytes) slot->charged_peak_bytes = own;
  add_inherited(slot, own);
  if (!cache) return;
  /* It may have grown since it was read, and then starts again. */
  struct counters latest;
  group_read_memory(&slot->group, &latest);
  if (latest.memory_peak_bytes > slot->kernel_peak_bytes) slot->kernel_peak_bytes = latest.memory_peak_bytes;
  group_reset_peak(&slot->group);
}

/* The estimate touches the program's process, so the slot makes it (inherited.c). Most runs end without one. */
static void add_inherited(struct slot *slot, uint64_t own_bytes) {
  const struct shared *shared = slot->shared;
  if (slot->inherited_bytes > shared->inherited_bytes) slot->inherited_bytes = shared->inherited_bytes;
  const bool old = slot->inherited_bytes && !shared->ended && monotonic_us() >= shared->start_us + YOUNG_US;
  if (own_bytes > slot->awaiting_bytes) slot->awaiting_bytes = own_bytes;
  if (slot->estimates && old) return;
  slot->estimates = old && !send_message(slot->control, MESSAGE_ESTIMATE, NULL, 0);
  if (!slot->estimates) note_peak(slot);
}

static void note_peak(struct slot *slot) {
  uint64_t peak = slot->awaiting_bytes + slot->inherited_bytes;
  if (slot->awaiting_bytes && peak > slot->memory_peak_bytes) slot->memory_peak_bytes = peak;
  slot->awaiting_bytes = 0;
}

void run_note_estimate(struct slot *slot) {
  if (!slot->estimates) return;
  slot->estimates = false;
  if (slot->shared->inherited_left < slot->inherited_bytes) slot->inherited_bytes = slot->shared->inherited_left;
  note_peak(slot);
}

uint64_t run_oom_kills(const struct slot *slot) { return above(group_oom_kills(&slot->group), slot->before.oom_kills); }

void run_note_memory(struct slot *slot) {
  struct counters now;
  group_read_memory(&slot->group, &now);
  note_memory(slot, now.memory_bytes, now.memory_peak_bytes);
}

void run_meter(struct slot *slot) {
  const struct shared *shared = slot->shared;
  struct counters now;
  uint8_t usage[24];
  run_follow_group(slot);
  group_read(&slot->group, &now);
  put_u64(usage, shared->start_us ? above(now.cpu_us, shared->cpu_start_us) : 0);
  note_memory(slot, now.memory_bytes, now.memory_peak_bytes);
  put_u64(usage + 8, now.memory_bytes);
  put_u64(usage + 16, slot->memory_peak_bytes);
  answer(FRAME_METERED, slot->id, usage, sizeof usage, NULL, 0);
}

void run_peek(const struct slot *slot, uint32_t id, const uint8_t *numbers) {
  struct buffer found[2] = {0};
  uint64_t most = get_u32(numbers + 16);
  for (int i = 0; i < 2 && slot; i++) {
    const uint64_t from = get_u64(numbers + 8 * (size_t)i), kept = slot->shared->kept[i];
    const uint64_t count = above(kept, from) < most ? above(kept, from) : most;
    if (count) found[i] = (struct buffer){(uint8_t *)slot->output + (size_t)i * OUTPUT_MAX + from, count, 0};
    most -= count;
  }
  uint8_t head[4];
  put_u32(head, (uint32_t)found[0].used);
  answer(FRAME_PEEKED, id, head, sizeof head, found, COUNT(found));
}

/* Of standard error, beyond its limit. An open box keeps nothing. */
static uint64_t dropped_bytes(const struct slot *slot) {
  return slot->request.stream ? 0 : slot->shared->seen[1] - slot->shared->kept[1];
}

static size_t end_bytes(const struct slot *slot) {
  const uint64_t dropped = dropped_bytes(slot);
  return dropped < END_MAX ? dropped : END_MAX;
}

void run_report(struct slot *slot, const struct saved *saved) {
  uint8_t report[REPORT_SIZE] = {0};
  /* Nobody judges an open box, and what it used is charged. */
  if (!fill_report(slot, saved, report) && !slot->request.stream)
    return answer_fault(slot->id, "the machine was out of memory: the kernel killed a program that was below its limit");
  struct buffer reason = {(uint8_t *)saved->reason, strlen(saved->reason), 0};
  const _Atomic uint64_t *kept = slot->shared->kept;
  uint8_t *output = (uint8_t *)slot->output, *left = output + LEFT_REGION * (size_t)OUTPUT_MAX;
  uint8_t *ring = output + END_REGION * (size_t)OUTPUT_MAX;
  const size_t end = end_bytes(slot), oldest = end < END_MAX ? 0 : dropped_bytes(slot) % END_MAX;
  struct buffer rest[] = {
      {output, kept[0], 0},
      {output + OUTPUT_MAX, kept[1], 0},
      {ring + oldest, end - oldest, 0},
      {ring, oldest, 0},
      {left, slot->shared->left, 0},
      reason,
  };
  answer(FRAME_REPORT, slot->id, report, sizeof report, rest, COUNT(rest));
}

/*
 * When the run ended, by the clock, for its partner's run to be compared with. Init knows the end of the process later than
 * the partner can notice it, so the end of the output counts where the two are one (partner.h).
 */
static uint64_t end_in_pair_us(const struct slot *slot) {
  const struct shared *shared = slot->shared;
  uint64_t end = shared->ended ? shared->end_us : monotonic_us();
  if (slot->ending && shared->start_us && shared->start_us + slot->ending_us < end) end = shared->start_us + slot->ending_us;
  return shared->output_end_us && shared->output_end_us < end ? shared->output_end_us : end;
}

/*
 * The kernel counts a process as killed for memory also where the machine was full, or a group around the run group. A
 * neighbour can cause that.
 */
static bool was_full(const struct slot *slot) {
  if (slot->group.kind != ISOLATION_V1) return group_was_full(&slot->group);
  const uint64_t limit = slot->request.limits.memory_bytes, charged = processors() * CHARGE_BYTES;
  return slot->kernel_peak_bytes + (charged < limit / 4 ? charged : limit / 4) >= limit;
}

/* false: it says nothing about the program, because a process of it was killed while its group was not full. */
static bool fill_report(struct slot *slot, const struct saved *saved, uint8_t *report) {
  struct shared *shared = slot->shared;
  struct counters now;
  group_read(&slot->group, &now);
  if (slot->group.kind == ISOLATION_RLIMITS) slot->memory_peak_bytes = shared->largest_bytes;
  else note_memory(slot, now.memory_bytes, now.memory_peak_bytes);
  note_peak(slot); /* the run may have ended before the slot had made its estimate */
  const uint64_t oom_kills = above(now.oom_kills, slot->before.oom_kills);
  /* Whichever of its processes the kernel killed, and whether the launcher had to end the others: it is one ending. */
  const bool ran_out = oom_kills && (!slot->ending || slot->ending == ENDING_MEMORY);
  /* It was killed at its limit, in which shared pages do not count. */
  if (oom_kills && slot->inherited_bytes) slot->memory_peak_bytes = slot->charged_peak_bytes;
  bool whole = shared->ended && !shared->orphans;
  uint64_t cpu = shared->start_us ? program_cpu_us(slot, whole ? shared->cpu_end_us : now.cpu_us) : 0;
  /* A killed run uses CPU time until its last process is dead. So its wall time ends there, too. */
  uint64_t end = whole || (shared->ended && !slot->ending) ? shared->end_us : monotonic_us();
  uint64_t wall = above(end, shared->start_us);
  if (shared->start_us && wall < cpu / processors()) wall = cpu / processors(); /* orphans, until they were dead */
  int status = shared->wait_status;
  bool exited = shared->ended && WIFEXITED(status), signaled = shared->ended && WIFSIGNALED(status);
  report[0] = ran_out ? 2 : exited ? 1 : signaled ? 2 : 0;
  report[1] = ran_out ? ENDING_NONE : (uint8_t)slot->ending;
  report[2] = saved->done ? 1 : saved->full ? 4 : saved->broken ? 3 : *saved->reason ? 2 : 0;
  report[3] = slot->request.has_keep ? 1 : 0;
  put_u32(report + 4, exited ? (uint32_t)WEXITSTATUS(status) : 0);
  put_u32(report + 8, ran_out ? SIGKILL : signaled ? (uint32_t)WTERMSIG(status) : 0);
  put_u32(report + 12, saved->files);
  const uint64_t numbers[] = {
      slot->ending_us,
      cpu,
      wall,
      slot->memory_peak_bytes,
      oom_kills,
      now.processes_peak,
      above(now.process_limit_hits, slot->before.process_limit_hits),
      shared->seen[0],
      shared->seen[1],
      saved->bytes,
      shared->memory_refused,
      end_in_pair_us(slot),
  };
  for (unsigned i = 0; i < COUNT(numbers); i++) put_u64(report + 16 + 8 * (size_t)i, numbers[i]);
  put_u32(report + 112, (uint32_t)shared->kept[0]);
  put_u32(report + 116, (uint32_t)shared->kept[1]);
  put_u32(report + 120, (uint32_t)shared->left);
  put_u32(report + 124, (uint32_t)end_bytes(slot));
  slot->before = now;
  return !oom_kills || was_full(slot);
}
