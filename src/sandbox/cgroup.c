#define _GNU_SOURCE
#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup_quota.h"
#include "cgroup_v1.h"
#include "cgroup_v2.h"
#include "kernel_files.h"
#include "remove_tree.h"

static struct cgroup_layout layout;
static int instance_directories[HIERARCHIES] = {-1, -1, -1, -1};
static unsigned instance;

static bool delegate_base(char *why, size_t size);
static bool sweep_directory(int directory);
static bool remove_all(int directory);
static bool empty_group(int directory);
static bool lock_instance(unsigned number, bool make, int *directories);
static bool lock_directory(int *directory, const char *path);
static void leave_instance(unsigned number, int *directories);

bool groups_find(enum isolation wanted, char *why, size_t size) {
  bool try_v1 = wanted == ISOLATION_AUTO || wanted == ISOLATION_V1;
  bool try_v2 = wanted == ISOLATION_AUTO || wanted == ISOLATION_V2 || wanted == ISOLATION_V2_USER;
  char without_v1[512] = "", without_v2[512] = "";
  if (wanted == ISOLATION_RLIMITS) {
    /* There are no groups, but the working directories are claimed, locked and swept in the same way. */
    layout = (struct cgroup_layout){.kind = ISOLATION_RLIMITS, .hierarchies = 1, .bases = {"/tmp"}};
    return true;
  }
  bool found = (try_v2 && v2_find(&layout, without_v2, sizeof without_v2)) ||
               (try_v1 && v1_find(&layout, without_v1, sizeof without_v1));
  /* If the controllers are in v1, the remedy is v1's. */
  if (!found) snprintf(why, size, "%s", layout.kind == ISOLATION_V1 && layout.hierarchies ? without_v1 : without_v2);
  return found;
}

enum isolation groups_kind(void) { return layout.kind; }
const char *groups_base(void) { return layout.bases[0]; }
unsigned groups_instance(void) { return instance; }

/* v2, as root or as an ordinary user: one tree, run groups, delegation. */
static bool has_tree(void) { return layout.kind == ISOLATION_V2 || layout.kind == ISOLATION_V2_USER; }

bool groups_claim(char *why, size_t size) {
  bool claimed = false;
  if (has_tree() && !delegate_base(why, size)) return false;
  for (unsigned number = 0; number < MAX_INSTANCES; number++) {
    int directories[HIERARCHIES] = {-1, -1, -1, -1};
    if (!lock_instance(number, !claimed, directories)) continue;
    for (unsigned h = 0; h < layout.hierarchies; h++) sweep_directory(directories[h]);
    if (claimed) {
      leave_instance(number, directories);
      continue;
    }
    memcpy(instance_directories, directories, sizeof directories);
    instance = number;
    claimed = true;
  }
  if (!claimed) {
    snprintf(why, size, "no control group can be made below %s: %s", layout.bases[0], strerror(errno));
    return false;
  }
  return !has_tree() || v2_delegate(instance_directories[0]);
}

bool groups_limit_cpu(unsigned slots, unsigned reserve_percent, char *why, size_t size) {
  if (layout.kind == ISOLATION_RLIMITS) return true;
  return quota_all(layout.cpu < 0 ? -1 : instance_directories[layout.cpu], &layout, slots, reserve_percent, why, size);
}

