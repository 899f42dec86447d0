#define _GNU_SOURCE
#include "cgroup_v2.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "kernel_files.h"

static const char WORKER_GROUP[] = "runledger.worker";
static const char FOR_USERS[] = "start the worker with `systemd-run --user --scope -p Delegate=yes`, or run it as root";

static bool find_mount(char *point, size_t size);
static bool find_own(char *path, size_t size);
static bool has_controllers(const char *directory);
static bool is_true_root(const char *directory);
static bool is_delegated(const char *directory);
static bool kernel_counts_peaks(void);

bool v2_find(struct cgroup_layout *layout, char *why, size_t size) {
  char point[256], own[250], base[512];
  *layout = (struct cgroup_layout){.hierarchies = 1};
  if (!find_mount(point, sizeof point) || !find_own(own, sizeof own)) {
    snprintf(why, size, "control groups v2 are not mounted: mount -t cgroup2 none /sys/fs/cgroup");
    return false;
  }
  snprintf(base, sizeof base, "%s%s", point, strcmp(own, "/") ? own : "");
  char *last = strrchr(base, '/');
  if (last && !strcmp(last + 1, WORKER_GROUP)) *last = 0;
  bool root = is_machine_root();
  /* Root outside a delegated group puts its groups at the top, beside systemd's. */
  if (root && !is_true_root(base) && !is_delegated(base) && strcmp(base, point) && is_true_root(point))
    snprintf(base, sizeof base, "%s", point);
  if (!has_controllers(base)) {
    snprintf(why, size, "the control group %s has no memory and pids controllers: %s", base, geteuid() != 0 ? FOR_USERS :
             "in a container, give it a private cgroup namespace; on a hybrid machine, boot with cgroup_no_v1=all");
    return false;
  }
  if (access(base, W_OK)) {
    snprintf(why, size, "the control group %s is not writable: %s", base, geteuid() != 0 ? FOR_USERS :
             "start the container with `--privileged`, or mount /sys/fs/cgroup read-write");
    return false;
  }
  if (!kernel_counts_peaks()) {
    snprintf(why, size, "control groups v2: memory.peak needs Linux 5.19 or newer");
    return false;
  }
  layout->kind = root ? ISOLATION_V2 : ISOLATION_V2_USER;
  snprintf(layout->bases[0], sizeof layout->bases[0], "%s", base);
  return true;
}

static bool find_mount(char *point, size_t size) {
  FILE *mounts = fopen("/proc/self/mountinfo", "re");
  char line[4096], format[32];
  bool found = false;
  snprintf(format, sizeof format, "%%*s %%*s %%*s %%*s %%%zus", size - 1);
  while (mounts && !found && fgets(line, sizeof line, mounts))
    found = strstr(line, " - cgroup2 ") && sscanf(line, format, point) == 1;
  if (mounts) fclose(mounts);
  return found;
}

static bool find_own(char *path, size_t size) {
  char text[4096];
  if (read_text(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0) return false;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    if (!strncmp(line, "0::", 3)) return snprintf(path, size, "%s", line + 3) < (int)size;
  return false;
}

static bool has_controllers(const char *directory) {
  char path[600], text[512];
  snprintf(path, sizeof path, "%s/cgroup.controllers", directory);
  return read_text(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, "memory") && strstr(text, "pids");
}

static bool is_true_root(const char *directory) {
  char path[600];
  snprintf(path, sizeof path, "%s/cgroup.type", directory);
  return access(path, F_OK) != 0;
}

/* systemd marks the groups that it delegates. The root of a cgroup namespace counts as delegated. */
static bool is_delegated(const char *directory) {
  char mark[8], own[256];
  if (getxattr(directory, "trusted.delegate", mark, sizeof mark) > 0) return true;
  if (getxattr(directory, "user.delegate", mark, sizeof mark) > 0) return true;
  return find_own(own, sizeof own) && (!strcmp(own, "/") || (own[0] == '/' && !strcmp(own + 1, WORKER_GROUP)));
}

static bool kernel_counts_peaks(void) {
  struct utsname name;
  unsigned major = 0, minor = 0;
  uname(&name);
  sscanf(name.release, "%u.%u", &major, &minor);
  return major > 5 || (major == 5 && minor >= 19);
}

bool v2_settle(const char *base) {
  char list[16384], path[600];
  if (is_true_root(base)) return true;
  snprintf(path, sizeof path, "%s/%s", base, WORKER_GROUP);
  if (mkdir(path, 0755) && errno != EEXIST) return false;
  for (int tries = 0; tries < 50; tries++) {
    snprintf(path, sizeof path, "%s/cgroup.procs", base);
    if (read_text(AT_FDCWD, path, list, sizeof list) <= 0) return true;
    snprintf(path, sizeof path, "%s/%s/cgroup.procs", base, WORKER_GROUP);
    for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n")) write_text(AT_FDCWD, path, line);
  }
  return false;
}

bool v2_delegate(int directory) {
  write_text(directory, "cgroup.subtree_control", "+cpu"); /* cgroup_quota.h says what is lost without it */
  return write_text(directory, "cgroup.subtree_control", "+memory +pids");
}
