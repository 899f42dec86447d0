/*
 * Read-only roots. Each profile gets a mount namespace of its own, made once when the slot starts, that
 * contains only this root. The fresh mount namespace of a run copies those few mounts instead of all
 * mounts of the machine. The store has a namespace too, so no box ever sees its path.
 *
 * Boxes and host could see and stop each other through inodes that they share: watches, locks and
 * leases belong to an inode. So a directory is mounted as an overlay. Its inodes are the slot's own, and
 * its pages are the machine's, so it takes no memory. Where the kernel has no overlays, or denies them,
 * the directory itself is mounted, and the filter alone denies such calls.
 *
 * A mapping of a file of an overlay belongs to the machine's inode all the same. So each slot has copies
 * of the files that programs map, and of whole folders as far as the memory goes: the slot's roots are
 * directories of one file system, and each has a link to the same copy. What a root has at a place before a directory is
 * mounted there is in front of the files of this directory.
 *
 * The kernel remembers names that were looked up. In one measurement a lookup took 13 us for a new name, 6 us for one that
 * only the file system below the overlay knew, and 1 us for one that the overlay knew. New overlays for each run would leave
 * the difference between 13 and 6 us, and cost 0.1 ms of processor time for each of a profile's overlays, of which Python
 * has two. So a slot keeps its overlays.
 */
#define _GNU_SOURCE
#include "root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "array.h"
#include "failure.h"
#include "private_mounts.h"
#include "wire.h"

/* The file system of the roots is mounted over a directory that no profile uses. */
static const char ROOTS[] = "/sys";
static const char LAYER[] = "/sys/layer";
static const char STAGE[] = "/sys/stage";
/* The root that is being put together. */
static char new_root[16];
/* A slot for boxes that stay open runs no submitted program, so it needs no copies of large files. */
static bool shares_files;
/* A new one for each file would cost more than most copies: the kernel may make it of large pages, and fills those with zeros. */
enum { BUFFER_BYTES = 4 * 1024 * 1024 };
static char *buffer;

static void mount_file_system(void);
static int build_profile(const struct options *options, const struct profile *profile, const struct identity *identity);
static int build_store(const char *store);
static const char *inside(const char *path);
static void begin_root(const char *path);
static int finish_root(void);
static void add_skeleton(const struct identity *identity);
static void add_devices(const struct identity *identity);
static void add_entry(const struct options *options, const struct profile *profile, const struct entry *entry);
static bool find_copy(const struct options *options, const struct profile *profile, const struct entry *entry, char *copy, size_t room);
static void copy_tree(const char *from, const char *to, bool by_links);
static bool overlay(const char *from, const char *to);
static void bind_read_only(const char *from, const char *to);
static void copy_file(const char *from, const char *full);
static void write_file(const char *path, const char *text);
static void make_parents(const char *path);

void roots_build(const struct options *options, const struct identity *identity, bool for_streams, struct roots *roots) {
  shares_files = for_streams;
  errno = make_mounts_private();
  if (errno) fail("make the mounts private");
  umask(0);
  mount_file_system();
  buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) fail("map a buffer");
  int base = (int)must(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), "open the mount namespace");
  for (unsigned i = 0; i < options->profile_count; i++) {
    roots->profiles[i] = build_profile(options, &options->profiles[i], identity);
    must(setns(base, CLONE_NEWNS), "return to the first mount namespace");
  }
  roots->store = options->store ? build_store(options->store) : -1;
  /* The slot stays in this namespace, without the machine's files, and closes the way back. */
  if (roots->store < 0 && options->profile_count)
    must(setns(roots->profiles[0], CLONE_NEWNS), "leave the machine's mounts");
  close(base);
  munmap(buffer, BUFFER_BYTES);
  umask(022);
}

