#define _GNU_SOURCE
#include "cgroup_v1.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "kernel_files.h"

/* cgroup_files.c relies on this order. The last may be missing: then there are no quotas (cgroup_quota.h). */
static const char *const CONTROLLERS[] = {"memory", "cpuacct", "pids", "cpu"};

static bool find_mount(const char *controller, char *root, char *point);
static bool find_own(const char *controller, char *path);
static bool lists(const char *list, const char *word);

bool v1_find(struct cgroup_layout *layout, char *why, size_t size) {
  *layout = (struct cgroup_layout){.kind = ISOLATION_V1, .cpu = -1};
  for (unsigned c = 0; c < COUNT(CONTROLLERS); c++) {
    char root[256], point[256], own[256];
    bool there = find_mount(CONTROLLERS[c], root, point) && find_own(CONTROLLERS[c], own);
    if (!there && c == 3) break;
    if (!there) {
      snprintf(why, size, "control groups v1: no hierarchy has the %s controller", CONTROLLERS[c]);
      return false;
    }
    const char *below = own;
    if (strcmp(root, "/") && !strncmp(own, root, strlen(root))) below = own + strlen(root);
    snprintf(layout->bases[c], sizeof layout->bases[c], "%s%s", point, strcmp(below, "/") ? below : "");
    /* cpu and cpuacct are often one hierarchy. It is listed once, or its lock would be taken twice. */
    bool joint = c == 3 && !strcmp(layout->bases[3], layout->bases[1]);
    if (c == 3) layout->cpu = joint ? 1 : 3;
    if (joint) break;
    layout->hierarchies = c + 1;
  }
  if (!is_machine_root()) {
    snprintf(why, size, "only the machine's root can use control groups v1, which this machine has: run the worker as root, or boot "
             "with systemd.unified_cgroup_hierarchy=1 for version 2");
    return false;
  }
  if (access(layout->bases[0], W_OK)) {
    snprintf(why, size, "the control group %s is not writable: start the container with `--privileged`, or mount "
             "/sys/fs/cgroup read-write", layout->bases[0]);
    return false;
  }
  return true;
}

static bool find_mount(const char *controller, char *root, char *point) {
  FILE *mounts = fopen("/proc/self/mountinfo", "re");
  char line[4096];
  bool found = false;
  while (mounts && !found && fgets(line, sizeof line, mounts)) {
    char *rest = strstr(line, " - cgroup ");
    char options[512];
    if (!rest || sscanf(rest, " - cgroup %*s %511s", options) != 1) continue;
    found = lists(options, controller) && sscanf(line, "%*s %*s %*s %255s %255s", root, point) == 2;
  }
  if (mounts) fclose(mounts);
  return found;
}

static bool find_own(const char *controller, char *path) {
  FILE *groups = fopen("/proc/self/cgroup", "re");
  char line[1024], controllers[256];
  bool found = false;
  while (groups && !found && fgets(line, sizeof line, groups))
    found = sscanf(line, "%*d:%255[^:]:%255[^\n]", controllers, path) == 2 && lists(controllers, controller);
  if (groups) fclose(groups);
  return found;
}

static bool lists(const char *list, const char *word) {
  size_t width = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += width)
    if ((at == list || at[-1] == ',') && (at[width] == ',' || at[width] == 0)) return true;
  return false;
}
