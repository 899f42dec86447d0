/*
 * Message queues count against RLIMIT_MSGQUEUE of a user, over all ipc namespaces. The kernel removes a
 * namespace some time after its last process, and a program can make that take long. The next run of
 * the slot has the same user, so it would find the limit used up. So the slot waits for the removal.
 *
 * The kernel does not show the count. But a process may make a queue only if the user's queues together
 * stay below the process's own limit. So the slot has a limit that just suffices for one queue, takes
 * the program's user as its real one, and tries. No process of that user exists at that time.
 */
#define _GNU_SOURCE
#include "queues.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdbool.h>
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

static bool can_make_queue(const struct identity *identity);

void queues_open(void) {
  struct rlimit limit;
  must(getrlimit(RLIMIT_MSGQUEUE, &limit), "read the limit of message queues");
  limit.rlim_cur = LIMIT_BYTES;
  must(setrlimit(RLIMIT_MSGQUEUE, &limit), "limit the slot's message queues");
}

void queues_await_removed(const struct identity *identity) {
  for (int tries = 0; tries < TRIES_MOST && !can_make_queue(identity); tries++) usleep(tries < 20 ? 100 : 1000);
}

static bool can_make_queue(const struct identity *identity) {
  struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = PROBE_BYTES};
  uid_t own = getuid();
  if (!identity->shares_uid) must(setresuid(identity->uid, -1, -1), "take the program's user");
  int queue = (int)syscall(SYS_mq_open, PROBE, O_RDWR | O_CREAT | O_CLOEXEC, 0600, &attributes);
  bool full = queue < 0 && errno == EMFILE;
  if (!identity->shares_uid) must(setresuid(own, -1, -1), "return to the slot's user");
  if (queue < 0) return !full;
  close(queue);
  syscall(SYS_mq_unlink, PROBE);
  return true;
}
