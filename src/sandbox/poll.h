/*
 * The descriptors that the launcher waits for, and what each of them means. It uses no epoll: the kernel counts the watches
 * of a user over all epolls, and where programs have the launcher's user id, one program could use them up.
 */
#ifndef RUNLEDGER_POLL_H
#define RUNLEDGER_POLL_H
#include <poll.h>

#include "options.h"

enum event { EVENT_WORKER, EVENT_SIGNAL, EVENT_CONTROL, EVENT_DEATH, EVENT_SAVED, EVENT_INPUT, EVENT_STDOUT, EVENT_STDERR };
/* The first two, and one of each other for each slot. */
enum { MOST_POLLED = 2 + 6 * MAX_SLOTS };

struct ready {
  enum event event;
  unsigned slot;
};

/* `events`: POLLIN and so on. `slot` is 0 for events that do not belong to a slot. */
void poll_add(int descriptor, enum event event, unsigned slot, short events);
/* The same for a descriptor that may already be there. */
void poll_ensure(int descriptor, enum event event, unsigned slot, short events);
void poll_change(int descriptor, short events);
/* Before a descriptor is closed. It may not be there. */
void poll_remove(int descriptor);
/* Waits for at most `wait_ms` (-1: without limit). Writes what is ready, at most MOST_POLLED, and returns the count. */
unsigned poll_wait(struct ready *ready, int wait_ms);

#endif
