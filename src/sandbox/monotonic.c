#define _GNU_SOURCE
#include "monotonic.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t monotonic_us(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t own_cpu_us(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
