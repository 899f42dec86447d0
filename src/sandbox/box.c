/*
 * A box, from the inside. Init, the first process of a fresh pid namespace, mounts fresh file systems
 * over the read-only root, starts the program as a user without any rights, waits for it, and reports
 * how it ended. When init dies, the kernel kills every other process of the namespace.
 *
 * The order of steps matters where a comment says so. A step that fails ends the process with its name.
 */
#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array.h"
#include "cgroup_files.h"
#include "failure.h"
#include "kernel_files.h"
#include "message.h"
#include "monotonic.h"
#include "seccomp.h"
#include "wire.h"

static void attach_artefacts(const struct box *box);
static void write_files(const struct box *box);
static void send_directory(const struct box *box);
static void drop_capabilities(void);

void box_init(struct box *box) {
  box_die_with_parent(box);
  box_mount(box);
  box_furnish(box);
  pid_t program = box_fork_program(box);
  if (program > 0) box_raise_priority();
  else box_protect_proc();
  seccomp_confine();
  if (program == 0) box_execute(box);
  /* Otherwise the pipes would stay open in init after the program, or the slot, closes its ends. */
  for (int i = 0; i < 3; i++) close(box->files[i]);
  for (unsigned i = 0; i < COUNT(box->slot_ends); i++)
    if (box->slot_ends[i] >= 0) close(box->slot_ends[i]);
  box_await(box, program);
}

void box_furnish(const struct box *box) {
  attach_artefacts(box);
  write_files(box);
  if (box->request->save_key || box->request->has_keep) send_directory(box);
}

/* If the parent dies before the prctl call, no signal comes. So the pidfd is checked after it. */
void box_die_with_parent(const struct box *box) {
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
  struct pollfd parent = {.fd = box->parent, .events = POLLIN};
  if (poll(&parent, 1, 0) != 0) _exit(EXIT_BROKEN);
  /* No process may read init's memory. In a box that has the worker's user id this also hides /proc/1. */
  must(prctl(PR_SET_DUMPABLE, 0), "make init not dumpable");
}

static const unsigned long FRESH = MS_NOSUID | MS_NODEV | MS_NOEXEC;

enum { SIZE_OPTIONS = 128, DIRECTORIES = 5 };

/* The directories, their root and mount points are not counted against the program's limit. */
static void print_size(const struct request *request, char *options) {
  snprintf(options, SIZE_OPTIONS, "size=%llu,nr_inodes=%llu,mode=0755", (unsigned long long)request->limits.disk_bytes,
           (unsigned long long)request->limits.inodes + DIRECTORIES + request->single_loads);
}

/*
 * One tmpfs, not executable, limits work directory, /tmp and /dev/shm together. It is mounted once, at
 * /tmp, and its directories are bound to their mount points; the last bind covers the first mount.
 * /proc shows only processes, and only the program's own: no facts about the host, and not init.
 */
void box_mount(const struct box *box) {
  char options[SIZE_OPTIONS] = "mode=0755";
  if (box->request) print_size(box->request, options);
  umask(0);
  must(mount("proc", "/proc", "proc", FRESH, "hidepid=invisible,subset=pid"), "mount /proc");
  must(mount("tmpfs", "/tmp", "tmpfs", FRESH, options), "mount the work directory");
  must(mkdir("/tmp/box", 0755), "make the work directory");
  must(mkdir("/tmp/shm", 01777), "make /dev/shm");
  must(mkdir("/tmp/tmp", 01777), "make /tmp");
  must(chown("/tmp/box", box->identity.uid, box->identity.gid), "change the owner of the work directory");
  must(mount("/tmp/box", "/box", NULL, MS_BIND, NULL), "bind the work directory");
  must(mount("/tmp/shm", "/dev/shm", NULL, MS_BIND, NULL), "bind /dev/shm");
  /* Its owner is not the program's user, who cannot add a name to it. */
  must(mkdir("/tmp/files", 0755), "make the folder of files");
  must(mount("/tmp/files", FILES_FOLDER, NULL, MS_BIND, NULL), "bind the folder of files");
  must(mount("/tmp/tmp", "/tmp", NULL, MS_BIND, NULL), "bind /tmp");
  umask(022);
}

void box_limit_files(const struct request *request) {
  char options[SIZE_OPTIONS];
  print_size(request, options);
  must(mount(NULL, "/tmp", NULL, MS_REMOUNT | FRESH, options), "limit the work directory");
}

static void make_parents(const char *path, const struct identity *identity) {
  char part[MAX_PATH];
  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    if (mkdir(part, 0755)) {
      if (errno == EEXIST) continue;
      fail("make the directory %s", part);
    }
    must(chown(part, identity->uid, identity->gid), "change the owner of a directory");
  }
}

