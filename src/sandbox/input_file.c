#define _GNU_SOURCE
#include "input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"

static int make_file(void) {
  return (int)must(memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING), "make the input");
}

/* The program's descriptor is for reading only, because older kernels map no sealed file through another one. */
static int seal(int proc, int file) {
  char path[32];
  must(fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), "seal the input");
  snprintf(path, sizeof path, proc < 0 ? "/proc/self/fd/%d" : "self/fd/%d", file);
  int sealed = (int)must(openat(proc < 0 ? AT_FDCWD : proc, path, O_RDONLY | O_CLOEXEC), "open the input for reading");
  close(file);
  return sealed;
}

int input_of_bytes(int proc, const uint8_t *bytes, size_t length) {
  int file = make_file();
  for (size_t at = 0; at < length;) at += (size_t)must(write(file, bytes + at, length - at), "write the input");
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
  return seal(proc, copy);
}
