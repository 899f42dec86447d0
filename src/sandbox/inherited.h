/* How much of its zygote's memory a forked run still shares. */
#ifndef RUNLEDGER_INHERITED_H
#define RUNLEDGER_INHERITED_H
#include "slot_setup.h"

/* Lowers shared->inherited_left to the present estimate. */
void inherited_estimate(const struct slot_setup *setup);

#endif
