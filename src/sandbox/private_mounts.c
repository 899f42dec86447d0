/*
 * A chroot changes the root of a process, and not that of its mount namespace. There a mount cannot change how "/" is
 * shared, pivot_root fails, and setns leads out of the chroot. So in a chroot its folder first becomes the root of the
 * namespace; what lies outside is then no longer mounted.
 */
#define _GNU_SOURCE
#include "private_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_root(int directory) {
  struct stat here, root;
  return !fstat(directory, &here) && !stat("/", &root) && here.st_dev == root.st_dev && here.st_ino == root.st_ino;
}

/* The folder under which a mount of it is found is the one that this process is in. */
static int enter_mount_of(int directory) {
  char path[4096];
  if (fchdir(directory) || mount(".", ".", NULL, MS_BIND | MS_REC, NULL)) return -1;
  ssize_t length = readlink("/proc/self/cwd", path, sizeof path - 1);
  if (length < 0) return -1;
  path[length] = 0;
  return chdir(path);
}

static int make_root(int directory) {
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return errno;
  if (is_root(directory)) return chdir("/") ? errno : 0;
  if (enter_mount_of(directory) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH)) return errno;
  return chdir("/") ? errno : 0;
}

int make_mounts_private(void) {
  int directory = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int namespace = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  /* The root of this process is then that of its namespace. */
  int error = directory < 0 || namespace < 0 || setns(namespace, CLONE_NEWNS) ? errno : make_root(directory);
  if (directory >= 0) close(directory);
  if (namespace >= 0) close(namespace);
  return error;
}
