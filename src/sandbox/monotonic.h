/* The clock that every limit and deadline is measured by. */
#ifndef RUNLEDGER_MONOTONIC_H
#define RUNLEDGER_MONOTONIC_H
#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
uint64_t monotonic_us(void);

#endif