static void attach_artefacts(const struct box *box) {
  for (unsigned i = 0; i < box->request->load_count; i++) {
    const char *at = box->request->loads[i].at;
    if (!strncmp(at, "/box/", 5)) {
      must(chdir("/box"), "enter the work directory");
      make_parents(at + 5, &box->identity);
      if (mkdir(at, 0755)) fail("make %s", at);
    }
    if (wire_is_single(at)) {
      int point = open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
      if (point < 0) fail("make %s", at);
      close(point);
    }
    if (syscall(SYS_move_mount, box->loads[i], "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH)) fail("load an artefact at %s", at);
    close(box->loads[i]);
  }
  /* Where the program has the user id of the box's root, the mode of the folder would not stop it. */
  if (box->identity.shares_uid)
    must(mount(NULL, FILES_FOLDER, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FRESH, NULL), "make the folder of files read-only");
}

static void write_files(const struct box *box) {
  must(chdir("/box"), "enter the work directory");
  for (unsigned i = 0; i < box->request->folder_count; i++) {
    const char *path = box->request->folders[i];
    make_parents(path, &box->identity);
    if (mkdir(path, 0755) && errno != EEXIST) fail("make the folder %s", path);
    must(chown(path, box->identity.uid, box->identity.gid), "change the owner of a folder");
  }
  for (unsigned i = 0; i < box->request->file_count; i++) {
    const struct wire_file *file = &box->request->files[i];
    make_parents(file->path, &box->identity);
    int descriptor = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->mode);
    if (descriptor < 0) fail("make the file %s", file->path);
    for (uint32_t at = 0; at < file->length;) {
      ssize_t count = write(descriptor, file->bytes + at, file->length - at);
      if (count <= 0) fail("write the file %s", file->path);
      at += (uint32_t)count;
    }
    must(fchown(descriptor, box->identity.uid, box->identity.gid), "change the owner of a file");
    close(descriptor);
  }
}

/* Once every process of the box is dead, the launcher saves from this descriptor, or the slot keeps files. */
static void send_directory(const struct box *box) {
  int directory = (int)must(open("/box", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the work directory");
  must(send_message(box->reports, MESSAGE_BOX, &directory, 1), "send the work directory");
  close(directory);
}

/* v2: from here on, the memory of the program's process counts as the program's. v1: from box_start_clock() on. */
pid_t box_fork_program(const struct box *box) {
  const bool v1 = box->group->kind == ISOLATION_V1;
  if (v1 && !box->thread_id) return must_fork(fork(), "fork the program");
  /* As in libc's fork. Otherwise no thread of the program could signal its main thread. */
  const uint64_t of_thread = box->thread_id ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0;
  const uint64_t of_group = v1 ? 0 : CLONE_INTO_CGROUP | CLONE_NEWCGROUP;
  struct clone_args arguments = {.flags = of_group | of_thread, .exit_signal = SIGCHLD,
                                 .child_tid = (uint64_t)(uintptr_t)box->thread_id, .cgroup = v1 ? 0 : (uint64_t)box->group->run_group};
  return must_fork((long)syscall(SYS_clone3, &arguments, sizeof arguments), "clone the program into its group");
}

/*
 * Init's death ends the run. But the kernel sends the others their signals only when init is scheduled, and a program
 * can have many processes that want the processor. An ordinary user may not raise a priority.
 */
void box_raise_priority(void) { setpriority(PRIO_PROCESS, 0, -20); }

/* From here on, init only waits and exits. */
static void drop_capabilities(void) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {0};
  must(syscall(SYS_capset, &head, none), "drop init's capabilities");
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "ask to die with the slot");
}

/* Reaps orphans until the program itself ends. Init's own exit kills every process that is left. */
void box_await(struct box *box, pid_t program) {
  int status;
  pid_t ended;
  drop_capabilities();
  do {
    ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno != EINTR) fail("wait for the program");
  } while (ended != program);
  struct shared *shared = box->shared;
  shared->cpu_end_us = group_cpu_us(box->group);
  shared->end_us = monotonic_us();
  shared->orphans = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
  shared->wait_status = status;
  shared->ended = true;
  send_message(box->reports, MESSAGE_DONE, NULL, 0);
  _exit(0);
}

