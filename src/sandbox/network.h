/* The slot's network namespace, which lasts longer than a run. */
#ifndef RUNLEDGER_NETWORK_H
#define RUNLEDGER_NETWORK_H

#include "identity.h"

/* `proc`: the machine's /proc. The caller is already in its own network namespace. */
void network_open(int proc, const struct identity *identity);
/* Waits until no socket of a run exists. `own`: how many sockets of the namespace belong to slot and zygotes. */
void network_await_empty(unsigned own);

#endif
