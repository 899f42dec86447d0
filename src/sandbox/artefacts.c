#define _GNU_SOURCE
#include "artefacts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "failure.h"
#include "remove_tree.h"

/* AT_ONCE: bytes that are copied before the next look for SIGTERM. */
enum { DEPTH_MAX = 24, AT_ONCE = 1 << 20 };

struct copy {
  uint64_t max_bytes, bytes_left, bytes;
  uint32_t files_left, files;
  bool broken, full;
  const char *reason;
};

static bool asked_to_stop(void);
static int open_beneath(int directory, const char *path, int flags);
static bool copy_entry(struct copy *copy, int source, const char *path, int target, unsigned depth);
static bool copy_directory(struct copy *copy, int source, int target, unsigned depth);
static bool copy_file(struct copy *copy, int source, const struct stat *state, int target, const char *name);
static int make_directory(int parent, const char *name);
static int make_directories(int target, const char *path, const char **name);
static bool stop(struct copy *copy, const char *why);
static bool stop_broken(struct copy *copy, const char *why);
static bool stop_unwritable(struct copy *copy);
static bool stop_at_max_bytes(struct copy *copy);

static int store = -1;

void artefacts_open(const char *directory) {
  if (!directory) return;
  if (mkdir(directory, 0700) && errno != EEXIST) fail("make the store %s", directory);
  store = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (store < 0) fail("open the store %s", directory);
}

bool artefacts_have_store(void) { return store >= 0; }

int artefacts_store(void) { return store; }

void artefacts_save(int box, const struct request *request, struct saved *saved) {
  char temporary[MAX_NAME + 32];
  struct copy copy = {.max_bytes = request->save_max_bytes, .bytes_left = request->save_max_bytes,
                      .files_left = request->save_max_files};
  snprintf(temporary, sizeof temporary, ".new-%s-%d", request->save_key, getpid());
  int target = make_directory(store, temporary);
  bool whole = target >= 0 || stop_broken(&copy, "the store is not writable");
  for (uint32_t i = 0; whole && i < request->save_path_count; i++)
    whole = copy_entry(&copy, box, request->save_paths[i], target, 0);
  if (target >= 0) close(target);
  /* A run that was ended is compiled again: nobody would count this copy. */
  if (whole && asked_to_stop()) errno = EINTR, whole = stop_broken(&copy, "the run was ended");
  if (whole && renameat(store, temporary, store, request->save_key)) {
    /* Another run saved the same artefact first, and its copy stays. */
    if (errno != EEXIST && errno != ENOTEMPTY) whole = stop_broken(&copy, "the artefact cannot be renamed");
    remove_tree(store, temporary);
  } else if (!whole) {
    remove_tree(store, temporary);
  }
  saved->done = whole;
  saved->broken = copy.broken;
  saved->full = copy.full;
  saved->bytes = copy.bytes;
  saved->files = copy.files;
  if (!whole) snprintf(saved->reason, sizeof saved->reason, "%s", copy.reason);
}

/* The launcher's processes have SIGTERM blocked. */
static bool asked_to_stop(void) {
  sigset_t pending;
  return !sigpending(&pending) && sigismember(&pending, SIGTERM) == 1;
}

static bool stop(struct copy *copy, const char *why) {
  copy->reason = why;
  return false;
}

/* By errno: the worker's disk may be full, which is no fault of the program. */
static bool stop_broken(struct copy *copy, const char *why) {
  copy->broken = true;
  copy->full = errno == ENOSPC || errno == EDQUOT;
  return stop(copy, why);
}

/* Of a file or folder that cannot be made. A name that the store's file system does not take is a fault of the program. */
static bool stop_unwritable(struct copy *copy) {
  if (errno == ENAMETOOLONG || errno == EINVAL || errno == EILSEQ)
    return stop(copy, "a file to save has a name that is too long, or that cannot be stored");
  return stop_broken(copy, "the store is not writable");
}

