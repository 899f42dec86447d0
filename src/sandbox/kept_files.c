#define _GNU_SOURCE
#include "kept_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "output_pages.h"

/* Names of folders that are listed, in all: as many patterns as an order has, over the usual limit of inodes. */
enum { NAMES_MOST = 100 * 1000 };

struct names {
  char **at;
  size_t count, room;
};

static const struct request *request;
static struct shared *shared;
static unsigned names_left, files_left;
static uid_t owner; /* of the work directory */
static uint64_t bytes_left, most_bytes; /* of all files, and of one: what is more is cut off */
static char refused[MAX_PATH + 160]; /* why the first file that is not kept is not */

static void keep_matches(int folder, const char *pattern, char *path, size_t length);
static bool find_names(int folder, const char *pattern, size_t width, struct names *names);
static bool list_names(int folder, struct names *names);
static bool fits(const char *pattern, size_t width, const char *name);
static void keep_file(int folder, const char *name, const char *path);
static void refuse_kind(const char *path, size_t length, const char *name, bool leads_on);
static void refuse(const char *path, const char *why);
static uint8_t *begin_record(enum left_kind kind, const char *text);

void keep_files(int directory, const struct request *of_run, struct shared *pages) {
  char path[MAX_PATH];
  request = of_run;
  shared = pages;
  names_left = NAMES_MOST;
  struct stat state;
  must(fstat(directory, &state), "look at the work directory");
  owner = state.st_uid;
  files_left = request->keep_max_files;
  bytes_left = request->keep_max_bytes;
  refused[0] = 0;
  for (uint32_t i = 0; i < request->keep_pattern_count; i++) {
    most_bytes = i < request->keep_cut_patterns ? request->keep_cut_bytes : UINT64_MAX;
    keep_matches(directory, request->keep_patterns[i], path, 0);
  }
  if (*refused) begin_record(LEFT_REFUSED, refused);
}

/* A program may leave a file that its own user must not read. Root can read it. Where the launcher has the same user as the
 * program, it gives itself the right. */
static int open_left(int folder, const char *name, int flags) {
  const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags);
  if (file >= 0 || errno != EACCES) return file;
  if (fchmodat(folder, name, S_IRWXU, AT_SYMLINK_NOFOLLOW)) return errno = EACCES, -1;
  return openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags);
}

static int open_folder(int folder, const char *name) { return open_left(folder, name, O_DIRECTORY); }

/*
 * A heap sort, by the names' bytes. Not qsort: that of glibc before 2.37 may call sysinfo, which the filter has answered by this
 * very process.
 */
static void sort_names(char **at, size_t count) {
  for (size_t root = count / 2, end = count; end > 1;) {
    const bool builds = root > 0;
    char *moved = builds ? at[--root] : at[--end];
    if (!builds) at[end] = at[0];
    size_t hole = root;
    for (size_t child; (child = 2 * hole + 1) < end; hole = child) {
      if (child + 1 < end && strcmp(at[child], at[child + 1]) < 0) child++;
      if (strcmp(moved, at[child]) >= 0) break;
      at[hole] = at[child];
    }
    at[hole] = moved;
  }
}

/* `path`, of `length` bytes, leads to the folder, and `pattern` is what is left of the pattern below it. */
static void keep_matches(int folder, const char *pattern, char *path, size_t length) {
  struct names names = {0};
  const size_t width = strcspn(pattern, "/");
  const char *rest = pattern[width] ? pattern + width + 1 : NULL;
  if (!find_names(folder, pattern, width, &names)) refuse("the work folder", "it has too many names");
  for (size_t i = 0; i < names.count; i++) {
    const char *name = names.at[i];
    struct stat state;
    const size_t needed = length + strlen(name) + 2;
    if (!fits(pattern, width, name) || fstatat(folder, name, &state, AT_SYMLINK_NOFOLLOW)) continue;
    const bool is_file = S_ISREG(state.st_mode), is_folder = S_ISDIR(state.st_mode);
    if (rest ? !is_folder : !is_file) {
      /* A star fits what is there for other patterns, too: folders on the way, and files beside them. */
      const bool is_exact = !memchr(pattern, '*', width);
      if (request->keep_refuses && (is_exact || (!is_file && !is_folder))) refuse_kind(path, length, name, rest != NULL);
      continue;
    }
    if (needed > MAX_PATH) {
      refuse(name, "its path is too long");
      continue;
    }
    memcpy(path + length, name, strlen(name) + 1);
    if (is_file) {
      keep_file(folder, name, path);
      continue;
    }
    int inner = open_folder(folder, name);
    if (inner < 0) {
      refuse(path, strerror(errno));
      continue;
    }
    path[needed - 2] = '/';
    keep_matches(inner, rest, path, needed - 1);
    close(inner);
  }
  for (size_t i = 0; i < names.count; i++) free(names.at[i]);
  free(names.at);
}

