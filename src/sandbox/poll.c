#define _GNU_SOURCE
#include "poll.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>

#include "failure.h"

enum { EVENTS_MOST = 64 };

static int epoll;

void poll_open(void) { epoll = (int)must(epoll_create1(EPOLL_CLOEXEC), "create an epoll"); }

static int control(int operation, int descriptor, enum event event, unsigned slot, uint32_t events) {
  struct epoll_event entry = {.events = events, .data.u64 = event | (uint64_t)slot << 8};
  return epoll_ctl(epoll, operation, descriptor, &entry);
}

void poll_add(int descriptor, enum event event, unsigned slot, uint32_t events) {
  must(control(EPOLL_CTL_ADD, descriptor, event, slot, events), "wait for a descriptor");
}

void poll_ensure(int descriptor, enum event event, unsigned slot, uint32_t events) {
  control(EPOLL_CTL_ADD, descriptor, event, slot, events);
}

void poll_change(int descriptor, enum event event, unsigned slot, uint32_t events) {
  control(EPOLL_CTL_MOD, descriptor, event, slot, events);
}

void poll_remove(int descriptor) { epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, NULL); }

unsigned poll_wait(struct ready *ready, unsigned most, int wait_ms) {
  struct epoll_event events[EVENTS_MOST];
  int count = epoll_wait(epoll, events, (int)(most < EVENTS_MOST ? most : EVENTS_MOST), wait_ms);
  if (count < 0 && errno != EINTR) fail("wait for events");
  for (int i = 0; i < count; i++)
    ready[i] = (struct ready){.event = (enum event)(events[i].data.u64 & 0xff), .slot = (unsigned)(events[i].data.u64 >> 8)};
  return count < 0 ? 0 : (unsigned)count;
}
