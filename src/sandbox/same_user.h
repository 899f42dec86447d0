/* A second filter, for a program that has the worker's own user id. */
#ifndef RUNLEDGER_SAME_USER_H
#define RUNLEDGER_SAME_USER_H
#include <stdbool.h>

/*
 * Denies the calling process, and every process that it starts, the system calls by which a user changes
 * processes and files of his own that Landlock does not protect. `signals_scoped`: Landlock already keeps
 * its signals inside the run. Comes before seccomp_confine(), which allows no further filter.
 */
void same_user_confine(bool signals_scoped);
/* How many tasks this user has on the machine: RLIMIT_NPROC counts them all. */
unsigned same_user_tasks(void);

#endif
