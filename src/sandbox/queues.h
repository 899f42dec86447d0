/* The message queues of a run that has ended. */
#ifndef RUNLEDGER_QUEUES_H
#define RUNLEDGER_QUEUES_H
#include "identity.h"

void queues_open(void);
/* Waits, for some seconds at most, until the kernel has removed the queues that a run of this user made. */
void queues_await_removed(const struct identity *identity);

#endif
