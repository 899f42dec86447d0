#define _GNU_SOURCE
#include "cgroup_quota.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel_files.h"

/* The burst can be no longer than the quota of one period, so a slot's period is as long as a short program. */
enum { ALL_PERIOD_US = 20 * 1000, SLOT_PERIOD_US = 100 * 1000 };
/* Above one processor for each slot: init and the slot itself also run, and the kernel hands the quota out in slices. */
enum { SLOT_EXTRA_PERCENT = 5 };

static enum isolation kind;
static long slot_quota_us; /* 0: no quotas */

static long capacity(const char *base);
static bool set_quota(int directory, long quota_us, long period_us, long burst_us);
static bool set_number(int directory, const char *name, long value);
static void explain(const char *base, char *why, size_t size);

bool quota_all(int directory, const struct cgroup_layout *layout, unsigned slots, unsigned reserve_percent, char *why, size_t size) {
  kind = layout->kind;
  slot_quota_us = 0;
  if (directory >= 0 && !reserve_percent) {
    /* A launcher before this one may have set some. */
    set_quota(directory, -1, ALL_PERIOD_US, 0);
    return true;
  }
  const char *base = layout->cpu < 0 ? "" : layout->bases[layout->cpu];
  long processors = capacity(base), all = processors / 100 * (100 - (long)reserve_percent);
  long part = processors / (long)slots, least = SLOT_PERIOD_US;
  if (directory < 0 || !set_quota(directory, all / (SLOT_PERIOD_US / ALL_PERIOD_US), ALL_PERIOD_US, 0)) {
    explain(base, why, size);
    return false;
  }
  slot_quota_us = (part > least ? part : least) / 100 * (100 + SLOT_EXTRA_PERCENT);
  /* In v1 the kernel accepts no quota above that of the group above. */
  if (slot_quota_us > all) slot_quota_us = all;
  return true;
}

bool quota_slot(int directory) {
  return !slot_quota_us || set_quota(directory, slot_quota_us, SLOT_PERIOD_US, slot_quota_us);
}

/* What the processors of this machine, or of its container, can do in SLOT_PERIOD_US. */
static long capacity(const char *base) {
  cpu_set_t set;
  char path[600], text[64];
  long count = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
  long least = count * SLOT_PERIOD_US;
  for (size_t length = strlen(base); length > 1; length = (size_t)(strrchr(path, '/') - path)) {
    long quota = -1, period = 0;
    snprintf(path, sizeof path, "%.*s/%s", (int)length, base, kind == ISOLATION_V1 ? "cpu.cfs_quota_us" : "cpu.max");
    bool there = read_text(AT_FDCWD, path, text, sizeof text) > 0 && sscanf(text, "%ld %ld", &quota, &period) >= 1;
    if (kind == ISOLATION_V1) {
      snprintf(path, sizeof path, "%.*s/cpu.cfs_period_us", (int)length, base);
      there = there && read_text(AT_FDCWD, path, text, sizeof text) > 0 && sscanf(text, "%ld", &period) == 1;
    }
    if (there && quota > 0 && period > 0 && quota * SLOT_PERIOD_US / period < least) least = quota * SLOT_PERIOD_US / period;
    path[length] = 0;
  }
  return least;
}

/* quota_us -1: none. */
static bool set_quota(int directory, long quota_us, long period_us, long burst_us) {
  if (kind != ISOLATION_V1) {
    char text[64];
    if (quota_us < 0) return write_text(directory, "cpu.max", "max");
    snprintf(text, sizeof text, "%ld %ld", quota_us, period_us);
    if (!write_text(directory, "cpu.max", text)) return false;
    set_number(directory, "cpu.max.burst", burst_us);
    return true;
  }
  if (!set_number(directory, "cpu.cfs_period_us", period_us) || !set_number(directory, "cpu.cfs_quota_us", quota_us)) return false;
  set_number(directory, "cpu.cfs_burst_us", burst_us);
  return true;
}

static bool set_number(int directory, const char *name, long value) {
  char text[24];
  snprintf(text, sizeof text, "%ld", value);
  return write_text(directory, name, text);
}

static void explain(const char *base, char *why, size_t size) {
  const char *remedy = kind == ISOLATION_V1 ? (*base ? "use a kernel with CONFIG_CFS_BANDWIDTH" : "mount -t cgroup -o cpu none /sys/fs/cgroup/cpu")
                       : kind == ISOLATION_V2_USER ? "set Delegate=cpu memory pids in user@.service (`systemctl edit user@.service`)"
                       : "enable it in cgroup.subtree_control of the groups above, or use a kernel with CONFIG_CFS_BANDWIDTH";
  snprintf(why, size, "no quotas of the processors, so that a program can starve the service and other programs; "
           "the cpu controller cannot be used%s%s: %s", *base ? " in " : "", base, remedy);
}
