/*
 * Message queues count against RLIMIT_MSGQUEUE of a user, over all ipc namespaces. The kernel removes a
 * namespace some time after its last process, and a program can make that take long. The next run of
 * the slot has the same user, so it would find the limit used up. So the slot waits for the removal.
 *
 * The kernel does not show the count. But a process may make a queue only if the user's queues together
 * stay below the process's own limit. So the slot has a limit that just suffices for one queue, takes
 * the program's user as its real one, and tries. No process of that user exists at that time.
 *
 * The count is one for all containers of a machine that have no user namespace of their own. So a queue also serves as a
 * launcher's claim to a range of ids, which no other launcher can then make (identity.c).
 */
#define _GNU_SOURCE
#include "queues.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "failure.h"

/*
 * After about 5 s the slot goes on, because a new slot would have the same user. The queues can also be others: those of
 * an ordinary user count in all of that user's namespaces.
 */
enum { TRIES_MOST = 5000 };
/* The kernel adds about 100 bytes for each message that fits. */
enum { PROBE_BYTES = 4096, LIMIT_BYTES = PROBE_BYTES + 512 };
static const char PROBE[] = "probe";

static bool can_make_queue(uid_t user);
static int make_queue(uid_t user, const char *name);

void queues_open(void) {
  struct rlimit limit;
  must(getrlimit(RLIMIT_MSGQUEUE, &limit), "read the limit of message queues");
  limit.rlim_cur = LIMIT_BYTES;
  must(setrlimit(RLIMIT_MSGQUEUE, &limit), "limit the slot's message queues");
}

void queues_await_removed(uid_t user) {
  for (int tries = 0; tries < TRIES_MOST && !can_make_queue(user); tries++) usleep(tries < 20 ? 100 : 1000);
}

static bool can_make_queue(uid_t user) {
  const int queue = make_queue(user, PROBE);
  if (queue >= 0) close(queue);
  return queue >= 0 || errno != EMFILE;
}

int queue_hold(uid_t user) {
  char name[32];
  snprintf(name, sizeof name, "runledger.%u", user);
  /* A launcher that was killed between two calls has left the name. The queue of one that lives needs none. */
  syscall(SYS_mq_unlink, name);
  const int queue = make_queue(user, name);
  /* Another launcher is between these two calls. */
  if (queue < 0 && errno == EEXIST) errno = EMFILE;
  return queue;
}

/* The name is gone when this returns. */
static int make_queue(uid_t user, const char *name) {
  struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = PROBE_BYTES};
  const uid_t own = getuid();
  if (user != own) must(setresuid(user, -1, -1), "take the user of a queue");
  const int queue = (int)syscall(SYS_mq_open, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes), error = errno;
  if (user != own) must(setresuid(own, -1, -1), "return to this process's user");
  if (queue >= 0) syscall(SYS_mq_unlink, name);
  errno = error;
  return queue;
}
