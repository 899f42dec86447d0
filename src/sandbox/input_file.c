#define _GNU_SOURCE
#include "input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8
#endif

/* Nobody may execute it: seccomp_rules.c says why. Linux before 6.3 has no seal for that. */
static int make_file(void) {
  int file = memfd_create("input", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
  if (file >= 0) return file;
  file = (int)must(memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING), "make the input");
  must(fchmod(file, 0666), "make the input not executable");
  return file;
}

/* Before Linux 6.7 a sealed file can be mapped as shared only through a descriptor that is for reading only. */
static bool can_map(int file) {
  static enum { UNKNOWN, YES, NO } answer;
  if (answer == UNKNOWN) {
    void *at = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
    answer = at == MAP_FAILED ? NO : YES;
    if (at != MAP_FAILED) munmap(at, 1);
  }
  return answer == YES;
}

/* Returns the program's descriptor, which is at the start of the file. */
static int seal(int proc, int file) {
  char path[32];
  must(fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), "seal the input");
  if (can_map(file)) return file;
  snprintf(path, sizeof path, proc < 0 ? "/proc/self/fd/%d" : "self/fd/%d", file);
  int again = (int)must(openat(proc < 0 ? AT_FDCWD : proc, path, O_RDONLY | O_CLOEXEC), "open the input for reading");
  close(file);
  return again;
}

int input_of_bytes(int proc, const uint8_t *bytes, size_t length) {
  int file = make_file();
  for (size_t at = 0; at < length;) at += (size_t)must(pwrite(file, bytes + at, length - at, (off_t)at), "write the input");
  return seal(proc, file);
}

int input_of_store(const char *path) {
  struct stat state;
  int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file >= 0 && !fstat(file, &state) && S_ISREG(state.st_mode) && !fcntl(file, F_SETFL, 0)) return file;
  if (file >= 0) close(file), errno = EINVAL;
  return -1;
}

int input_copy(int proc, int file) {
  struct stat state;
  int copy = make_file();
  must(fstat(file, &state), "find the size of the input");
  for (off_t left = state.st_size; left;) {
    ssize_t count = must(sendfile(copy, file, NULL, (size_t)left), "copy the input");
    if (!count) fail("copy the input: it has become shorter");
    left -= count;
  }
  close(file);
  must(lseek(copy, 0, SEEK_SET), "return to the start of the input");
  return seal(proc, copy);
}