static bool delegate_base(char *why, size_t size) {
  int base = open(layout.bases[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool done = base >= 0 && v2_settle(layout.bases[0]) && v2_delegate(base);
  if (!done)
    snprintf(why, size, "the memory and pids controllers cannot be delegated in %s: %s", layout.bases[0], strerror(errno));
  if (base >= 0) close(base);
  return done;
}

/* Locks one instance in all hierarchies, or in none of them. */
static bool lock_instance(unsigned number, bool make, int *directories) {
  bool locked = true, found = false;
  char path[600];
  for (unsigned h = 0; locked && h < layout.hierarchies; h++) {
    snprintf(path, sizeof path, "%s/runledger.%u", layout.bases[h], number);
    if (make) mkdir(path, 0755);
    /* Without groups the base is /tmp, where anybody can make a link of this name to a folder of others. */
    directories[h] = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* For a sweep, the instance may exist in only some of the hierarchies. */
    locked = directories[h] < 0 ? !make : lock_directory(&directories[h], path);
    found = found || directories[h] >= 0;
  }
  if (locked && found) return true;
  leave_instance(number, directories);
  return false;
}

/*
 * Only the holder of a directory's lock removes the directory. A launcher that waits to lock it then
 * finds that it is gone, and an instance that is in use keeps its directories.
 */
static void leave_instance(unsigned number, int *directories) {
  char path[600];
  for (unsigned h = 0; h < layout.hierarchies; h++) {
    snprintf(path, sizeof path, "%s/runledger.%u", layout.bases[h], number);
    if (directories[h] >= 0) rmdir(path);
  }
  close_all(directories, HIERARCHIES);
}

/* Locks a directory. Its last owner may have removed it just before: then the path is another directory, or none. */
static bool lock_directory(int *directory, const char *path) {
  struct stat locked, named;
  if (!flock(*directory, LOCK_EX | LOCK_NB) && !fstat(*directory, &locked) && !lstat(path, &named) &&
      locked.st_dev == named.st_dev && locked.st_ino == named.st_ino && locked.st_uid == geteuid())
    return true;
  close(*directory);
  *directory = -1;
  return false;
}

/* A killed process ends when it gets a processor: on a busy machine that can take seconds. 30 s in all. */
enum { KILL_PAUSE_US = 2000, KILL_LOOKS = 15000 };

/* Kills the processes of every group below a directory, then removes the groups. Without groups it removes working directories. */
static bool sweep_directory(int directory) {
  if (directory < 0) return true;
  if (layout.kind == ISOLATION_RLIMITS) return remove_all(directory);
  int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy < 0 ? NULL : fdopendir(copy);
  if (!list) return false;
  bool clean = true;
  for (struct dirent *entry; (entry = readdir(list));) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    int child = openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (child < 0) continue;
    sweep_directory(child);
    for (int tries = 0; tries < KILL_LOOKS && !empty_group(child); tries++) usleep(KILL_PAUSE_US);
    close(child);
    if (unlinkat(directory, entry->d_name, AT_REMOVEDIR)) clean = false;
  }
  closedir(list);
  return clean;
}

static bool remove_all(int directory) {
  int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy < 0 ? NULL : fdopendir(copy);
  for (struct dirent *entry; list && (entry = readdir(list));)
    if (entry->d_name[0] != '.') remove_tree(directory, entry->d_name);
  if (list) closedir(list);
  return list != NULL;
}

/* Sends SIGKILL once to every process in a group. true: the group has none. */
static bool empty_group(int directory) {
  char list[8192];
  /* There are no groups: a program wrote any file of this name. */
  if (layout.kind == ISOLATION_RLIMITS) return true;
  if (read_text(directory, "cgroup.procs", list, sizeof list) <= 0) return true;
  /* v2 kills in one step, including processes whose user the launcher may not signal. */
  if (write_text(directory, "cgroup.kill", "1")) return false;
  for (char *line = list, *end; *line; line = end + 1) {
    long pid = strtol(line, &end, 10);
    /* The kernel writes a newline behind each number: without it, this one was cut off. */
    if (*end != '\n') break;
    if (pid > 1 && pid != getpid()) kill((pid_t)pid, SIGKILL);
  }
  return false;
}

bool group_make(struct group *group, unsigned slot) {
  group_clear(group, layout.kind);
  snprintf(group->name, sizeof group->name, "s%u", slot);
  for (unsigned h = 0; h < layout.hierarchies; h++) {
    if (mkdirat(instance_directories[h], group->name, 0755) && errno != EEXIST) return false;
    group->directories[h] = openat(instance_directories[h], group->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (group->directories[h] < 0) return false;
  }
  if (layout.kind == ISOLATION_RLIMITS) return true;
  if (has_tree() && (!v2_delegate(group->directories[0]) || (mkdirat(group->directories[0], "slot", 0755) && errno != EEXIST)))
    return false;
  /* Without this a program could trade its memory limit for the machine's swap. Run groups inherit it. */
  if (!has_tree()) write_text(group->directories[0], "memory.swappiness", "0");
  if (layout.cpu >= 0 && !quota_slot(group->directories[layout.cpu])) return false;
  group_open(group);
  return has_tree() || (group->cpu >= 0 && group->process_limit >= 0);
}

/* After a sweep. A new directory is a new group: it is not charged for memory that the old one still has. */
void group_unmake(struct group *group) {
  close_all(group->files, GROUP_FILES);
  if (group->run_group >= 0) close(group->run_group);
  /* Files can take long to remove, and other runs wait for the launcher: so the new slot removes them (degraded.c). */
  for (unsigned h = 0; h < layout.hierarchies && layout.kind != ISOLATION_RLIMITS; h++) {
    sweep_directory(group->directories[h]);
    unlinkat(instance_directories[h], group->name, AT_REMOVEDIR);
  }
  close_all(group->directories, HIERARCHIES);
}

bool group_sweep(struct group *group) {
  bool empty = true;
  for (unsigned h = 0; h < layout.hierarchies; h++) {
    empty = empty_group(group->directories[h]) && empty;
    int copy = openat(group->directories[h], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *entry; list && (entry = readdir(list));) {
      if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
      int child = openat(group->directories[h], entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      empty = empty_group(child) && empty;
      close(child);
      if (entry->d_name[0] == 'r') unlinkat(group->directories[h], entry->d_name, AT_REMOVEDIR);
    }
    if (list) closedir(list);
  }
  return empty;
}

void groups_remove(void) {
  for (unsigned h = 0; h < layout.hierarchies; h++) sweep_directory(instance_directories[h]);
  leave_instance(instance, instance_directories);
}
