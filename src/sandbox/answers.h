/*
 * Frames to the worker. An answer goes out at once if the socket takes it; the rest waits in a backlog
 * and goes out when the socket is writable again.
 */
#ifndef RUNLEDGER_ANSWERS_H
#define RUNLEDGER_ANSWERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffer.h"
#include "wire.h"

/* `socket` is non-blocking and is polled as EVENT_WORKER. */
void answers_open(int socket);

/* A frame: a short head, then the bytes of `rests` buffers. */
void answer(enum frame_type type, uint32_t id, const void *head, size_t head_length, const struct buffer *rest,
            unsigned rests);
void answer_fault(uint32_t id, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes from the backlog. true: the backlog has just become empty. */
bool answers_write(void);
/* The worker reads slowly: open boxes are to be read no further for now. */
bool answers_are_slow(void);

/* Ends the connection: nothing is written after this. `why`, if any, goes to standard error. */
void answers_hang_up(const char *why);
bool answers_hung_up(void);

#endif