static void limit_resources(const struct request *request, const struct identity *identity) {
  const struct limits *limits = &request->limits;
  const struct {
    int resource;
    rlim_t most;
  } TABLE[] = {
      {RLIMIT_NOFILE, limits->files},
      {RLIMIT_FSIZE, limits->disk_bytes},
      {RLIMIT_STACK, limits->stack_bytes},
      {RLIMIT_MEMLOCK, 64 << 10},
      {RLIMIT_RTPRIO, 0},
      {RLIMIT_NICE, 0},
      {RLIMIT_MSGQUEUE, identity->queue_bytes},
      {RLIMIT_SIGPENDING, 1024},
      /* A second limit, above the one that the launcher enforces by the group's counter, in case it is late. */
      {RLIMIT_CPU, limits->cpu_ms / 1000 + 3},
  };
  for (unsigned i = 0; i < COUNT(TABLE); i++) {
    struct rlimit limit = {TABLE[i].most, TABLE[i].most};
    must(setrlimit(TABLE[i].resource, &limit), "set a resource limit");
  }
}

/*
 * When the machine's memory is used up, the kernel kills the program rather than slot or init. After that, nothing writes to
 * /proc: with clear_refs and smaps a program could see which pages of a file others have read since. Its standard streams
 * still open for writing, because a link there leads out of /proc.
 */
void box_protect_proc(void) {
  /* While it is not dumpable, a process in a user namespace may not write to its own /proc files. */
  must(prctl(PR_SET_DUMPABLE, 1), "make the program's process dumpable");
  must(write_text(AT_FDCWD, "/proc/self/oom_score_adj", "1000") ? 0 : -1, "set oom_score_adj");
  must(mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | FRESH, NULL), "make /proc read-only");
}

/* From root of the slot to a user without rights. Its other descriptors are still open. */
void box_become_program(const struct box *box) {
  const struct request *request = box->request;
  for (int i = 0; i < 3; i++) {
    must(dup2(box->files[i], i), "set up standard input, output and error");
    /*
     * The program opens them again as /dev/stdin and so on. Both ends of its own pipes are all that it gets. A compile
     * whose files are saved gets neither, also where all have one user id: a source could make the compiler wait for its
     * own output, at no cost. An input that is a file can be opened by anybody who can see it.
     */
    if (i == 0 && !request->stream && !request->pair) continue;
    if (request->save_key) must(fchmod(i, 0), "close a standard stream to others");
    else must(fchown(i, box->identity.uid, box->identity.gid), "change the owner of a standard stream");
  }
  must(setsid(), "start a session");
  limit_resources(request, &box->identity);
  must(setresgid(box->identity.gid, box->identity.gid, box->identity.gid), "become the box's group");
  must(setresuid(box->identity.uid, box->identity.uid, box->identity.uid), "become the box's user");
  drop_capabilities();
  must(chdir(request->directory), "enter the working directory");
}

void box_start_clock(const struct box *box) {
  /* v1: as late as possible, so that what prepared the program is charged to the slot. v2: it is in its run group already. */
  if (box->group->entrance >= 0) must(write(box->group->entrance, "0", 1), "enter the run's control group");
  /* The CPU time is counted within the wall time, so that it is never longer on one processor. */
  uint64_t now = monotonic_us();
  /* getrusage makes the kernel update this process's CPU time, and so the group's, up to this moment. */
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  box->shared->cpu_start_us = group_cpu_us(box->group);
  box->shared->start_us = now;
}

void box_execute(const struct box *box) {
  const struct request *request = box->request;
  box_become_program(box);
  box_start_clock(box);
  /* At once, and not when it executes: a source can name a descriptor in /proc as the interpreter of its program. */
  must((long)syscall(SYS_close_range, 3, ~0u, 0), "close all other descriptors");
  execve(request->arguments[0], (char *const *)request->arguments, (char *const *)request->variables);
  box_not_executed(box->shared, request, request->arguments[0]);
}

/* Errors that say something about the file. A source can choose the format and the interpreter of its program. */
static bool is_of_file(int error) {
  static const int errors[] = {ENOEXEC, ENOENT, ENOTDIR, EACCES, ELIBBAD, ELOOP, ENAMETOOLONG, EINVAL, EIO};
  for (unsigned i = 0; i < COUNT(errors); i++)
    if (error == errors[i]) return true;
  return false;
}

static bool is_loaded(const struct request *request, const char *path) {
  for (uint32_t i = 0; i < request->load_count; i++) {
    const size_t length = strlen(request->loads[i].at);
    if (!strncmp(path, request->loads[i].at, length) && (path[length] == '/' || !path[length])) return true;
  }
  return false;
}

void box_not_executed(struct shared *shared, const struct request *request, const char *path) {
  const int error = errno;
  if (is_of_file(error) && is_loaded(request, request->arguments[0]) && !access(path, F_OK)) {
    dprintf(2, "cannot execute %s: %s\n", request->arguments[0], strerror(error));
    _exit(126);
  }
  shared->exec_error = error;
  _exit(127);
}
