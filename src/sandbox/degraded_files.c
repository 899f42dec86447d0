#define _GNU_SOURCE
#include "degraded_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array.h"
#include "cgroup.h"
#include "failure.h"
#include "input_file.h"
#include "remove_tree.h"

static const struct slot_setup *setup;
static char work_directory[160]; /* of this slot: the real path of /box */
static const struct request *request;

static void make_directories(void);
static void write_files(void);
static void load(const char *key, const char *target);

void degraded_files_open(const struct slot_setup *slot_setup) {
  setup = slot_setup;
  snprintf(work_directory, sizeof work_directory, "%s/runledger.%u/s%u/box", groups_base(), groups_instance(), setup->number);
  /* Programs of other slots have other groups. Where all have the same, Landlock keeps them apart. */
  must(chown(degraded_path(""), (uid_t)-1, setup->identity.gid), "give the slot's directory to its group");
  must(chmod(degraded_path(""), setup->identity.shares_uid ? 0700 : 0710), "close the slot's directory");
}

void degraded_furnish(const struct request *of_run) {
  request = of_run;
  make_directories();
  write_files();
}

int degraded_open_work(void) {
  return (int)must(open(work_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the work directory");
}

static void make_directory(const char *path) {
  must(mkdir(path, 0700), "make a directory of the run");
  must(chown(path, setup->identity.uid, setup->identity.gid), "change the owner of a directory of the run");
}

void degraded_remove(void) {
  static const char *const NAMES[] = {"/box", "/tmp", "/load", "/load2"};
  for (unsigned i = 0; i < COUNT(NAMES); i++) remove_tree(AT_FDCWD, degraded_path(NAMES[i]));
}

static void make_directories(void) {
  make_directory(work_directory);
  make_directory(degraded_path("/tmp"));
  must(chdir(work_directory), "enter the work directory");
}

/* `path` is relative to the work directory, which is the current one. */
static void make_parents(const char *path) {
  char part[MAX_PATH];
  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    if (!mkdir(part, 0755) && chown(part, setup->identity.uid, setup->identity.gid)) fail("change the owner of a directory");
  }
}

static void write_files(void) {
  static const char WORK[] = "/box/";
  for (uint32_t i = 0; i < request->folder_count; i++) {
    make_parents(request->folders[i]);
    if (mkdir(request->folders[i], 0755) && errno != EEXIST) fail("make the folder %s", request->folders[i]);
    must(chown(request->folders[i], setup->identity.uid, setup->identity.gid), "change the owner of a folder");
  }
  if (request->single_loads) must(mkdir(degraded_path(FILES_FOLDER), 0755), "make the folder of files");
  for (uint32_t i = 0; i < request->load_count; i++) {
    const char *at = request->loads[i].at;
    if (!strncmp(at, WORK, sizeof WORK - 1)) make_parents(at + sizeof WORK - 1);
    load(request->loads[i].key, degraded_path(at));
  }
  for (uint32_t i = 0; i < request->file_count; i++) {
    const struct wire_file *file = &request->files[i];
    make_parents(file->path);
    int descriptor = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file->mode);
    if (descriptor < 0 || write(descriptor, file->bytes, file->length) != (ssize_t)file->length) fail("write the file %s", file->path);
    must(fchown(descriptor, setup->identity.uid, setup->identity.gid), "change the owner of a file");
    close(descriptor);
  }
}

/* The real path of a path of the box: /box/x lies in the work directory, /load beside it. */
const char *degraded_path(const char *at) {
  static char path[MAX_PATH + sizeof work_directory];
  int base = (int)(strrchr(work_directory, '/') - work_directory);
  snprintf(path, sizeof path, "%.*s%s", base, work_directory, at);
  return path;
}

/* Copies, because the program's user id may not be able to enter the store. */
static void copy_tree(int from, const char *name, const char *target) {
  int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  struct stat state;
  if (source < 0 || fstat(source, &state)) fail("find the artefact %.60s", name);
  if (S_ISREG(state.st_mode)) {
    /* Executable in any case: a linker that may not change modes could not make it so. */
    int file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    off_t left = state.st_size;
    for (ssize_t count; left && (count = sendfile(file, source, NULL, (size_t)left)) > 0;) left -= count;
    if (file < 0 || left) fail("copy %.60s of an artefact", name);
    close(file);
  } else {
    DIR *list = mkdir(target, 0755) ? NULL : fdopendir(dup(source));
    if (!list) fail("copy %.60s of an artefact", name);
    for (struct dirent *entry; (entry = readdir(list));) {
      char inner[MAX_PATH + 512];
      if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
      snprintf(inner, sizeof inner, "%s/%s", target, entry->d_name);
      copy_tree(source, entry->d_name, inner);
    }
    closedir(list);
  }
  close(source);
}

/* A copy: a program with the worker's user id could change the file in the store through a descriptor of it. */
bool degraded_open_input(struct box *box) {
  char path[MAX_PATH + MAX_NAME];
  const char *key = box->request->input_key;
  box->files[0] = box->files[1] = box->files[2] = -1;
  if (!key) return true;
  snprintf(path, sizeof path, "%s/%s", setup->options->store, key);
  int file = input_of_store(path);
  if (file >= 0) {
    box->files[0] = input_copy(setup->proc, file);
    return true;
  }
  struct failure *failure = &setup->shared->failure;
  failure->error = errno;
  snprintf(failure->step, sizeof failure->step, "find the artefact %.70s", key);
  return false;
}

static void load(const char *key, const char *target) {
  int store = open(setup->options->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  copy_tree(store, key, target);
  close(store);
}

/* Replaces /box, /tmp and /load where they start a path: at the start of the text, or after a character that ends a path. */
void degraded_rewrite(char *into, size_t size, const char *text) {
  static const char *const NAMES[] = {"/box", "/tmp", "/load2", "/load"};
  size_t used = 0;
  const char *at = text;
  while (*at && used + 1 < size) {
    bool starts = at == text || strchr("=:,@I'\" ", at[-1]);
    const char *instead = NULL;
    size_t width = 0;
    for (unsigned n = 0; starts && !instead && n < COUNT(NAMES); n++) {
      width = strlen(NAMES[n]);
      if (!strncmp(at, NAMES[n], width) && (!at[width] || strchr("/:,'\" ", at[width]))) instead = degraded_path(NAMES[n]);
    }
    int count = instead ? snprintf(into + used, size - used, "%s", instead) : 1;
    if (!instead) into[used] = *at;
    used += (size_t)count;
    at += instead ? width : 1;
  }
  if (*at || used >= size) fail("a path is too long: %s", text);
  into[used] = 0;
}
