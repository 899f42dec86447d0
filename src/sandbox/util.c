#define _GNU_SOURCE
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct fault *fault_sink;

void fail(const char *step, ...) {
  int error = errno;
  char text[sizeof fault_sink->step];
  va_list rest;
  va_start(rest, step);
  vsnprintf(text, sizeof text, step, rest);
  va_end(rest);
  if (fault_sink) {
    memcpy(fault_sink->step, text, sizeof text);
    fault_sink->error = error ? error : EIO;
    _exit(EXIT_BROKEN);
  }
  fprintf(stderr, "launcher: %s: %s\n", text, strerror(error));
  exit(EXIT_BROKEN);
}

long must(long answer, const char *step) {
  if (answer == -1) fail("%s", step);
  return answer;
}

uint64_t clock_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t read_counter(int fd, const char *name) {
  char text[1024];
  ssize_t length = pread(fd, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = 0;
  if (!name) return strtoull(text, NULL, 10);
  size_t width = strlen(name);
  for (char *line = text; line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (!strncmp(line, name, width) && line[width] == ' ') return strtoull(line + width, NULL, 10);
  }
  return 0;
}

bool write_text(int dir, const char *path, const char *text) {
  int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t length = strlen(text);
  bool done = write(fd, text, length) == (ssize_t)length;
  int error = errno;
  close(fd);
  errno = error;
  return done;
}

bool write_number(int fd, uint64_t number) {
  char text[24];
  int length = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  return pwrite(fd, text, (size_t)length, 0) == length;
}

ssize_t read_text(int dir, const char *path, char *text, size_t size) {
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t used = 0;
  ssize_t count = 0;
  while (used < size - 1 && (count = read(fd, text + used, size - 1 - used)) > 0) used += (size_t)count;
  close(fd);
  text[used] = 0;
  return count < 0 ? -1 : (ssize_t)used;
}

void remove_tree(int directory, const char *name) {
  /* Whoever made it may have shut himself out. */
  bool opened = fchmodat(directory, name, 0700, 0) == 0;
  int inner = opened ? openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
  DIR *list = inner < 0 ? NULL : fdopendir(inner);
  for (struct dirent *entry; list && (entry = readdir(list));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (unlinkat(inner, entry->d_name, 0) && (errno == EISDIR || errno == EPERM)) remove_tree(inner, entry->d_name);
  }
  if (list) closedir(list);
  unlinkat(directory, name, AT_REMOVEDIR);
}

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
