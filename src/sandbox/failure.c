#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct failure *failure_sink;

void fail(const char *step, ...) {
  int error = errno;
  char text[sizeof failure_sink->step];
  va_list rest;
  va_start(rest, step);
  vsnprintf(text, sizeof text, step, rest);
  va_end(rest);
  if (failure_sink) {
    memcpy(failure_sink->step, text, sizeof text);
    failure_sink->error = error ? error : EIO;
    _exit(EXIT_BROKEN);
  }
  fprintf(stderr, "launcher: %s: %s\n", text, strerror(error));
  /* Init may use the memory of another process: nothing of that process is to run. */
  _exit(EXIT_BROKEN);
}

long must(long result, const char *step) {
  if (result == -1) fail("%s", step);
  return result;
}

const char *no_room(int error) {
  return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE ? NO_ROOM : "";
}

pid_t must_fork(long pid, const char *step) {
  if (pid < 0) fail("%s%s", no_room(errno), step);
  return (pid_t)pid;
}
