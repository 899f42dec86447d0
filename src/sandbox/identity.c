#define _GNU_SOURCE
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array.h"
#include "cgroup.h"
#include "failure.h"
#include "kernel_files.h"
#include "options.h"
#include "private_mounts.h"
#include "queues.h"

enum { INSIDE = 1000 };
/*
 * All ids that launchers may take: for slots in full isolation, for those in degraded isolation, for what ends a degraded run,
 * and one for the claim of each range. The two kinds of isolation can run at once, and their ranges differ.
 */
enum { OF_KIND = MAX_INSTANCES * MAX_SLOTS, CLAIMS = 3 * OF_KIND, IDS = CLAIMS + 2 * MAX_INSTANCES };
/* For a container whose user namespace has the usual 65,536 ids: outside the ranges that Debian and systemd assign there. */
enum { CONTAINER_BASE = 40000 };

/*
 * Of message queues. An ordinary user has 800 KiB, which the kernel counts over all slots' user namespaces. The slots
 * share them, but for what their probes need (queues.c). A program of root's launcher has a user of its own.
 */
enum { QUEUE_BYTES = 512 << 10, USER_QUEUE_BYTES = (800 - 64) << 10, MOST_OF_USER = 64 << 10 };

static const char *const NEWUIDMAP = "/usr/bin/newuidmap";
static const char *const NEWGIDMAP = "/usr/bin/newgidmap";

static enum isolation kind;
static unsigned range; /* this launcher's */

/* A shortage in it may pass, so it does not count as missing isolation. */
static const char PROBE[] = "fork a probe of the isolation";

static unsigned long first_subordinate(const char *path);
static unsigned long own_subordinate(const char *path, unsigned slot);
static bool map_by_helper(const char *helper, pid_t pid, unsigned own, unsigned long outside);
static bool map_own(pid_t pid, const char *file, unsigned own);
static unsigned degraded_base(unsigned uid_base);
static int become(unsigned id);
static int outcome_of(pid_t child);

/*
 * The claim is a message queue. Before Linux 5.14 the kernel counts a user's queues over the whole machine, and since then over
 * each user namespace. The ids of two user namespaces are counted separately, so there they may be the same.
 */
void identity_claim(enum isolation of_kind, unsigned instance, unsigned uid_base) {
  kind = of_kind;
  range = instance;
  if (kind == ISOLATION_RLIMITS) uid_base = degraded_base(uid_base);
  /* An ordinary user's slots have user namespaces of their own. */
  if (kind == ISOLATION_V2_USER || !uid_base) return;
  const unsigned first = kind == ISOLATION_RLIMITS ? MAX_INSTANCES : 0;
  queues_open();
  for (unsigned i = 0; i < MAX_INSTANCES; i++) {
    range = first + (instance + i) % MAX_INSTANCES;
    if (queue_hold(uid_base + CLAIMS + range) >= 0) return;
    if (errno != EMFILE) break;
  }
  range = first + instance;
  /*
   * Where the machine denies queues, only control groups keep launchers apart. Degraded isolation is weaker, but starts
   * anywhere. What is left may pass, so it does not count as missing isolation.
   */
  if (errno == ENOSYS || errno == EPERM || errno == EACCES || (kind == ISOLATION_RLIMITS && errno != EMFILE)) return;
  if (errno == EMFILE) {
    errno = EUSERS;
    fail("share out the user ids from %u on, which %d other launchers on this machine use: run fewer workers on it", uid_base,
         MAX_INSTANCES);
  }
  fail("make a message queue, by which launchers share out the user ids of this machine%s",
       errno == ENOSPC ? " (raise fs.mqueue.queues_max)" : "");
}

void identity_choose(struct identity *identity, unsigned slot, unsigned slots, unsigned uid_base) {
  if (kind == ISOLATION_RLIMITS && !(uid_base = degraded_base(uid_base))) {
    *identity = (struct identity){.uid = getuid(), .gid = getgid(), .shares_uid = true};
    return;
  }
  if (kind != ISOLATION_V2_USER) {
    unsigned id = uid_base + range * MAX_SLOTS + slot;
    *identity = (struct identity){.uid = id, .gid = id, .ender = id + OF_KIND, .queue_bytes = QUEUE_BYTES};
    return;
  }
  bool helped = own_subordinate("/etc/subuid", slot) && own_subordinate("/etc/subgid", slot) &&
                !access(NEWUIDMAP, X_OK) && !access(NEWGIDMAP, X_OK);
  *identity = (struct identity){.uid = INSIDE, .gid = INSIDE, .own_namespace = true, .shares_uid = !helped};
  const unsigned part = USER_QUEUE_BYTES / slots;
  identity->queue_bytes = part < MOST_OF_USER ? part : MOST_OF_USER;
}

static unsigned long own_subordinate(const char *path, unsigned slot) {
  unsigned long first = first_subordinate(path);
  return first ? first + range * MAX_SLOTS + slot : 0;
}

/* Reads the file itself: a static program has no name service. */
static void own_name(char *own, size_t size) {
  FILE *file = fopen("/etc/passwd", "re");
  char line[512], name[128];
  unsigned id;
  *own = 0;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%127[^:]:%*[^:]:%u:", name, &id) == 2 && id == getuid()) snprintf(own, size, "%s", name);
  if (file) fclose(file);
}

