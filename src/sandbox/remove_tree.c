#define _GNU_SOURCE
#include "remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void remove_tree(int directory, const char *name) {
  /* The program may have removed its own permissions on the directory. */
  bool opened = fchmodat(directory, name, 0700, 0) == 0;
  int inner = opened ? openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
  DIR *list = inner < 0 ? NULL : fdopendir(inner);
  for (struct dirent *entry; list && (entry = readdir(list));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (unlinkat(inner, entry->d_name, 0) && (errno == EISDIR || errno == EPERM)) remove_tree(inner, entry->d_name);
  }
  if (list) closedir(list);
  unlinkat(directory, name, AT_REMOVEDIR);
}
