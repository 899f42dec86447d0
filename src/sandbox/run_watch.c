#define _GNU_SOURCE
#include "run_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answers.h"
#include "array.h"
#include "buffer.h"
#include "cgroup_files.h"
#include "failure.h"
#include "kernel_files.h"
#include "message.h"
#include "monotonic.h"
#include "poll.h"
#include "run_output.h"
#include "run_report.h"
#include "saving.h"

enum {
  STREAM_INPUT_MAX = 32 * 1024 * 1024,
  /* A box that has not started its program by then is broken. A machine that swaps is only slow. */
  START_LIMIT_US = 30 * 1000 * 1000,
  /* The page cache that can be loaded from a disk in this time is what a reported peak may be wrong by. */
  NOTE_MEMORY_US = 20 * 1000,
  /* Between two looks at the CPU time of a program that is near its limit and uses CPU time. */
  OFTEN_US = 1000,
  /* The same for a program that rests. */
  SELDOM_US = 5000,
  /* The time in which a program uses much or rests. Longer than two ticks at 100 Hz, because a counter may rise only then. */
  WINDOW_US = 25 * 1000,
};

static void begin(struct slot *slot, uint32_t id, const int *slot_side, unsigned sockets);
static void make_sockets(struct slot *slot, int *slot_side);
static void close_descriptor(int *descriptor);
static void signal_init(struct slot *slot);
static bool settle(struct slot *slot, int box);
static bool could_not_run(struct slot *slot);

void run_begin(struct slot *slot, uint32_t id) {
  int slot_side[3] = {-1, -1, -1};
  const unsigned sockets = slot->request.stream ? 3 : 0;
  if (sockets) make_sockets(slot, slot_side);
  begin(slot, id, slot_side, sockets);
  for (unsigned i = 0; i < sockets; i++) close(slot_side[i]);
  if (sockets) answer(FRAME_OPENED, id, NULL, 0, NULL, 0);
}

/* What one slot writes to, the other one reads from. The launcher keeps no end. */
void run_begin_pair(struct slot *const pair[2], const uint32_t ids[2]) {
  enum { READ, WRITE };
  int links[2][2];
  for (int i = 0; i < 2; i++)
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, links[i]), "make a socket of a pair");
  for (int i = 0; i < 2; i++) {
    const int slot_side[] = {links[1 - i][READ], links[i][WRITE]};
    begin(pair[i], ids[i], slot_side, COUNT(slot_side));
  }
  for (int i = 0; i < 2; i++) close(links[i][READ]), close(links[i][WRITE]);
}

/* Even a program that starts at once can be over none of its limits before then. Most programs have ended by then. */
static uint64_t first_check_us(const struct slot *slot) {
  const struct limits *limits = &slot->request.limits;
  uint64_t wait = limits->cpu_ms * 1000 / processors();
  if (wait > limits->wall_ms * 1000) wait = limits->wall_ms * 1000;
  return slot->dispatched_us + (wait > NOTE_MEMORY_US ? NOTE_MEMORY_US : wait);
}

static void begin(struct slot *slot, uint32_t id, const int *slot_side, unsigned sockets) {
  struct shared *shared = slot->shared;
  slot->id = id;
  slot->state = SLOT_BUSY;
  slot->answered = slot->killed = slot->input_closes = slot->paused = false;
  slot->ending = ENDING_NONE;
  slot->ending_us = slot->window_cpu_us = 0;
  slot->resting = false;
  slot->input_at = 0;
  slot->memory_peak_bytes = slot->charged_peak_bytes = slot->kernel_peak_bytes = slot->awaiting_bytes = 0;
  slot->estimates = false;
  slot->inherited_bytes = UINT64_MAX; /* not known before the start */
  slot->more_input.used = 0;
  slot->dispatched_us = slot->window_us = monotonic_us();
  slot->next_check_us = first_check_us(slot);
  shared->failure = (struct failure){0};
  shared->start_us = shared->end_us = 0;
  shared->exec_error = 0;
  shared->ended = shared->orphans = false;
  shared->seen[0] = shared->seen[1] = 0;
  shared->kept[0] = shared->kept[1] = shared->left = shared->output_end_us = shared->served_us = 0;
  if (send_message(slot->control, MESSAGE_RUN, slot_side, sockets)) kill(slot->pid, SIGKILL);
}

/* No program has an end of them: the slot passes its bytes on (streams.h). */
static void make_sockets(struct slot *slot, int *slot_side) {
  int *const own_side[] = {&slot->input, &slot->outputs[0], &slot->outputs[1]};
  for (unsigned i = 0; i < COUNT(own_side); i++) {
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), "make a socket of an open box");
    *own_side[i] = ends[0];
    slot_side[i] = ends[1];
  }
  output_open(slot);
}

