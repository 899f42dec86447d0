#define _GNU_SOURCE
#include "run_output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "answers.h"
#include "buffer.h"
#include "monotonic.h"
#include "poll.h"

enum {
  SCRATCH = 64 * 1024,
  LITTLE = 4096, /* libc writes this much at once to a pipe */
  LOOK_US = 4000,
  DISCARD_BYTES = 1024 * 1024, /* at once: more than a pipe usually holds */
  MUCH = 16 * 1024,            /* a pipe that had this much will soon be full again */
  LOOK_SOON_US = 1000,
  /* The budget for discarding */
  DISCARD_COST_US = 25,        /* of one look, with the launcher's turn */
  FREE_US = 5000,
  CPU_PARTS = 20,              /* a twentieth of the program's CPU time */
  WALL_PARTS = 333,            /* 0.3 % of a processor */
  RECKON_US = 20 * 1000,       /* as often as the program's CPU time is read */
};

static uint8_t scratch[SCRATCH];
static int nowhere = -1; /* /dev/null */

static void read_stream(struct slot *slot, int which);
static ssize_t read_kept(struct slot *slot, int which);
static ssize_t discard(int from);
static uint64_t missing_us(const struct slot *slot, uint64_t now);

static enum event event_of(int which) { return which ? EVENT_STDERR : EVENT_STDOUT; }

static uint64_t limit_of(const struct slot *slot, int which) {
  return which ? slot->request.limits.stderr_bytes : slot->request.limits.stdout_bytes;
}

/* Standard error beyond its limit is only dropped: a program may print many messages. */
static bool is_within_limit(const struct slot *slot, int which) { return which || slot->seen[0] <= limit_of(slot, 0); }

/* An ordinary run's pipe is polled for one event, and again when a read has shown whether that is worth it. */
static uint32_t events_of(const struct slot *slot) { return slot->request.stream ? EPOLLIN : EPOLLIN | EPOLLONESHOT; }

static void close_output(struct slot *slot, int which) {
  close(slot->outputs[which]);
  slot->outputs[which] = -1;
  slot->look_us[which] = 0;
}

void output_open(struct slot *slot) {
  if (nowhere < 0) nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (int which = 0; which < 2; which++) {
    slot->look_us[which] = 0;
    poll_add(slot->outputs[which], event_of(which), slot->number, events_of(slot));
  }
  slot->discards = 0;
}

bool output_read(struct slot *slot, int which) {
  if (slot->outputs[which] < 0) return true;
  if (slot->request.stream) {
    read_stream(slot, which);
    return true;
  }
  uint64_t now = monotonic_us();
  const bool discards = which && slot->kept[which].used == limit_of(slot, which);
  uint64_t missing = discards ? missing_us(slot, now) : 0;
  if (missing) {
    slot->look_us[which] = now + (missing < RECKON_US ? missing : RECKON_US);
    return true;
  }
  slot->discards += discards;
  ssize_t count = read_kept(slot, which);
  if (slot->outputs[which] < 0) return true;
  if (count < 0 && errno == ENOMEM) return false;
  slot->look_us[which] = 0;
  if (discards && count >= MUCH) slot->look_us[which] = now + LOOK_SOON_US;
  else if (count > 0 && (discards || count < LITTLE)) slot->look_us[which] = now + LOOK_US;
  else poll_change(slot->outputs[which], event_of(which), slot->number, events_of(slot));
  return is_within_limit(slot, which);
}

/* How long it takes at least until the budget allows another look at excess output; 0: it does now. */
static uint64_t missing_us(const struct slot *slot, uint64_t now) {
  uint64_t started = slot->shared->start_us;
  uint64_t budget = FREE_US + slot->cpu_us / CPU_PARTS + (started ? now - started : 0) / WALL_PARTS;
  uint64_t spent = (uint64_t)(slot->discards + 1) * DISCARD_COST_US;
  return spent <= budget ? 0 : (spent - budget) * WALL_PARTS;
}

uint64_t output_look(struct slot *slot, uint64_t now, bool *over_limit) {
  uint64_t next = UINT64_MAX;
  for (int which = 0; which < 2; which++) {
    if (slot->look_us[which] && now >= slot->look_us[which] && !output_read(slot, which)) *over_limit = true;
    if (slot->look_us[which] && slot->look_us[which] < next) next = slot->look_us[which];
  }
  return next;
}

bool output_drain(struct slot *slot) {
  for (int which = 0; which < 2; which++) {
    if (slot->request.stream) {
      /* The last output. If the worker is too slow to take it, the rest is lost. */
      for (uint64_t before = slot->seen[which] + 1; slot->outputs[which] >= 0 && before != slot->seen[which];)
        before = slot->seen[which], read_stream(slot, which);
      continue;
    }
    while (slot->outputs[which] >= 0 && read_kept(slot, which) > 0) {
      /* At most what a pipe holds. */
    }
  }
  return is_within_limit(slot, 0);
}

static void read_stream(struct slot *slot, int which) {
  ssize_t count = read(slot->outputs[which], scratch, sizeof scratch);
  if (count < 0 && errno == EAGAIN) return;
  if (count <= 0) return close_output(slot, which);
  uint8_t head = (uint8_t)(which + 1);
  struct buffer bytes = {scratch, (size_t)count, 0};
  slot->seen[which] += (uint64_t)count;
  answer(FRAME_OUTPUT, slot->id, &head, 1, &bytes, 1);
  if (answers_are_slow()) output_pause(slot, true);
}

void output_pause(struct slot *slot, bool pause) {
  if (slot->paused == pause) return;
  slot->paused = pause;
  for (int which = 0; which < 2; which++) {
    if (slot->outputs[which] < 0) continue;
    if (pause) poll_remove(slot->outputs[which]);
    else poll_add(slot->outputs[which], event_of(which), slot->number, events_of(slot));
  }
}

/* Returns the count of bytes; 0 or less: there are no more for now. */
static ssize_t read_kept(struct slot *slot, int which) {
  struct buffer *kept = &slot->kept[which];
  uint64_t room = limit_of(slot, which) - kept->used;
  ssize_t count = room ? read(slot->outputs[which], scratch, sizeof scratch) : discard(slot->outputs[which]);
  if (count < 0) return errno == EINTR ? 1 : count;
  if (count == 0) {
    close_output(slot, which);
    return 0;
  }
  slot->seen[which] += (uint64_t)count;
  uint64_t fits = (uint64_t)count < room ? (uint64_t)count : room;
  /* Without memory to keep it, any output is over the limit. */
  if (room && !buffer_append(kept, scratch, fits)) errno = ENOMEM, count = -1;
  return count;
}

static ssize_t discard(int from) {
  ssize_t count = splice(from, NULL, nowhere, NULL, DISCARD_BYTES, SPLICE_F_NONBLOCK);
  /* Without /dev/null. */
  return count < 0 && errno != EAGAIN && errno != EINTR ? read(from, scratch, sizeof scratch) : count;
}