/* Large pages make a program's start shorter: a page fault maps more of a library. Not every kernel has them. */
static void mount_file_system(void) {
  static const char *const OPTIONS[] = {"size=2g,nr_inodes=2m,mode=0755,huge=within_size", "size=2g,nr_inodes=2m,mode=0755"};
  unsigned i = 0;
  while (i < COUNT(OPTIONS) && mount("tmpfs", ROOTS, "tmpfs", MS_NOSUID | MS_NODEV, OPTIONS[i])) i++;
  if (i == COUNT(OPTIONS)) fail("mount the roots");
  must(mkdir(LAYER, 0755), "make a directory");
  must(mkdir(STAGE, 0755), "make a directory");
}

static void name_root(const struct options *options, const struct profile *profile) {
  snprintf(new_root, sizeof new_root, "%s/%u", ROOTS, (unsigned)(profile - options->profiles));
}

static int build_profile(const struct options *options, const struct profile *profile, const struct identity *identity) {
  name_root(options, profile);
  begin_root(new_root);
  add_skeleton(identity);
  add_devices(identity);
  for (unsigned i = 0; i < profile->entry_count; i++) add_entry(options, profile, &profile->entries[i]);
  if (options->zygote) copy_file(options->zygote, inside("/zygote.so"));
  return finish_root();
}

static int build_store(const char *store) {
  snprintf(new_root, sizeof new_root, "%s/store", ROOTS);
  begin_root(new_root);
  bind_read_only(store, "/store");
  return finish_root();
}

static void begin_root(const char *path) {
  must(unshare(CLONE_NEWNS), "make a mount namespace");
  must(mkdir(path, 0755), "make a root");
}

/* Returns a descriptor of the mount namespace. The caller is inside it, at its root. */
static int finish_root(void) {
  int namespace = (int)must(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), "open a mount namespace");
  must(mount(new_root, new_root, NULL, MS_BIND | MS_REC, NULL), "mount a root");
  must(mount(NULL, new_root, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL), "make a root read-only");
  must(chdir(new_root), "enter a root");
  must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
  must(umount2(".", MNT_DETACH), "leave the old root");
  must(chdir("/"), "enter a root");
  return namespace;
}

static const char *inside(const char *path) {
  static char full[MAX_PATH + 8];
  if (snprintf(full, sizeof full, "%s%s", new_root, path) >= (int)sizeof full) fail("a path is too long: %s", path);
  return full;
}

static void add_skeleton(const struct identity *identity) {
  static const char *const EMPTY[] = {"/box", "/tmp", "/proc", "/dev", "/etc", "/load", "/load2"};
  char text[256];
  for (unsigned i = 0; i < COUNT(EMPTY); i++) must(mkdir(inside(EMPTY[i]), 0755), "make a directory");
  snprintf(text, sizeof text, "root:x:0:0:root:/:/bin/false\nrunner:x:%u:%u:runner:/box:/bin/sh\n", identity->uid, identity->gid);
  write_file("/etc/passwd", text);
  snprintf(text, sizeof text, "root:x:0:\nrunner:x:%u:\n", identity->gid);
  write_file("/etc/group", text);
  write_file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
  write_file("/etc/hosts", "127.0.0.1 localhost\n");
  /* In a user namespace the kernel allows a fresh /proc only to a process that can see a complete one. */
  if (identity->own_namespace)
    must(mount("/proc", inside("/proc"), NULL, MS_BIND | MS_REC, NULL), "keep /proc visible");
}

