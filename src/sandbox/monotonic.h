/* The clock that every limit and deadline is measured by. */
#ifndef RUNLEDGER_MONOTONIC_H
#define RUNLEDGER_MONOTONIC_H
#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
uint64_t monotonic_us(void);
/* CPU time of the calling thread. */
uint64_t own_cpu_us(void);

#endif