/* The user reads this: a compiler's program may be too large. */
static bool stop_at_max_bytes(struct copy *copy) {
  static char why[80];
  bool mib = copy->max_bytes % (1 << 20) == 0;
  snprintf(why, sizeof why, "it exceeds the limit of %llu %s for its files",
           (unsigned long long)copy->max_bytes / (mib ? 1 << 20 : 1), mib ? "MiB" : "bytes");
  return stop(copy, why);
}

/* Follows no link in any component, not even one that stays inside the box. */
static int open_beneath(int directory, const char *path, int flags) {
  struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK),
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

/* A path of the request must be a regular file or a directory. An entry of a directory that is neither is skipped. */
static bool copy_entry(struct copy *copy, int source, const char *path, int target, unsigned depth) {
  struct stat state;
  const char *name = path;
  if (asked_to_stop()) return errno = EINTR, stop_broken(copy, "the run was ended");
  int file = open_beneath(source, path, O_RDONLY);
  if (file < 0 || fstat(file, &state) || !(S_ISREG(state.st_mode) || S_ISDIR(state.st_mode)) ||
      (S_ISREG(state.st_mode) && state.st_nlink != 1)) {
    if (file >= 0) close(file);
    return depth ? true : stop(copy, "a file to save is missing, or is not a regular file with one name");
  }
  int parent = make_directories(target, path, &name);
  bool done = parent >= 0 || stop_unwritable(copy);
  if (done && S_ISREG(state.st_mode)) done = copy_file(copy, file, &state, parent, name);
  if (done && S_ISDIR(state.st_mode)) {
    int inner = make_directory(parent, name);
    done = inner >= 0 ? copy_directory(copy, file, inner, depth + 1) : stop_unwritable(copy);
    if (inner >= 0) close(inner);
  }
  if (parent >= 0 && parent != target) close(parent);
  close(file);
  return done;
}

/* Makes a path's directories in the target; returns the last one. `name`: the path's last component. */
static int make_directories(int target, const char *path, const char **name) {
  char part[256];
  int at = target;
  for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    int next = make_directory(at, part);
    if (at != target) close(at);
    if (next < 0) return -1;
    at = next;
  }
  *name = path;
  return at;
}

static bool copy_directory(struct copy *copy, int source, int target, unsigned depth) {
  if (depth > DEPTH_MAX) return stop(copy, "the directories to save are nested too deeply");
  if (copy->files_left-- == 0) return stop(copy, "there are too many files to save");
  DIR *list = fdopendir(dup(source));
  if (!list) return stop(copy, "a directory to save is not readable");
  bool done = true;
  for (struct dirent *entry; done && (entry = readdir(list));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    done = copy_entry(copy, source, entry->d_name, target, depth);
  }
  closedir(list);
  return done;
}

/* Opens it, too. -1: it cannot be made. */
static int make_directory(int parent, const char *name) {
  if (mkdirat(parent, name, 0755) && errno != EEXIST) return -1;
  return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool copy_file(struct copy *copy, int source, const struct stat *state, int target, const char *name) {
  uint64_t left = (uint64_t)state->st_size;
  if (copy->files_left == 0) return stop(copy, "there are too many files to save");
  if (left > copy->bytes_left) return stop_at_max_bytes(copy);
  int file = openat(target, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return stop_unwritable(copy);
  int error = EINTR; /* also if it is asked to stop */
  while (left && !asked_to_stop()) {
    ssize_t count = sendfile(file, source, NULL, left < AT_ONCE ? left : AT_ONCE);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      error = count < 0 ? errno : EIO;
      break;
    }
    left -= (uint64_t)count;
  }
  fchmod(file, state->st_mode & 0100 ? 0555 : 0444);
  bool closed = !close(file);
  if (!left && !closed) error = errno;
  copy->files_left--;
  copy->files++;
  copy->bytes += (uint64_t)state->st_size;
  copy->bytes_left -= (uint64_t)state->st_size;
  errno = error;
  return left || !closed ? stop_broken(copy, "the store is full or not writable") : true;
}