/* Lines of name:first:count. A range that is too short for the slots of all instances is ignored. */
static unsigned long first_subordinate(const char *path) {
  FILE *file = fopen(path, "re");
  char line[256], name[128], number[16], own[128];
  own_name(own, sizeof own);
  unsigned long first = 0, found = 0, count = 0;
  snprintf(number, sizeof number, "%u", getuid());
  while (file && !found && fgets(line, sizeof line, file)) {
    if (sscanf(line, "%127[^:]:%lu:%lu", name, &first, &count) != 3) continue;
    bool mine = !strcmp(name, number) || !strcmp(name, own);
    if (mine && count >= (unsigned long)MAX_SLOTS * MAX_INSTANCES) found = first;
  }
  if (file) fclose(file);
  return found;
}

bool identity_map(const struct identity *identity, unsigned slot, pid_t pid) {
  if (!identity->shares_uid)
    return map_by_helper(NEWUIDMAP, pid, getuid(), own_subordinate("/etc/subuid", slot)) &&
           map_by_helper(NEWGIDMAP, pid, getgid(), own_subordinate("/etc/subgid", slot));
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
  write_text(AT_FDCWD, path, "deny");
  return map_own(pid, "uid_map", getuid()) && map_own(pid, "gid_map", getgid());
}

static bool map_own(pid_t pid, const char *file, unsigned own) {
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
  snprintf(line, sizeof line, "%d %u 1\n", INSIDE, own);
  return write_text(AT_FDCWD, path, line);
}

/* Inside the namespace, root is the caller, and the program has an id that no other process has. */
static bool map_by_helper(const char *helper, pid_t pid, unsigned own, unsigned long outside) {
  char target[16], first[16], second[24], inside[16];
  int status = -1;
  snprintf(target, sizeof target, "%d", pid);
  snprintf(first, sizeof first, "%u", own);
  snprintf(inside, sizeof inside, "%d", INSIDE);
  snprintf(second, sizeof second, "%lu", outside);
  pid_t child = fork();
  if (child == 0) {
    execl(helper, helper, target, "0", first, "1", inside, second, "1", (char *)NULL);
    _exit(127);
  }
  if (child > 0) waitpid(child, &status, 0);
  return child > 0 && status == 0;
}

static int outcome_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  const int error = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
  errno = error;
  if (*no_room(error)) fail("%sprobe the isolation", no_room(error));
  return error;
}

static int become(unsigned id) { return syscall(SYS_setgroups, 0, NULL) || setresgid(id, id, id) || setresuid(id, id, id) ? errno : 0; }

static bool can_become(unsigned id) {
  pid_t child = must_fork(fork(), PROBE);
  if (child == 0) _exit(become(id));
  return outcome_of(child) == 0;
}

/* The first and the last id are tried: a user namespace maps ranges. 0: this process cannot take other ids. */
static unsigned degraded_base(unsigned uid_base) {
  static int known = -1;
  const unsigned bases[] = {uid_base, CONTAINER_BASE};
  for (unsigned i = 0; known < 0 && i < COUNT(bases); i++)
    if (can_become(bases[i]) && can_become(bases[i] + IDS - 1)) known = (int)bases[i];
  if (known < 0) known = 0;
  return (unsigned)known;
}

bool other_id_usable(unsigned uid_base) { return degraded_base(uid_base) != 0; }

bool root_usable(unsigned uid_base, char *why, size_t size) {
  pid_t child = must_fork(fork(), PROBE);
  if (child == 0) {
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)) _exit(errno);
    _exit(make_mounts_private());
  }
  int error = outcome_of(child);
  if (!error && can_become(uid_base) && can_become(uid_base + IDS - 1)) return true;
  if (error)
    snprintf(why, size, "root may not make namespaces here (%s), as in a plain container: start the container with "
             "`--privileged`, or run on the machine itself", strerror(error));
  else
    snprintf(why, size, "root may not use the ids from %u here, as in a user namespace: run as root of the machine", uid_base);
  return false;
}

bool userns_usable(char *why, size_t size) {
  char text[32];
  pid_t child = must_fork(fork(), PROBE);
  if (child == 0) _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) ? errno : 0);
  int error = outcome_of(child);
  if (!error) return true;
  const char *apparmor = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
  const char *debian = "/proc/sys/kernel/unprivileged_userns_clone";
  if (read_text(AT_FDCWD, apparmor, text, sizeof text) > 0 && text[0] == '1')
    snprintf(why, size, "AppArmor denies user namespaces to ordinary users (as on Ubuntu 24.04): "
             "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or a profile for the launcher");
  else if (read_text(AT_FDCWD, debian, text, sizeof text) > 0 && text[0] == '0')
    snprintf(why, size, "ordinary users may not make user namespaces: sysctl -w kernel.unprivileged_userns_clone=1");
  else
    snprintf(why, size, "no user namespace can be made (%s): sysctl -w user.max_user_namespaces=15000, or run as root",
             strerror(error));
  return false;
}
