/* Message queues that tell what a user has of them: what a run left, and whether another launcher uses these ids. */
#ifndef RUNLEDGER_QUEUES_H
#define RUNLEDGER_QUEUES_H
#include <sys/types.h>

/* Limits this process and its children so that a queue can be made only for a user who has none. */
void queues_open(void);
/* Waits, for some seconds at most, until the kernel has removed the queues that a run of this user made. */
void queues_await_removed(uid_t user);
/*
 * Makes a queue for this user that has no name. It exists until its descriptor, which is returned, is closed. -1: errno is EMFILE
 * if the user has one, in any container of this machine.
 */
int queue_hold(uid_t user);

#endif
