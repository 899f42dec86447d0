/*
 * One run, watched by the launcher: it checks the limits, ends the run and answers the worker.
 *
 * The worker gets one answer, at the first of these events:
 *   - the slot reports that the run is over and its output complete (relay.c says when);
 *   - the slot died, and nothing of the run is left.
 * The slot takes the next run only after it reported "idle", whichever event came first.
 */
#ifndef RUNLEDGER_RUN_WATCH_H
#define RUNLEDGER_RUN_WATCH_H
#include "slot_record.h"

/* The request is in the slot's shared frame and is parsed. */
void run_begin(struct slot *slot, uint32_t id);
/* Begins both runs of a pair, each in a slot. */
void run_begin_pair(struct slot *const pair[2], const uint32_t ids[2]);

/* The input of an open box is writable. */
void run_feed(struct slot *slot);
/* More input for an open box; no bytes: end of input. */
void run_feed_more(struct slot *slot, const uint8_t *bytes, size_t count);

/* Checks the run's limits; returns the time of the next check. */
uint64_t run_check(struct slot *slot, uint64_t now);
void run_end(struct slot *slot, enum ending why);

/*
 * Answers the worker: with a report, or with a fault if the program could not be run. `box`: the work directory, or -1; it
 * is closed. If there is something to save in it, the answer comes when it is saved, and the slot waits until then.
 */
void run_settle(struct slot *slot, int box);
/* The slot does not know the result. */
void run_give_up(struct slot *slot);
/* The run's saver has ended. */
void run_saved(struct slot *slot);
/* The run is over for the worker: closes its descriptors. */
void run_close(struct slot *slot);
/* The slot is done with the run, too: frees large outputs. */
void run_forget(struct slot *slot);

#endif
