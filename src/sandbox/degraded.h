/* Runs without control groups and namespaces. */
#ifndef RUNLEDGER_DEGRADED_H
#define RUNLEDGER_DEGRADED_H
#include <stddef.h>

#include "box.h"
#include "slot_setup.h"

/* Whether something still protects the worker from its programs. false: `why` says what is missing. */
bool degraded_usable(unsigned uid_base, char *why, size_t size);

void degraded_open(const struct slot_setup *setup);
/* `sockets`: of an open box or of a pair. */
void degraded_run(struct box *box, const int *sockets);

#endif
