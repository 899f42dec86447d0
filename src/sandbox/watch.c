/*
 * One run, from outside: feed it, read it, time it, end it, report it.
 *
 * A run is answered once, by the first of: init says that the program ended and left nobody behind;
 * the slot says that init is reaped (all are dead: so after a kill, after orphans, and where the
 * work directory is to be saved); the slot died, and nothing of it is left. The slot takes the next
 * run only after it said "idle", whichever came first.
 */
#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  REPORT_SIZE = 104,
  SCRATCH = 64 * 1024,
  STREAM_INPUT_MAX = 32 * 1024 * 1024,
  /* A box that did not start its program by then is broken; a machine that swaps is only slow. */
  START_LIMIT_US = 30 * 1000 * 1000,
};

static uint8_t scratch[SCRATCH];

static uint64_t above(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

static void make_pipes(struct slot *slot, int *box_side);
static void close_descriptor(int *descriptor);
static void read_stream(struct slot *slot, int which);
static bool read_kept(struct slot *slot, int which);
static void signal_init(struct slot *slot);
static void drain(struct slot *slot);
static void fill_report(struct slot *slot, const struct saved *saved, uint8_t *report);

/* In v2 each run has a leaf of its own, which the slot names before the program starts. */
static void follow_leaf(struct slot *slot) {
  uint32_t leaf = slot->shared->leaf;
  if (groups_kind() == ISOLATION_V1 || groups_kind() == ISOLATION_RLIMITS || slot->leaf == leaf) return;
  group_follow(&slot->group, leaf);
  slot->leaf = leaf;
  slot->before = (struct counters){0};
}

/* The request lies in the slot's shared frame and is parsed. */
void run_begin(struct slot *slot, uint32_t id) {
  int box_side[3];
  struct shared *shared = slot->shared;
  slot->id = id;
  slot->state = SLOT_BUSY;
  slot->answered = slot->ended = slot->killed = slot->input_closes = slot->paused = false;
  slot->ending = ENDING_NONE;
  slot->ending_us = slot->next_check_us = 0;
  slot->input_at = 0;
  slot->box = -1;
  slot->seen[0] = slot->seen[1] = slot->kept[0].used = slot->kept[1].used = slot->more_input.used = 0;
  slot->dispatched_us = clock_us();
  shared->fault = (struct fault){0};
  shared->start_us = shared->end_us = 0;
  shared->exec_error = 0;
  shared->ended = shared->orphans = false;
  make_pipes(slot, box_side);
  if (send_message(slot->control, MESSAGE_RUN, box_side, 3)) kill(slot->pid, SIGKILL);
  for (int i = 0; i < 3; i++) close(box_side[i]);
  run_feed(slot);
  if (slot->request.stream) worker_answer(FRAME_OPENED, id, NULL, 0, NULL, 0);
}

static void make_pipes(struct slot *slot, int *box_side) {
  int ends[2];
  must(pipe2(ends, O_CLOEXEC), "make a pipe");
  box_side[0] = ends[0];
  slot->input = ends[1];
  must(fcntl(slot->input, F_SETFL, O_NONBLOCK), "make a pipe non-blocking");
  for (int i = 0; i < 2; i++) {
    must(pipe2(ends, O_CLOEXEC), "make a pipe");
    box_side[i + 1] = ends[1];
    slot->outputs[i] = ends[0];
    must(fcntl(ends[0], F_SETFL, O_NONBLOCK), "make a pipe non-blocking");
    poll_add(ends[0], i ? EVENT_STDERR : EVENT_STDOUT, slot->number, EPOLLIN);
  }
}

/* Writes what the pipe takes, and comes back when it takes more. */
void run_feed(struct slot *slot) {
  const bool stream = slot->request.stream;
  for (;;) {
    const uint8_t *from = stream ? slot->more_input.at : slot->request.input;
    size_t length = stream ? slot->more_input.used : slot->request.input_length;
    if (slot->input < 0) return;
    if (slot->input_at == length) break;
    ssize_t count = write(slot->input, from + slot->input_at, length - slot->input_at);
    if (count < 0 && errno == EAGAIN) {
      struct epoll_event event = {.events = EPOLLOUT, .data.u64 = EVENT_INPUT | (uint64_t)slot->number << 8};
      epoll_ctl(launcher.poll, EPOLL_CTL_ADD, slot->input, &event);
      return;
    }
    if (count < 0) { /* nobody reads any more */
      close_descriptor(&slot->input);
      return;
    }
    slot->input_at += (uint32_t)count;
  }
  slot->more_input.used = slot->input_at = stream ? 0 : slot->input_at;
  if (!stream || slot->input_closes) close_descriptor(&slot->input);
  else poll_remove(slot->input);
}

void run_feed_more(struct slot *slot, const uint8_t *bytes, size_t count) {
  if (!slot->request.stream || slot->answered || slot->input < 0) return;
  if (!count) slot->input_closes = true;
  if (slot->more_input.used + count > STREAM_INPUT_MAX || !buffer_append(&slot->more_input, bytes, count))
    run_end(slot, ENDING_CANCELLED);
  else
    run_feed(slot);
}

void run_read(struct slot *slot, int which) {
  if (slot->outputs[which] < 0) return;
  if (slot->request.stream) read_stream(slot, which);
  else read_kept(slot, which);
}

static void read_stream(struct slot *slot, int which) {
  ssize_t count = read(slot->outputs[which], scratch, sizeof scratch);
  if (count < 0 && errno == EAGAIN) return;
  if (count <= 0) {
    close_descriptor(&slot->outputs[which]);
    return;
  }
  uint8_t head = (uint8_t)(which + 1);
  struct buffer bytes = {scratch, (size_t)count, 0};
  slot->seen[which] += (uint64_t)count;
  worker_answer(FRAME_OUTPUT, slot->id, &head, 1, &bytes, 1);
  if (worker_is_slow()) run_pause(slot, true);
}

/* A worker that does not read must not make the launcher hold what a program prints without end. */
void run_pause(struct slot *slot, bool pause) {
  if (slot->paused == pause) return;
  slot->paused = pause;
  for (int i = 0; i < 2; i++) {
    if (slot->outputs[i] < 0) continue;
    if (pause) poll_remove(slot->outputs[i]);
    else poll_add(slot->outputs[i], i ? EVENT_STDERR : EVENT_STDOUT, slot->number, EPOLLIN);
  }
}

/* One read; false when there is nothing more just now. */
static bool read_kept(struct slot *slot, int which) {
  uint64_t limit = which ? slot->request.limits.stderr_bytes : slot->request.limits.stdout_bytes;
  struct buffer *kept = &slot->kept[which];
  ssize_t count = read(slot->outputs[which], scratch, sizeof scratch);
  if (count < 0) return errno == EINTR;
  if (count == 0) {
    close_descriptor(&slot->outputs[which]);
    return false;
  }
  slot->seen[which] += (uint64_t)count;
  uint64_t room = limit - kept->used, fits = (uint64_t)count < room ? (uint64_t)count : room;
  if (!buffer_append(kept, scratch, fits)) run_end(slot, ENDING_OUTPUT);
  /* Of standard error the rest is read and dropped: a program that complains a lot is not wrong. */
  if (which == 0 && slot->seen[0] > limit) run_end(slot, ENDING_OUTPUT);
  return true;
}

void run_end(struct slot *slot, enum ending why) {
  if (slot->answered) return;
  if (!slot->ending) {
    uint64_t started = slot->shared->start_us;
    slot->ending = why;
    slot->ending_us = started ? clock_us() - started : 0;
  }
  signal_init(slot);
}

/*
 * The pid is init's as long as the slot has not zeroed it, and the slot zeroes it before it reaps.
 * So a pidfd opened before a look that still finds the pid can be no other process's.
 */
static void signal_init(struct slot *slot) {
  int pid = slot->shared->init_pid;
  if (slot->killed || pid == 0) return;
  int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
  if (descriptor < 0) return;
  if (slot->shared->init_pid == pid && !syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, NULL, 0)) slot->killed = true;
  close(descriptor);
}

