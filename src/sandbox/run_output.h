/*
 * What a run prints, as the launcher reads it.
 *
 * An ordinary run's output is kept up to its limit and counted beyond it. An open box's output goes to
 * the worker as it comes.
 *
 * A program decides how it prints, so it could make each of its bytes cost the launcher more than itself.
 * Therefore:
 *   - after a read that found little, the launcher looks again only when LOOK_US have passed, so a pipe
 *     that gets single bytes costs at most 250 reads a second, and a full pipe waits only that long;
 *   - standard error beyond its limit is discarded without a copy, and within a budget: FREE_US for each
 *     run, a twentieth of the CPU time that the program used, and 0.3 % of a processor. A program that
 *     prints much and works for it is not slowed down. One that floods at no cost to itself waits, and
 *     goes on at 0.3 % of a processor.
 */
#ifndef RUNLEDGER_RUN_OUTPUT_H
#define RUNLEDGER_RUN_OUTPUT_H
#include "slot_record.h"

/* The pipes are in slot->outputs. */
void output_open(struct slot *slot);
/* Reads once: 0 is standard output, 1 is standard error. false: the run is over its limit of output. */
bool output_read(struct slot *slot, int which);
/* Reads what it is time to look at. Returns the time of the next look; UINT64_MAX: none is due. */
uint64_t output_look(struct slot *slot, uint64_t now, bool *over_limit);
/* No process of the run is left: reads the rest. false: the run is over its limit of output. */
bool output_drain(struct slot *slot);

/* Stops reading an open box, or goes on, so that output which a slow worker does not take stays in the box. */
void output_pause(struct slot *slot, bool pause);

#endif
