/*
 * A box that is made ahead of its request: an init that has mounted what it can, and below it the process that will be
 * the program. Both wait, and so no run waits for the kernel to make namespaces and processes.
 *
 * The kernel takes 0.3 ms for that. A box made ahead serves one run, and its program starts by execve or, from a zygote, as a
 * fork. So of the run before it a program learns one thing: when that run ended, because its box was made then.
 *
 * Init gets the orders from the slot: the request in the shared pages, and the descriptors of the run. It furnishes the box,
 * so that nothing of that is charged to the program, and passes the orders on.
 */
#ifndef RUNLEDGER_BOX_AHEAD_H
#define RUNLEDGER_BOX_AHEAD_H
#include "box.h"

/*
 * Clones init, which waits for MESSAGE_RUN on `orders`. v2: the program's process starts in the run group `run`. `*pid` becomes
 * init's pid before init runs, and `pidfd`, if it is not NULL, a descriptor of it.
 * Returns the pid, or -1; in the program's process it returns 0.
 *
 * With `box->thread_id`, which a zygote has, init uses the memory of the caller instead of a copy, and the call returns in the
 * caller when init is dead. What init changes in this memory stays, except its request and its stack.
 */
pid_t box_clone_ahead(struct box *box, int orders, uint32_t run, _Atomic int *pid, int *pidfd);

/* Of the program's process: confines itself, says MESSAGE_READY on `orders`, and waits for the run. */
void box_await_run(struct box *box, int orders);

/* Orders init to run the request. Closes nothing. */
int box_order_run(const struct box *box, int orders);

enum { BOX_AHEAD_SOCKETS = 4, BOX_AHEAD_TASKS = 2 };

#endif
