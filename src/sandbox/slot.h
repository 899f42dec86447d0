/* The process that runs one program at a time. */
#ifndef RUNLEDGER_SLOT_H
#define RUNLEDGER_SLOT_H
#include "slot_setup.h"

__attribute__((noreturn)) void slot_main(struct slot_setup *setup);

#endif
