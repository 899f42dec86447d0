#define _GNU_SOURCE
#include "run_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answers.h"
#include "artefacts.h"
#include "buffer.h"
#include "cgroup_files.h"
#include "failure.h"
#include "kernel_files.h"
#include "message.h"
#include "monotonic.h"
#include "poll.h"
#include "run_output.h"
#include "run_report.h"

enum {
  STREAM_INPUT_MAX = 32 * 1024 * 1024,
  /* A box that has not started its program by then is broken. A machine that swaps is only slow. */
  START_LIMIT_US = 30 * 1000 * 1000,
  /* The page cache that can be loaded from a disk in this time is what a reported peak may be wrong by. */
  NOTE_MEMORY_US = 20 * 1000,
};

static void make_pipes(struct slot *slot, int *box_side);
static void close_descriptor(int *descriptor);
static void signal_init(struct slot *slot);
static bool could_not_run(struct slot *slot);

void run_begin(struct slot *slot, uint32_t id) {
  int box_side[3];
  struct shared *shared = slot->shared;
  slot->id = id;
  slot->state = SLOT_BUSY;
  slot->answered = slot->ended = slot->killed = slot->input_closes = slot->paused = false;
  slot->ending = ENDING_NONE;
  slot->ending_us = slot->next_check_us = slot->cpu_us = 0;
  slot->input_at = 0;
  slot->box = -1;
  slot->memory_peak_bytes = slot->charged_peak_bytes = slot->memory_refused = 0;
  slot->inherited_bytes = UINT64_MAX; /* not known before the start */
  slot->seen[0] = slot->seen[1] = slot->kept[0].used = slot->kept[1].used = slot->more_input.used = 0;
  slot->dispatched_us = monotonic_us();
  shared->failure = (struct failure){0};
  shared->start_us = shared->end_us = 0;
  shared->exec_error = 0;
  shared->ended = shared->orphans = false;
  make_pipes(slot, box_side);
  if (send_message(slot->control, MESSAGE_RUN, box_side, 3)) kill(slot->pid, SIGKILL);
  for (int i = 0; i < 3; i++) close(box_side[i]);
  run_feed(slot);
  if (slot->request.stream) answer(FRAME_OPENED, id, NULL, 0, NULL, 0);
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
  }
  output_open(slot);
}

/* Writes until the pipe is full, then polls it. */
void run_feed(struct slot *slot) {
  const bool stream = slot->request.stream;
  for (;;) {
    const uint8_t *from = stream ? slot->more_input.at : slot->request.input;
    size_t length = stream ? slot->more_input.used : slot->request.input_length;
    if (slot->input < 0) return;
    if (slot->input_at == length) break;
    ssize_t count = write(slot->input, from + slot->input_at, length - slot->input_at);
    if (count < 0 && errno == EAGAIN) {
      poll_ensure(slot->input, EVENT_INPUT, slot->number, EPOLLOUT);
      return;
    }
    if (count < 0) { /* the program has closed its input */
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
  if (!output_read(slot, which)) run_end(slot, ENDING_OUTPUT);
}

void run_end(struct slot *slot, enum ending why) {
  if (slot->answered) return;
  if (!slot->ending) {
    uint64_t started = slot->shared->start_us;
    slot->ending = why;
    slot->ending_us = started ? monotonic_us() - started : 0;
  }
  signal_init(slot);
}

/*
 * init_pid is init's pid until the slot clears it, and the slot clears it before it reaps init. So if
 * init_pid is unchanged after the pidfd was opened, the pidfd is init's.
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
  bool over_limit = false;
  if (slot->state != SLOT_BUSY || slot->answered) return UINT64_MAX;
  if (slot->ending) {
    signal_init(slot); /* the order to end the run may have come before init existed */
    return slot->killed ? UINT64_MAX : now + 1000;
  }
  uint64_t next = output_look(slot, now, &over_limit);
  if (over_limit) return run_end(slot, ENDING_OUTPUT), now + 1000;
  if (!started) {
    if (now - slot->dispatched_us > START_LIMIT_US) kill(slot->pid, SIGKILL);
    return now + 2000;
  }
  uint64_t end = started + limits->wall_ms * 1000;
  if (now >= end) return run_end(slot, ENDING_WALL), now + 1000;
  if (now >= slot->next_check_us) {
    run_follow_group(slot);
    uint64_t used = slot->cpu_us = run_cpu_us(slot), most = limits->cpu_ms * 1000;
    if (used >= most) return run_end(slot, ENDING_CPU), now + 1000;
    run_note_memory(slot);
    /* Even all processors together cannot use up the rest before then. */
    uint64_t wait = (most - used) / processors();
    slot->next_check_us = now + (wait < 1000 ? 1000 : wait > NOTE_MEMORY_US ? NOTE_MEMORY_US : wait);
  }
  if (slot->next_check_us < next) next = slot->next_check_us;
  return next < end ? next : end;
}

void run_settle(struct slot *slot) {
  const struct shared *shared = slot->shared;
  struct saved saved = {0};
  if (slot->answered) return;
  if (could_not_run(slot)) return run_close(slot);
  run_follow_group(slot);
  /* Everything that the program wrote is in its pipes, and no process is left to write more. */
  if (!output_drain(slot)) run_end(slot, ENDING_OUTPUT);
  bool well = shared->ended && !slot->ending && WIFEXITED(shared->wait_status) && !WEXITSTATUS(shared->wait_status);
  if (slot->box >= 0 && well) artefacts_save(slot->box, &slot->request, &saved);
  run_report(slot, &saved);
  run_close(slot);
}

/* Answers with a fault if the launcher, and not the program, failed. */
static bool could_not_run(struct slot *slot) {
  const struct shared *shared = slot->shared;
  if (shared->failure.error && !slot->ending) {
    answer_fault(slot->id, "%s: %s", shared->failure.step, strerror(shared->failure.error));
    return true;
  }
  if (shared->exec_error && !slot->ending) {
    answer_fault(slot->id, "cannot execute %.100s: %s", slot->request.arguments[0], strerror(shared->exec_error));
    return true;
  }
  if (!shared->ended && !slot->ending) {
    answer_fault(slot->id, "init was killed");
    return true;
  }
  return false;
}

void run_close(struct slot *slot) {
  slot->answered = true;
  close_descriptor(&slot->input);
  close_descriptor(&slot->outputs[0]);
  close_descriptor(&slot->outputs[1]);
  close_descriptor(&slot->box);
  /* Large outputs are freed once they are sent. */
  for (int i = 0; i < 2; i++)
    if (slot->kept[i].size > (1 << 20)) buffer_release(&slot->kept[i]);
  if (slot->more_input.size > (1 << 20)) buffer_release(&slot->more_input);
}

static void close_descriptor(int *descriptor) {
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
}
