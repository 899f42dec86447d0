/* Ends what a run left, where neither a control group nor a user id says which processes these are. */
#ifndef RUNLEDGER_REMAINS_H
#define RUNLEDGER_REMAINS_H
#include <stdbool.h>
#include <sys/types.h>

/*
 * Kills this process's children with all that they started, but those that `is_kept` names (NULL: none). This process must be
 * the reaper of orphans: then what is started in time becomes its child, and is killed by the next call. true: there was none.
 */
bool kill_children(bool (*is_kept)(pid_t child));

#endif
