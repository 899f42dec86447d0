#define _GNU_SOURCE
#include "run_output.h"

#include <errno.h>
#include <unistd.h>

#include "answers.h"
#include "buffer.h"
#include "poll.h"

enum { SCRATCH = 64 * 1024 };

static uint8_t scratch[SCRATCH];

static bool read_once(struct slot *slot, int which);

static enum event event_of(int which) { return which ? EVENT_STDERR : EVENT_STDOUT; }

void output_open(struct slot *slot) {
  for (int which = 0; which < 2; which++) poll_add(slot->outputs[which], event_of(which), slot->number, POLLIN);
}

void output_read(struct slot *slot, int which) {
  if (slot->outputs[which] >= 0) read_once(slot, which);
}

void output_drain(struct slot *slot) {
  for (int which = 0; which < 2; which++)
    while (slot->outputs[which] >= 0 && read_once(slot, which)) {
      /* At most what a socket and a pipe hold. */
    }
}

/* false: there is no more for now. */
static bool read_once(struct slot *slot, int which) {
  ssize_t count = read(slot->outputs[which], scratch, sizeof scratch);
  if (count < 0 && errno == EAGAIN) return false;
  if (count <= 0) {
    poll_remove(slot->outputs[which]);
    close(slot->outputs[which]);
    slot->outputs[which] = -1;
    return false;
  }
  uint8_t head = (uint8_t)(which + 1);
  struct buffer bytes = {scratch, (size_t)count, 0};
  answer(FRAME_OUTPUT, slot->id, &head, 1, &bytes, 1);
  if (answers_are_slow()) output_pause(slot, true);
  return true;
}

void output_pause(struct slot *slot, bool pause) {
  if (slot->paused == pause) return;
  slot->paused = pause;
  for (int which = 0; which < 2; which++) {
    if (slot->outputs[which] < 0) continue;
    if (pause) poll_remove(slot->outputs[which]);
    else poll_add(slot->outputs[which], event_of(which), slot->number, POLLIN);
  }
}
