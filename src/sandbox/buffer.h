/*
 * A growing block of memory for bytes that a customer sent or a program printed. A slot that is forked
 * later, to replace a dead one, must not inherit those bytes: fork leaves these pages out, and so does
 * a core dump.
 */
#ifndef RUNLEDGER_BUFFER_H
#define RUNLEDGER_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {
  uint8_t *at;
  size_t used, size;
};

/* false: there is no memory. */
bool buffer_reserve(struct buffer *buffer, size_t size);
bool buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_release(struct buffer *buffer);

#endif
