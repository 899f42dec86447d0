/* The launcher's answers to the system calls about which the filter asks it: sysinfo, and requests for much memory. */
#ifndef RUNLEDGER_QUESTIONS_H
#define RUNLEDGER_QUESTIONS_H
#include <stdint.h>

#include "slot_record.h"

/* Takes over the listener of the slot's filter. */
void questions_open(struct slot *slot, int listener);
void questions_answer(struct slot *slot);
/* Ends a pause. Returns when to call it again, in microseconds of the monotonic clock; UINT64_MAX: there is no need. */
uint64_t questions_check(struct slot *slot, uint64_t now);
void questions_close(struct slot *slot);

#endif
