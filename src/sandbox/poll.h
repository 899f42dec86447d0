/* The launcher's epoll: what each descriptor that it waits for means. */
#ifndef RUNLEDGER_POLL_H
#define RUNLEDGER_POLL_H
#include <stdint.h>

enum event { EVENT_WORKER, EVENT_SIGNAL, EVENT_CONTROL, EVENT_DEATH, EVENT_SAVED, EVENT_INPUT, EVENT_STDOUT, EVENT_STDERR };

struct ready {
  enum event event;
  unsigned slot;
};

void poll_open(void);
/* `events`: EPOLLIN and so on. `slot` is 0 for events that do not belong to a slot. */
void poll_add(int descriptor, enum event event, unsigned slot, uint32_t events);
/* The same for a descriptor that may already be there. */
void poll_ensure(int descriptor, enum event event, unsigned slot, uint32_t events);
void poll_change(int descriptor, enum event event, unsigned slot, uint32_t events);
void poll_remove(int descriptor);
/* Waits for at most `wait_ms` (-1: without limit); returns how many are ready, at most `most`. */
unsigned poll_wait(struct ready *ready, unsigned most, int wait_ms);

#endif
