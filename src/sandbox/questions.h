/* The slot's answers to the system calls about which the filter asks: sysinfo, and requests for much memory. */
#ifndef RUNLEDGER_QUESTIONS_H
#define RUNLEDGER_QUESTIONS_H
#include <poll.h>
#include <stdint.h>

#include "shared.h"

/* `listener`: of the slot's filter; -1: there is none. `proc`: the machine's /proc, or AT_FDCWD if that is at /proc. */
void questions_open(int listener, int proc, struct shared *shared);
/* The limits of the run; NULL: there is no run. */
void questions_limit(const struct limits *limits);
/*
 * Waits as poll() does, until `until_us` of the monotonic clock, and answers questions at the same time. An entry
 * more than `count` is there for it to use.
 */
int questions_poll(struct pollfd *polled, unsigned count, uint64_t until_us);

#endif
