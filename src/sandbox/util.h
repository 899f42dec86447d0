/* Small things that every part of the launcher needs: dying with a name, clocks, whole-file I/O. */
#ifndef RUNLEDGER_UTIL_H
#define RUNLEDGER_UTIL_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Exit codes of the launcher itself; the client tells them apart. */
enum { EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_NO_ISOLATION = 3 };

/* Where a failing step is told: the box's shared page in a slot, standard error elsewhere. */
struct fault {
  int error;      /* errno of the step that failed; 0: none has */
  char step[96];  /* its name, as a person reads it */
};
extern struct fault *fault_sink;

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *step, ...);
/* Fails with the step's name where the call answered -1; else gives its answer. */
long must(long answer, const char *step);

uint64_t clock_us(void);

/* One counter out of a kernel file that holds a number, or lines of "name number". */
uint64_t read_counter(int fd, const char *name);
bool write_text(int dir, const char *path, const char *text);
bool write_number(int fd, uint64_t number);
ssize_t read_text(int dir, const char *path, char *text, size_t size);

/* A directory with all that is in it; links are removed, not followed. */
void remove_tree(int directory, const char *name);

/*
 * Memory that holds what a customer sent or printed. A slot that is forked later, in the place of a
 * dead one, must not inherit it: hence pages that fork leaves out.
 */
struct buffer {
  uint8_t *at;
  size_t used, size;
};
bool buffer_reserve(struct buffer *buffer, size_t size);
bool buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_release(struct buffer *buffer);
#endif
