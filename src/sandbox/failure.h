/*
 * How a step fails: the process ends, and the step's name and errno go to a place where someone reads
 * them. In a slot that is the page shared with the launcher; elsewhere it is standard error.
 */
#ifndef RUNLEDGER_FAILURE_H
#define RUNLEDGER_FAILURE_H
#include <sys/types.h>

/* Exit codes of the launcher itself. The client tells them apart. */
enum { EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_NO_ISOLATION = 3 };

struct failure {
  int error;     /* errno of the step that failed; 0: no step has failed */
  char step[96]; /* the step's name, for a person */
};
/* Where fail() records the failure; NULL: on standard error. */
extern struct failure *failure_sink;

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *step, ...);
/* Fails with the step's name if the call returned -1; otherwise returns its result. */
long must(long result, const char *step);
/* The same for a new process. Where the machine has no room for one, the step's name begins with no_room(). */
pid_t must_fork(long pid, const char *step);
/* How a fault begins that is due to what the machine lacks. The client tells it apart. */
#define NO_ROOM "no room: "
/* NO_ROOM if the error means this, else nothing. */
const char *no_room(int error);

#endif
