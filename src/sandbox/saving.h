/*
 * The launcher starts a process, the saver, that copies a run's files to the store. So the launcher can go on watching the
 * other runs. The saver has the worker's priority, and the pages of its copy are charged like the launcher's. The slot waits
 * until the saver has ended.
 */
#ifndef RUNLEDGER_SAVING_H
#define RUNLEDGER_SAVING_H
#include "artefacts.h"
#include "slot_record.h"

/* `priority`: the worker's. */
void saving_open(int priority);
/* Starts a saver; EVENT_SAVED follows. `box`: the work directory. false: no process can be made. */
bool saving_begin(struct slot *slot, int box);
/* The saver has ended: what it saved. */
void saving_end(struct slot *slot, struct saved *saved);
/* Asks the saver to remove what it copied, and to end; EVENT_SAVED follows. */
void saving_stop(const struct slot *slot);
/* The slot is dead: asks the saver to end, and nobody waits for that. */
void saving_forget(struct slot *slot);

#endif
