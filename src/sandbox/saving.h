/*
 * A process of its own saves a run's files, so that the launcher can watch the other runs meanwhile. It copies at the
 * worker's priority, and its pages are charged like the launcher's. The slot waits until it ends.
 */
#ifndef RUNLEDGER_SAVING_H
#define RUNLEDGER_SAVING_H
#include "artefacts.h"
#include "slot_record.h"

/* `priority`: the worker's. */
void saving_open(int priority);
/* Begins; EVENT_SAVED follows. `box`: the work directory. false: no process can be made. */
bool saving_begin(struct slot *slot, int box);
/* Its process has ended: what it saved. */
void saving_end(struct slot *slot, struct saved *saved);
/* Asks the process to remove what it copied, and to end; EVENT_SAVED follows. */
void saving_stop(const struct slot *slot);
/* The slot is dead: stops, and nobody waits for the end. */
void saving_forget(struct slot *slot);

#endif
