#define _GNU_SOURCE
#include "kernel_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

uint64_t read_private_bytes(int statm) {
  char text[128] = "";
  unsigned long all, resident, of_files;
  if (pread(statm, text, sizeof text - 1, 0) <= 0 || sscanf(text, "%lu %lu %lu", &all, &resident, &of_files) != 3) return 0;
  return (resident - of_files) * (uint64_t)sysconf(_SC_PAGESIZE);
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

unsigned processors(void) {
  static unsigned count; /* sysconf reads it from a file */
  if (!count) count = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
  return count;
}

bool is_machine_root(void) {
  char map[256];
  unsigned long inside = 1, outside = 1, count = 0;
  if (geteuid() != 0 || read_text(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) < 0) return false;
  return sscanf(map, "%lu %lu %lu", &inside, &outside, &count) == 3 && outside == 0 && count == 4294967295ul;
}

int close_all_but(const int *kept, unsigned count) {
  for (int from = 3;;) {
    int next = -1;
    for (unsigned i = 0; i < count; i++)
      if (kept[i] >= from && (next < 0 || kept[i] < next)) next = kept[i];
    if (next < 0) return (int)syscall(SYS_close_range, from, ~0u, 0);
    if (next > from && syscall(SYS_close_range, from, next - 1, 0)) return -1;
    from = next + 1;
  }
}
