#define _GNU_SOURCE
#include "buffer.h"

#include <string.h>
#include <sys/mman.h>

bool buffer_reserve(struct buffer *buffer, size_t size) {
  if (size <= buffer->size) return true;
  size_t rounded = (size + 0xffff) & ~(size_t)0xffff;
  uint8_t *at = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  madvise(at, rounded, MADV_DONTFORK);
  madvise(at, rounded, MADV_DONTDUMP);
  if (buffer->used) memcpy(at, buffer->at, buffer->used);
  if (buffer->at) munmap(buffer->at, buffer->size);
  buffer->at = at;
  buffer->size = rounded;
  return true;
}

bool buffer_append(struct buffer *buffer, const void *bytes, size_t count) {
  size_t needed = buffer->used + count;
  if (needed > buffer->size && !buffer_reserve(buffer, needed > 2 * buffer->size ? needed : 2 * buffer->size))
    return false;
  if (count) memcpy(buffer->at + buffer->used, bytes, count);
  buffer->used = needed;
  return true;
}

void buffer_release(struct buffer *buffer) {
  if (buffer->at) munmap(buffer->at, buffer->size);
  *buffer = (struct buffer){0};
}
