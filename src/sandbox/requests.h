/*
 * Frames from the worker, and a queue for requests that come while every slot is busy. The client sends
 * few more requests than there are slots; the limits of the queue are for a broken client.
 *
 * Requests start in the order in which they came; those for open boxes, which have slots of their own, in
 * an order of their own. A pair takes two slots at once or none. While it is the first of the queue and one
 * slot is idle, that slot stays idle. So no pair waits behind later requests, and two pairs never wait for
 * each other's slot.
 *
 * The worker's heartbeats move a deadline. Once it has passed, no request is started.
 */
#ifndef RUNLEDGER_REQUESTS_H
#define RUNLEDGER_REQUESTS_H
#include <stdbool.h>
#include <stdint.h>

#include "options.h"

void requests_open(const struct options *options);
/* The worker's socket is readable. */
void requests_read(void);
/* Starts queued requests in free slots. */
void requests_dispatch(void);

/* Rejects queued requests if the deadline has passed. Returns the time of the next check. */
uint64_t requests_check_deadline(uint64_t now);
bool requests_deadline_passed(void);

#endif
