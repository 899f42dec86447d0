/* What the slot does while a program runs. */
#ifndef RUNLEDGER_RELAY_H
#define RUNLEDGER_RELAY_H
#include "box.h"
#include "slot_setup.h"

/* Makes the socket of the inits. */
void relay_open(struct slot_setup *setup);

/* Makes the run's streams. `sockets`: of an open box or of a pair. To be called before init is cloned. */
void relay_begin(struct box *box, const int *sockets);
/* Serves the run until it is reported, `end` is readable (true), or `most_ms` have passed; -1: forever. */
bool relay_serve(int end, int most_ms);
/* The work directory, from which the launcher is to save. */
void relay_keep(int directory);
/* No process of the run is left. Reports the run, unless it is reported or its result is unknown. */
void relay_end(bool known);

#endif
