#define _GNU_SOURCE
#include "remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A program may have removed its own permissions on a directory. Root needs none, so it never changes a mode by a name. */
static int open_inner(int directory, const char *name) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int inner = openat(directory, name, flags);
  if (inner < 0 && errno == EACCES && !fchmodat(directory, name, 0700, 0)) inner = openat(directory, name, flags);
  if (inner >= 0) fchmod(inner, 0700);
  return inner;
}

/* The next entry that is still there and is a directory. Everything else on the way is removed, and noted. */
static const char *next_inner(DIR *list, bool *removed) {
  for (struct dirent *entry; (entry = readdir(list));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (!unlinkat(dirfd(list), entry->d_name, 0)) *removed = true;
    else if (errno == EISDIR || errno == EPERM) return entry->d_name;
  }
  return NULL;
}

/* A program may have taken any name, so the number rises until one is free. */
static bool move_up(int from, const char *name, int top, unsigned long *number) {
  for (bool opened = false;;) {
    char free_name[32];
    snprintf(free_name, sizeof free_name, "moved.%lu", ++*number);
    if (!renameat(from, name, top, free_name)) return true;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) continue;
    if (errno != EACCES || opened) return false;
    int inner = open_inner(from, name);
    if (inner >= 0) close(inner);
    opened = true;
  }
}

/* Removes what is in the top directory, and moves up what is in the directories there. true: something changed. */
static bool remove_level(int top, unsigned long *number) {
  int copy = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy < 0 ? NULL : fdopendir(copy);
  bool changed = false;
  for (const char *name; list && (name = next_inner(list, &changed));) {
    int inner = open_inner(top, name);
    DIR *inside = inner < 0 ? NULL : fdopendir(inner);
    for (const char *below; inside && (below = next_inner(inside, &changed));)
      if (move_up(inner, below, top, number)) changed = true;
    if (inside) closedir(inside);
    if (!unlinkat(top, name, AT_REMOVEDIR)) changed = true;
  }
  if (list) closedir(list);
  return changed;
}

void remove_tree(int directory, const char *name) {
  int top = open_inner(directory, name);
  for (unsigned long number = 0; top >= 0 && remove_level(top, &number);) continue;
  if (top >= 0) close(top);
  unlinkat(directory, name, AT_REMOVEDIR);
}
