#include "poll.h"

#include <errno.h>
#include <stdlib.h>

#include "failure.h"

static struct pollfd polled[MOST_POLLED];
static struct ready meanings[MOST_POLLED];
static unsigned polled_count;

static unsigned place_of(int descriptor) {
  unsigned at = 0;
  while (at < polled_count && polled[at].fd != descriptor) at++;
  return at;
}

void poll_add(int descriptor, enum event event, unsigned slot, short events) {
  if (polled_count == MOST_POLLED) abort();
  polled[polled_count] = (struct pollfd){.fd = descriptor, .events = events};
  meanings[polled_count++] = (struct ready){.event = event, .slot = slot};
}

void poll_ensure(int descriptor, enum event event, unsigned slot, short events) {
  if (place_of(descriptor) == polled_count) poll_add(descriptor, event, slot, events);
}

void poll_change(int descriptor, short events) {
  const unsigned at = place_of(descriptor);
  if (at < polled_count) polled[at].events = events;
}

void poll_remove(int descriptor) {
  const unsigned at = place_of(descriptor);
  if (at == polled_count) return;
  polled[at] = polled[--polled_count];
  meanings[at] = meanings[polled_count];
}

unsigned poll_wait(struct ready *ready, int wait_ms) {
  unsigned count = 0;
  const int found = poll(polled, polled_count, wait_ms);
  if (found < 0 && errno != EINTR) fail("wait for events");
  for (unsigned i = 0; found > 0 && i < polled_count; i++)
    if (polled[i].revents) ready[count++] = meanings[i];
  return count;
}