static void add_devices(const struct identity *identity) {
  static const struct {
    const char *path;
    unsigned minor;
  } DEVICES[] = {{"/dev/null", 3}, {"/dev/zero", 5}, {"/dev/full", 7}, {"/dev/random", 8}, {"/dev/urandom", 9}};
  static const char *const LINKS[][2] = {{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
                                         {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}};
  must(mount("tmpfs", inside("/dev"), "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=32,mode=0755"), "mount /dev");
  for (unsigned i = 0; i < COUNT(DEVICES); i++) {
    if (!identity->own_namespace) {
      must(mknod(inside(DEVICES[i].path), S_IFCHR | 0666, makedev(1, DEVICES[i].minor)), "make a device");
      continue;
    }
    write_file(DEVICES[i].path, "");
    must(mount(DEVICES[i].path, inside(DEVICES[i].path), NULL, MS_BIND, NULL), "bind a device");
  }
  for (unsigned i = 0; i < COUNT(LINKS); i++) must(symlink(LINKS[i][0], inside(LINKS[i][1])), "link a device");
  must(mkdir(inside("/dev/shm"), 0755), "make /dev/shm");
  must(mount(NULL, inside("/dev"), NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL), "make /dev read-only");
}

static void add_entry(const struct options *options, const struct profile *profile, const struct entry *entry) {
  enum entry_kind kind = entry->kind;
  char copy[MAX_PATH + 32];
  if (shares_files && kind == ENTRY_FRONT) return;
  if (shares_files && (kind == ENTRY_OWN || kind == ENTRY_TREE)) kind = ENTRY_BIND;
  make_parents(entry->to);
  switch (kind) {
    case ENTRY_BIND:
      if (!overlay(entry->from, entry->to)) bind_read_only(entry->from, entry->to);
      break;
    case ENTRY_COPY:
    case ENTRY_OWN:
    case ENTRY_FRONT:
      if (!find_copy(options, profile, entry, copy, sizeof copy) || link(copy, inside(entry->to)))
        copy_file(entry->from, inside(entry->to));
      break;
    case ENTRY_TREE: {
      const bool found = find_copy(options, profile, entry, copy, sizeof copy);
      copy_tree(found ? copy : entry->from, inside(entry->to), found);
      break;
    }
    case ENTRY_LINK:
      if (symlink(entry->from, inside(entry->to)) && errno != EEXIST) fail("link %s", entry->to);
      break;
  }
}

/* Of a file that two profiles have, the slot has one copy. */
static bool find_copy(const struct options *options, const struct profile *profile, const struct entry *entry, char *copy, size_t room) {
  for (const struct profile *other = options->profiles; other < profile; other++)
    for (unsigned i = 0; i < other->entry_count; i++) {
      const struct entry *theirs = &other->entries[i];
      if (theirs->kind != entry->kind || strcmp(theirs->from, entry->from)) continue;
      snprintf(copy, room, "%s/%u%s", ROOTS, (unsigned)(other - options->profiles), theirs->to);
      return true;
    }
  return false;
}

/* What not everybody on the machine may read is left out: the slot could read it, and boxes must not. */
static void copy_tree(const char *from, const char *to, bool by_links) {
  char source[PATH_MAX], target[PATH_MAX], text[PATH_MAX];
  struct stat state;
  snprintf(target, sizeof target, "%s", to);
  to = target;
  size_t length = strlen(to);
  DIR *folder = opendir(from);
  if (!folder || (mkdir(to, 0755) && errno != EEXIST)) fail("copy %s", from);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    snprintf(target + length, sizeof target - length, "/%s", entry->d_name);
    if (snprintf(source, sizeof source, "%s/%s", from, entry->d_name) >= (int)sizeof source || lstat(source, &state))
      fail("copy %s", source);
    const mode_t needed = S_ISDIR(state.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
    if ((state.st_mode & needed) != needed) continue;
    if (S_ISDIR(state.st_mode)) copy_tree(source, target, by_links);
    else if (S_ISLNK(state.st_mode)) {
      ssize_t size = must(readlink(source, text, sizeof text - 1), "read a link");
      text[size] = 0;
      must(symlink(text, target), "copy a link");
    } else if (S_ISREG(state.st_mode) && (!by_links || link(source, target))) copy_file(source, target);
  }
  closedir(folder);
}

/* An overlay does not contain what is mounted below its layer. */
static bool has_mounts_below(const char *directory) {
  FILE *table = fopen("/proc/self/mountinfo", "re");
  char line[4096], path[2048];
  size_t length = strlen(directory);
  bool found = !table;
  while (!found && fgets(line, sizeof line, table))
    found = sscanf(line, "%*s %*s %*s %*s %2047s", path) == 1 && !strncmp(path, directory, length) && path[length] == '/';
  if (table) fclose(table);
  return found;
}

/* The files that the new root has at `over` are in front of those of the directory. */
static bool mount_overlay(const char *directory, const char *over, const char *to) {
  char layers[64];
  /*
   * Neutral names and the name "." keep paths out of the mount table. With xino a directory has the number
   * that it has on disk. Otherwise numbers are given in the order of first use.
   */
  snprintf(layers, sizeof layers, "lowerdir=%s:.,xino=on", LAYER);
  if (has_mounts_below(directory) || chdir(directory)) return false;
  must(mount(over, LAYER, NULL, MS_BIND, NULL), "mount a layer");
  bool done = !mount("box", to, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, layers);
  must(umount2(LAYER, MNT_DETACH), "unmount a layer");
  must(chdir("/"), "leave a directory");
  return done;
}

/* A file is bound from an overlay of its directory, which is then unmounted. */
static bool overlay(const char *from, const char *to) {
  char path[PATH_MAX], staged[PATH_MAX + 16];
  struct stat state;
  char *slash;
  if (!realpath(from, path) || stat(path, &state)) return false;
  if (S_ISDIR(state.st_mode)) {
    if (mkdir(inside(to), 0755) && errno != EEXIST) fail("make %s", to);
    return mount_overlay(path, inside(to), inside(to));
  }
  slash = strrchr(path, '/');
  *slash = 0;
  if (!mount_overlay(*path ? path : "/", inside("/load2"), STAGE)) return false;
  snprintf(staged, sizeof staged, "%s/%s", STAGE, slash + 1);
  bind_read_only(staged, to);
  must(umount2(STAGE, MNT_DETACH), "unmount an overlay");
  return true;
}

static void bind_read_only(const char *from, const char *to) {
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
  struct stat state;
  if (stat(from, &state)) fail("mount %s", from);
  if (S_ISDIR(state.st_mode)) {
    if (mkdir(inside(to), 0755) && errno != EEXIST) fail("make %s", to);
  } else {
    write_file(to, "");
  }
  if (mount(from, inside(to), NULL, MS_BIND | MS_REC, NULL)) fail("mount %s at %s", from, to);
  if (syscall(SYS_mount_setattr, AT_FDCWD, inside(to), AT_RECURSIVE, &attributes, sizeof attributes))
    fail("make %s read-only", to);
}

/* One write makes large pages, if it is large. */
static void copy_file(const char *from, const char *full) {
  struct stat state;
  int source = open(from, O_RDONLY | O_CLOEXEC);
  if (source < 0 || fstat(source, &state)) fail("copy %s", from);
  int target = (int)must(open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644 | (state.st_mode & 0111)), "make a copy");
  for (ssize_t count; (count = must(read(source, buffer, BUFFER_BYTES), "read a file to copy")) > 0;)
    if (write(target, buffer, (size_t)count) != count) fail("copy %s", from);
  /* Python and the JVM compare the times of files with those that they noted when they compiled or archived them. */
  must(futimens(target, (struct timespec[]){state.st_atim, state.st_mtim}), "set the times of a copy");
  close(source);
  close(target);
}

static void write_file(const char *path, const char *text) {
  int file = open(inside(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  size_t length = strlen(text);
  if (file < 0 || write(file, text, length) != (ssize_t)length) fail("write %s", path);
  close(file);
}

static void make_parents(const char *path) {
  char part[MAX_PATH];
  for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    if (mkdir(inside(part), 0755) && errno != EEXIST) fail("make %s", part);
  }
}