/* Writes until the socket is full, then polls it. */
void run_feed(struct slot *slot) {
  struct buffer *from = &slot->more_input;
  while (slot->input >= 0 && slot->input_at < from->used) {
    ssize_t count = send(slot->input, from->at + slot->input_at, from->used - slot->input_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return poll_ensure(slot->input, EVENT_INPUT, slot->number, POLLOUT);
    if (count < 0) return close_descriptor(&slot->input); /* the program has closed its input */
    slot->input_at += (uint32_t)count;
  }
  from->used = slot->input_at = 0;
  if (slot->input_closes) close_descriptor(&slot->input);
  else if (slot->input >= 0) poll_remove(slot->input);
}

void run_feed_more(struct slot *slot, const uint8_t *bytes, size_t count) {
  if (!slot->request.stream || slot->answered || slot->input < 0) return;
  if (!count) slot->input_closes = true;
  if (slot->more_input.used + count > STREAM_INPUT_MAX || !buffer_append(&slot->more_input, bytes, count))
    run_end(slot, ENDING_CANCELLED);
  else
    run_feed(slot);
}

void run_end(struct slot *slot, enum ending why) {
  if (slot->answered) return;
  if (!slot->ending) {
    uint64_t started = slot->shared->start_us;
    slot->ending = why;
    slot->ending_us = started ? monotonic_us() - started : 0;
    saving_stop(slot);
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

/* A look costs the launcher up to 60 us, and a program can rest just below its limit for all of its wall time. */
static uint64_t least_wait_us(struct slot *slot, uint64_t used, uint64_t now) {
  if (now - slot->window_us >= WINDOW_US) {
    slot->resting = used < slot->window_cpu_us + (now - slot->window_us) / 4;
    slot->window_us = now;
    slot->window_cpu_us = used;
  }
  return slot->resting ? SELDOM_US : OFTEN_US;
}

uint64_t run_check(struct slot *slot, uint64_t now) {
  const struct limits *limits = &slot->request.limits;
  uint64_t started = slot->shared->start_us;
  if (slot->state != SLOT_BUSY || slot->answered) return UINT64_MAX;
  if (slot->ending) {
    signal_init(slot); /* the order to end the run may have come before init existed */
    return slot->killed ? UINT64_MAX : now + 1000;
  }
  /* The program has ended. What the slot does now, such as keeping files, counts for no limit of the run. */
  if (slot->shared->ended) return UINT64_MAX;
  if (!started) {
    if (now - slot->dispatched_us > START_LIMIT_US) kill(slot->pid, SIGKILL);
    return slot->next_check_us > now ? slot->next_check_us : now + 2000;
  }
  uint64_t end = started + limits->wall_ms * 1000;
  if (now >= end) return run_end(slot, ENDING_WALL), now + 1000;
  if (now >= slot->next_check_us) {
    run_follow_group(slot);
    uint64_t used = run_cpu_us(slot), most = limits->cpu_ms * 1000;
    if (used >= most) return run_end(slot, ENDING_CPU), now + 1000;
    run_note_memory(slot);
    if (run_oom_kills(slot)) return run_end(slot, ENDING_MEMORY), now + 1000;
    /* Even all processors together cannot use up the rest before then. */
    uint64_t wait = (most - used) / processors(), least = least_wait_us(slot, used, now);
    slot->next_check_us = now + (wait < least ? least : wait > NOTE_MEMORY_US ? NOTE_MEMORY_US : wait);
  }
  return slot->next_check_us < end ? slot->next_check_us : end;
}

void run_settle(struct slot *slot, int box) {
  const bool saves = !slot->answered && settle(slot, box);
  if (box >= 0) close(box);
  if (box >= 0 && !saves) send_message(slot->control, MESSAGE_BOX, NULL, 0);
}

/* true: a saver was started, and the answer comes when it ends. */
static bool settle(struct slot *slot, int box) {
  const struct shared *shared = slot->shared;
  struct saved saved = {0};
  if (could_not_run(slot)) return run_close(slot), false;
  run_follow_group(slot);
  if (slot->request.stream) output_drain(slot);
  else if (shared->over) run_end(slot, ENDING_OUTPUT);
  bool well = shared->ended && !slot->ending && WIFEXITED(shared->wait_status) && !WEXITSTATUS(shared->wait_status);
  if (well && slot->request.save_key && box < 0)
    saved = (struct saved){.broken = true, .reason = "the work directory did not arrive"};
  else if (box >= 0 && well) {
    if (saving_begin(slot, box)) return true;
    saved = (struct saved){.broken = true, .reason = "the process that saves the files cannot be started"};
  }
  run_report(slot, &saved);
  run_close(slot);
  return false;
}

void run_saved(struct slot *slot) {
  struct saved saved;
  saving_end(slot, &saved);
  run_report(slot, &saved);
  run_close(slot);
  send_message(slot->control, MESSAGE_BOX, NULL, 0);
}

/* Answers with a fault if the launcher, and not the program, failed. */
static bool could_not_run(struct slot *slot) {
  const struct shared *shared = slot->shared;
  if (shared->failure.error && !slot->ending) {
    answer_fault(slot->id, "%s: %s", shared->failure.step, strerror(shared->failure.error));
    return true;
  }
  if (shared->exec_error && !slot->ending) {
    answer_fault(slot->id, "%scannot execute %.100s: %s", no_room(shared->exec_error), slot->request.arguments[0],
                 strerror(shared->exec_error));
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
  if (slot->more_input.size > (1 << 20)) buffer_release(&slot->more_input);
}

void run_give_up(struct slot *slot) {
  const struct shared *shared = slot->shared;
  if (slot->answered || slot->ending || !shared->ended || shared->failure.error) return run_settle(slot, -1);
  answer_fault(slot->id, "the slot did not see the end of the run");
  run_close(slot);
}

void run_forget(struct slot *slot) {
  struct shared *shared = slot->shared;
  const long page = sysconf(_SC_PAGESIZE);
  /* It has a program's source and input. */
  if (shared->frame_length > (1 << 20)) {
    const off_t from = (off_t)(offsetof(struct shared, frame) + (size_t)page - 1) / page * page;
    fallocate(slot->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, (off_t)sizeof *shared - from);
    shared->frame_length = 0;
  }
  const uint64_t used[OUTPUT_REGIONS] = {slot->shared->kept[0], slot->shared->kept[1], slot->shared->left, 0};
  for (int i = 0; i < OUTPUT_REGIONS; i++)
    if (used[i] > (1 << 20))
      fallocate(slot->output_memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)i * OUTPUT_MAX, OUTPUT_MAX);
}

static void close_descriptor(int *descriptor) {
  if (*descriptor < 0) return;
  poll_remove(*descriptor);
  close(*descriptor);
  *descriptor = -1;
}
