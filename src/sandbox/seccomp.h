/* The system call filters. */
#ifndef RUNLEDGER_SECCOMP_H
#define RUNLEDGER_SECCOMP_H
#include <stdbool.h>
#include <stdint.h>

/* Builds the filters, once, before the first fork. `degraded`: for runs without namespaces. */
void seccomp_build(bool degraded);
/*
 * Puts the slot and all that it starts under the filter, except for the calls that build a box, and
 * forbids core dumps and new privileges. Returns the descriptor on which the kernel asks the launcher; -1: none.
 */
int seccomp_confine_slot(void);
/* Puts the calling process under the rest of the filter, for good. */
void seccomp_confine(void);
/* Prints number, name and outcome of each call, as if every argument were `argument`. Tests compare it with a box. */
void seccomp_print(bool degraded, uint64_t argument);

#endif
