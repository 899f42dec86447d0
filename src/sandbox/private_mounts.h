/* Mounts of this process alone, whose root is the root that this process sees. */
#ifndef RUNLEDGER_PRIVATE_MOUNTS_H
#define RUNLEDGER_PRIVATE_MOUNTS_H

/* In a new mount namespace. Returns 0, or the errno of the step that failed. */
int make_mounts_private(void);

#endif
