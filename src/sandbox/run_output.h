/*
 * The output of an open box, which goes to the worker as it comes. (An ordinary run's output is in the
 * output pages when the run is over; streams.h.) The launcher reads it from sockets that only the slot
 * writes to.
 */
#ifndef RUNLEDGER_RUN_OUTPUT_H
#define RUNLEDGER_RUN_OUTPUT_H
#include "slot_record.h"

/* The sockets are in slot->outputs. */
void output_open(struct slot *slot);
/* Reads once: 0 is standard output, 1 is standard error. */
void output_read(struct slot *slot, int which);
/* The slot has passed everything on: reads the rest. */
void output_drain(struct slot *slot);

/* Stops reading, or goes on, so that output which a slow worker does not take stays in the box. */
void output_pause(struct slot *slot, bool pause);

#endif
