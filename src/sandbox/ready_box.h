/*
 * A box that is ready before its request (box_ahead.h), for programs that no zygote starts. A slot has one at most. It is of the
 * profile that the last two such runs had, is made while the slot is idle, and serves one run.
 *
 * Nothing depends on it: without one, the slot makes the box when the request comes.
 */
#ifndef RUNLEDGER_READY_BOX_H
#define RUNLEDGER_READY_BOX_H
#include <stdbool.h>

#include "box.h"
#include "root.h"
#include "slot_setup.h"

void ready_box_open(const struct slot_setup *setup, const struct roots *roots, int slot_pidfd);

/* Whether a box is ready for the request. If so, it waits no more: ready_box_run() must follow. */
bool ready_box_choose(const struct request *request);

/* Returns init's pid and a descriptor of it, as if it had just been cloned. The descriptors of `box` stay open. */
pid_t ready_box_run(const struct box *box, int *pidfd);

/* How long the slot must have been idle before it makes the next box; -1: none is wanted. */
int ready_box_pause_ms(void);
void ready_box_make(void);

/* Of a box that waits: its tasks that are counted with a run's, and its sockets. */
unsigned ready_box_tasks(void);
unsigned ready_box_sockets(void);

#endif
