/* The launcher's answers to the system call sysinfo. */
#ifndef RUNLEDGER_SYSINFO_H
#define RUNLEDGER_SYSINFO_H
#include <stdint.h>

#include "slot_record.h"

/* Takes over the listener of the slot's filter. */
void sysinfo_open(struct slot *slot, int listener);
void sysinfo_answer(struct slot *slot);
/* Ends a pause. Returns when to call it again, in microseconds of the monotonic clock; UINT64_MAX: there is no need. */
uint64_t sysinfo_check(struct slot *slot, uint64_t now);
void sysinfo_close(struct slot *slot);

#endif
