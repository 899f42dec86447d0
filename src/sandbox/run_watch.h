/*
 * One run, watched by the launcher: it writes the input, reads the output, checks the limits, ends the
 * run and answers the worker.
 *
 * The worker gets one answer, at the first of these events:
 *   - init reports that the program ended and left no process behind;
 *   - the slot reports that init is reaped, so every process is dead: after a kill, after orphans, and
 *     if the work directory is to be saved;
 *   - the slot died, and nothing of the run is left.
 * The slot takes the next run only after it reported "idle", whichever event came first.
 */
#ifndef RUNLEDGER_RUN_WATCH_H
#define RUNLEDGER_RUN_WATCH_H
#include "slot_record.h"

/* The request is in the slot's shared frame and is parsed. */
void run_begin(struct slot *slot, uint32_t id);

/* The program's input is writable. */
void run_feed(struct slot *slot);
/* More input for an open box; no bytes: end of input. */
void run_feed_more(struct slot *slot, const uint8_t *bytes, size_t count);
/* Output is readable: 0 is standard output, 1 is standard error. */
void run_read(struct slot *slot, int which);

/* Checks the run's limits; returns the time of the next check. */
uint64_t run_check(struct slot *slot, uint64_t now);
void run_end(struct slot *slot, enum ending why);

/* Answers the worker: with a report, or with a fault if the launcher could not run the program. */
void run_settle(struct slot *slot);
/* The run is over for the worker: closes its descriptors. */
void run_close(struct slot *slot);

#endif
