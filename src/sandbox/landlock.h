/* Landlock: limits the files that a program may open, and the processes that it may signal, where it has no root of its own. */
#ifndef RUNLEDGER_LANDLOCK_H
#define RUNLEDGER_LANDLOCK_H
#include <stdbool.h>

#include "options.h"
#include "wire.h"

/* `target_of` returns the real path of a path of the box. */
void landlock_confine(const struct request *request, const struct options *options, const char *(*target_of)(const char *));
/* 0: this kernel has no Landlock, or it is not among the kernel's active security modules. */
int landlock_version(void);
/* Whether a confined program's signals stay among the confined processes. */
bool landlock_scopes_signals(void);

#endif