/* The names that may fit. false: there are more than may be looked at. */
static bool find_names(int folder, const char *pattern, size_t width, struct names *names) {
  if (memchr(pattern, '*', width)) return list_names(folder, names);
  names->at = calloc(1, sizeof *names->at);
  if (names->at && (names->at[0] = strndup(pattern, width))) names->count = 1;
  return true;
}

/* In the order of their bytes. */
static bool list_names(int folder, struct names *names) {
  int again = open_folder(folder, ".");
  DIR *list = again < 0 ? NULL : fdopendir(again);
  if (!list) {
    if (again >= 0) close(again);
    return true;
  }
  bool whole = true;
  for (struct dirent *entry; whole && (entry = readdir(list));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (names->count == names->room) {
      const size_t room = names->room ? 2 * names->room : 64;
      char **at = reallocarray(names->at, room, sizeof *at);
      if (!at) break;
      names->at = at;
      names->room = room;
    }
    whole = names_left && (names->at[names->count] = strdup(entry->d_name));
    if (whole) names_left--, names->count++;
  }
  closedir(list);
  sort_names(names->at, names->count);
  return whole;
}

/* Each piece between two stars matches where it comes first. A search for one piece costs about the length of the name. */
static bool fits(const char *pattern, size_t width, const char *name) {
  const char *end = pattern + width, *name_end = name + strlen(name), *star = memchr(pattern, '*', width);
  const size_t head = star ? (size_t)(star - pattern) : width;
  if ((size_t)(name_end - name) < head || memcmp(name, pattern, head)) return false;
  name += head;
  if (!star) return name == name_end;
  for (pattern = star + 1; (star = memchr(pattern, '*', (size_t)(end - pattern))); pattern = star + 1) {
    name = memmem(name, (size_t)(name_end - name), pattern, (size_t)(star - pattern));
    if (!name) return false;
    name += star - pattern;
  }
  const size_t tail = (size_t)(end - pattern);
  return (size_t)(name_end - name) >= tail && !memcmp(name_end - tail, pattern, tail);
}

static bool is_kept(const char *path) {
  const uint8_t *region = output_region(LEFT_REGION);
  const size_t length = strlen(path);
  for (uint64_t at = 0; at < shared->left; at += LEFT_HEAD + get_u32(region + at + 1) + get_u32(region + at + 5))
    if (get_u32(region + at + 1) == length && !memcmp(region + at + LEFT_HEAD, path, length)) return true;
  return false;
}

static uint64_t kept_size(const struct stat *state) {
  return (uint64_t)state->st_size < most_bytes ? (uint64_t)state->st_size : most_bytes;
}

static void keep_file(int folder, const char *name, const char *path) {
  struct stat state;
  if (is_kept(path)) return;
  if (!files_left) return refuse(path, "as many files as allowed are kept already");
  int file = open_left(folder, name, O_NONBLOCK);
  if (file < 0 || fstat(file, &state)) refuse(path, strerror(errno));
  else if (!S_ISREG(state.st_mode)) refuse(path, "it is no regular file");
  /* Where programs may link the files of others, this one is not theirs to read. */
  else if (state.st_uid != owner && !(state.st_mode & S_IROTH)) refuse(path, "it belongs to another user");
  else if (kept_size(&state) > bytes_left) refuse(path, "it exceeds what is left of the limit for kept files");
  else {
    const uint64_t start = shared->left;
    uint8_t *head = begin_record(LEFT_FILE, path), *at = output_region(LEFT_REGION) + shared->left;
    size_t used = 0, size = kept_size(&state);
    for (ssize_t count = 1; used < size && count > 0;) {
      count = read(file, at + used, size - used);
      if (count > 0) used += (size_t)count;
    }
    if (used < size) {
      refuse(path, "it cannot be read");
      shared->left = start;
    } else {
      put_u32(head + 5, (uint32_t)size);
      shared->left += size;
      bytes_left -= size;
      files_left--;
    }
  }
  if (file >= 0) close(file);
}

/* `path`, of `length` bytes, leads to its folder. `leads_on`: there is more of the pattern below it. */
static void refuse_kind(const char *path, size_t length, const char *name, bool leads_on) {
  char whole[MAX_PATH];
  snprintf(whole, sizeof whole, "%.*s%s", (int)length, path, name);
  refuse(whole, leads_on ? "it is no folder" : "it is no regular file");
}

static void refuse(const char *path, const char *why) {
  if (!*refused) snprintf(refused, sizeof refused, "%s: %s", path, why);
}

static uint8_t *begin_record(enum left_kind kind, const char *text) {
  uint8_t *head = output_region(LEFT_REGION) + shared->left;
  head[0] = (uint8_t)kind;
  put_u32(head + 1, (uint32_t)strlen(text));
  put_u32(head + 5, 0);
  memcpy(head + LEFT_HEAD, text, strlen(text));
  shared->left += LEFT_HEAD + strlen(text);
  return head;
}
