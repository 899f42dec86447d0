/* Ends what a run left, where no control group says which processes these are. */
#ifndef RUNLEDGER_REMAINS_H
#define RUNLEDGER_REMAINS_H
#include <stdbool.h>
#include <sys/types.h>

#include "identity.h"

/*
 * Kills this process's children with all that they started, but those that `is_kept` names (NULL: none). This process must be
 * the reaper of orphans: then what is started in time becomes its child, and is killed by the next call. true: there was none.
 */
bool kill_children(bool (*is_kept)(pid_t child));

/* Kills all processes of a box that has a user id of its own. false: it could not, for want of a process or of time. */
bool kill_user(const struct identity *identity);

#endif