uint64_t run_check(struct slot *slot, uint64_t now) {
  const struct limits *limits = &slot->request.limits;
  uint64_t started = slot->shared->start_us;
  if (slot->state != SLOT_BUSY || slot->answered) return UINT64_MAX;
  if (slot->ending) {
    signal_init(slot); /* the kill may have come before init did */
    return slot->killed ? UINT64_MAX : now + 1000;
  }
  if (!started) {
    if (now - slot->dispatched_us > START_LIMIT_US) kill(slot->pid, SIGKILL);
    return now + 2000;
  }
  uint64_t end = started + limits->wall_ms * 1000;
  if (now >= end) return run_end(slot, ENDING_WALL), now + 1000;
  if (now >= slot->next_check_us) {
    follow_leaf(slot);
    uint64_t used = above(group_cpu_us(&slot->group), slot->shared->cpu_start_us), most = limits->cpu_ms * 1000;
    if (used >= most) return run_end(slot, ENDING_CPU), now + 1000;
    /* All processors at once cannot use it up before then. */
    uint64_t wait = (most - used) / (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    slot->next_check_us = now + (wait < 1000 ? 1000 : wait);
  }
  return slot->next_check_us < end ? slot->next_check_us : end;
}

/* Answers the worker. Whatever the program wrote is in its pipes, and nobody is left to write more. */
void run_settle(struct slot *slot) {
  struct shared *shared = slot->shared;
  struct saved saved = {0};
  uint8_t report[REPORT_SIZE];
  if (slot->answered) return;
  if (shared->fault.error && !slot->ending) {
    char why[200];
    snprintf(why, sizeof why, "%s: %s", shared->fault.step, strerror(shared->fault.error));
    run_fault(slot, why);
    return;
  }
  if (shared->exec_error && !slot->ending) {
    char why[200];
    snprintf(why, sizeof why, "cannot execute %.100s: %s", slot->request.arguments[0], strerror(shared->exec_error));
    run_fault(slot, why);
    return;
  }
  struct counters now;
  follow_leaf(slot);
  group_read(&slot->group, &now);
  if (!shared->ended && !slot->ending && now.oom_kills == slot->before.oom_kills) {
    run_fault(slot, "init was killed");
    return;
  }
  drain(slot);
  bool well = shared->ended && !slot->ending && WIFEXITED(shared->wait_status) && !WEXITSTATUS(shared->wait_status);
  if (slot->box >= 0 && well) store_save(slot->box, &slot->request, &saved);
  fill_report(slot, &saved, report);
  struct buffer refusal = {(uint8_t *)saved.refusal, strlen(saved.refusal), 0};
  struct buffer parts[] = {slot->kept[0], slot->kept[1], refusal};
  worker_answer(FRAME_REPORT, slot->id, report, sizeof report, parts, 3);
  run_close(slot);
}

static void drain(struct slot *slot) {
  for (int which = 0; which < 2; which++) {
    if (slot->request.stream) {
      /* What it printed last; a worker too slow to take it has lost interest. */
      for (uint64_t before = slot->seen[which] + 1; slot->outputs[which] >= 0 && before != slot->seen[which];)
        before = slot->seen[which], read_stream(slot, which);
      continue;
    }
    while (slot->outputs[which] >= 0 && slot->kept[which].used <= FRAME_MAX && read_kept(slot, which)) {
      /* After a kill what is beyond the limit is of no interest: a full pipe at most. */
    }
  }
}

void run_fault(struct slot *slot, const char *why) {
  if (slot->answered) return;
  worker_fault(slot->id, "%s", why);
  run_close(slot);
}

void run_close(struct slot *slot) {
  slot->answered = true;
  close_descriptor(&slot->input);
  close_descriptor(&slot->outputs[0]);
  close_descriptor(&slot->outputs[1]);
  close_descriptor(&slot->box);
  /* Large outputs do not stay in memory once they are told. */
  for (int i = 0; i < 2; i++)
    if (slot->kept[i].size > (1 << 20)) buffer_release(&slot->kept[i]);
  if (slot->more_input.size > (1 << 20)) buffer_release(&slot->more_input);
}

static void close_descriptor(int *descriptor) {
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
}

static void fill_report(struct slot *slot, const struct saved *saved, uint8_t *report) {
  struct shared *shared = slot->shared;
  struct counters now;
  group_read(&slot->group, &now);
  if (groups_kind() == ISOLATION_RLIMITS) now.memory_peak_bytes = shared->largest_bytes, shared->memory_start_bytes = 0;
  bool whole = shared->ended && !shared->orphans;
  uint64_t cpu = shared->start_us ? above(whole ? shared->cpu_end_us : now.cpu_us, shared->cpu_start_us) : 0;
  uint64_t end = shared->ended ? shared->end_us : shared->start_us + slot->ending_us;
  int status = shared->wait_status;
  bool exited = shared->ended && WIFEXITED(status), signaled = shared->ended && WIFSIGNALED(status);
  /* An ordinary user cannot keep init from the kernel's choice: that, too, was for the memory limit. */
  if (!shared->ended && !slot->ending) signaled = true, status = SIGKILL;
  memset(report, 0, REPORT_SIZE);
  report[0] = exited ? 1 : signaled ? 2 : 0;
  report[1] = (uint8_t)slot->ending;
  report[2] = saved->done ? 1 : *saved->refusal ? 2 : 0;
  put_u32(report + 4, exited ? (uint32_t)WEXITSTATUS(status) : 0);
  put_u32(report + 8, signaled ? (uint32_t)WTERMSIG(status) : 0);
  put_u32(report + 12, saved->files);
  const uint64_t numbers[] = {
      slot->ending_us, cpu, above(end, shared->start_us), above(now.memory_peak_bytes, shared->memory_start_bytes) + shared->inherited_bytes,
      above(now.oom_kills, slot->before.oom_kills), now.processes_peak, above(now.process_refusals, slot->before.process_refusals),
      slot->seen[0], slot->seen[1], saved->bytes,
  };
  for (unsigned i = 0; i < COUNT(numbers); i++) put_u64(report + 16 + 8 * (size_t)i, numbers[i]);
  put_u32(report + 96, (uint32_t)slot->kept[0].used);
  put_u32(report + 100, (uint32_t)slot->kept[1].used);
  slot->before = now;
}

void run_meter(struct slot *slot) {
  struct counters now;
  uint8_t answer[24];
  follow_leaf(slot);
  group_read(&slot->group, &now);
  put_u64(answer, slot->shared->start_us ? above(now.cpu_us, slot->shared->cpu_start_us) : 0);
  put_u64(answer + 8, above(now.memory_bytes, slot->shared->memory_start_bytes) + slot->shared->inherited_bytes);
  put_u64(answer + 16, above(now.memory_peak_bytes, slot->shared->memory_start_bytes) + slot->shared->inherited_bytes);
  worker_answer(FRAME_METERED, slot->id, answer, sizeof answer, NULL, 0);
}
