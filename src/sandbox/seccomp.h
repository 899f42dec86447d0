/* The system call filter. */
#ifndef RUNLEDGER_SECCOMP_H
#define RUNLEDGER_SECCOMP_H
#include <stdbool.h>

/* Builds the filter, once, before the first fork. `degraded`: for runs without namespaces. */
void seccomp_build(bool degraded);
/* Puts the calling process under the filter, for good, and forbids core dumps. */
void seccomp_confine(void);

#endif
