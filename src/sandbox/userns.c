/*
 * Who a slot's programs are: an id of the machine's own, or, for a launcher that is no root, an id of
 * a user namespace that the slot makes. With subordinate ids (newuidmap) each slot's programs get an
 * id of their own; without, they share the worker's, and what keeps them apart is everything else:
 * they see no process, no file and no socket of the worker's, and hold no capability.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch.h"

enum { INSIDE = 1000 };

static const char *const NEWUIDMAP = "/usr/bin/newuidmap";
static const char *const NEWGIDMAP = "/usr/bin/newgidmap";

static unsigned long first_subordinate(const char *path);
static unsigned long own_subordinate(const char *path, unsigned slot);
static bool map_by_helper(const char *helper, pid_t pid, unsigned own, unsigned long outside);
static bool map_own(pid_t pid, const char *file, unsigned own);

/* Without namespaces something else must keep a program from its worker's memory and life. */
bool degraded_usable(char *why, size_t size) {
  if (geteuid() == 0 || landlock_scopes_signals()) return true;
  snprintf(why, size, "rlimits: this machine gives neither another user id (the worker is not root) nor Landlock "
           "with signal scopes (Linux 6.12): a program could read and end its worker");
  return false;
}

void identity_choose(struct identity *identity, unsigned slot) {
  if (groups_kind() == ISOLATION_RLIMITS && geteuid() != 0) {
    *identity = (struct identity){.uid = getuid(), .gid = getgid(), .shares_uid = true};
    return;
  }
  if (groups_kind() != ISOLATION_V2_USER) {
    /* Instances claim disjoint ranges, as they claim control groups: no two boxes share an id. */
    unsigned instance = groups_instance();
    /* Without groups the claims are of another kind: both kinds at once must not meet in one id. */
    if (groups_kind() == ISOLATION_RLIMITS) instance += MAX_INSTANCES;
    unsigned id = launcher.options.uid_base + instance * MAX_SLOTS + slot;
    *identity = (struct identity){.uid = id, .gid = id};
    return;
  }
  bool helped = own_subordinate("/etc/subuid", slot) && own_subordinate("/etc/subgid", slot) &&
                !access(NEWUIDMAP, X_OK) && !access(NEWGIDMAP, X_OK);
  *identity = (struct identity){.uid = INSIDE, .gid = INSIDE, .own_namespace = true, .shares_uid = !helped};
}

static unsigned long own_subordinate(const char *path, unsigned slot) {
  unsigned long first = first_subordinate(path);
  return first ? first + groups_instance() * MAX_SLOTS + slot : 0;
}

/* By hand: a static program has no name service. */
static void own_name(char *own, size_t size) {
  FILE *file = fopen("/etc/passwd", "re");
  char line[512], name[128];
  unsigned id;
  *own = 0;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%127[^:]:%*[^:]:%u:", name, &id) == 2 && id == getuid()) snprintf(own, size, "%s", name);
  if (file) fclose(file);
}

/* Lines of name:first:count; a range too short for every instance's slots is as none. */
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

void identity_map(const struct slot *slot) {
  bool done;
  if (slot->identity.shares_uid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/setgroups", slot->pid);
    write_text(AT_FDCWD, path, "deny");
    done = map_own(slot->pid, "uid_map", getuid()) && map_own(slot->pid, "gid_map", getgid());
  } else {
    done = map_by_helper(NEWUIDMAP, slot->pid, getuid(), own_subordinate("/etc/subuid", slot->number)) &&
           map_by_helper(NEWGIDMAP, slot->pid, getgid(), own_subordinate("/etc/subgid", slot->number));
  }
  if (!done) fprintf(stderr, "launcher: the ids of a user namespace cannot be mapped: %s\n", strerror(errno));
  send_message(slot->control, MESSAGE_MAP, NULL, 0);
}

static bool map_own(pid_t pid, const char *file, unsigned own) {
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
  snprintf(line, sizeof line, "%d %u 1\n", INSIDE, own);
  return write_text(AT_FDCWD, path, line);
}

/* Root inside is the caller; the program is an id that nobody else is. */
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

/* Whether an ordinary user may make user namespaces here that are of any use. */
bool userns_usable(char *why, size_t size) {
  char text[32];
  int status = 0;
  pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) ? errno : 0);
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  const char *apparmor = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
  const char *debian = "/proc/sys/kernel/unprivileged_userns_clone";
  if (read_text(AT_FDCWD, apparmor, text, sizeof text) > 0 && text[0] == '1')
    snprintf(why, size, "AppArmor keeps user namespaces from ordinary users (Ubuntu 24.04 does): "
             "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or a profile for the launcher");
  else if (read_text(AT_FDCWD, debian, text, sizeof text) > 0 && text[0] == '0')
    snprintf(why, size, "ordinary users may not make user namespaces: sysctl -w kernel.unprivileged_userns_clone=1");
  else
    snprintf(why, size, "no user namespace can be made (%s): sysctl -w user.max_user_namespaces=15000, or run as root",
             strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EPERM));
  return false;
}
