#define _GNU_SOURCE
#include "streams.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "failure.h"
#include "input_file.h"
#include "kernel_files.h"
#include "monotonic.h"
#include "output_pages.h"
#include "partner.h"
#include "shared.h"
#include "wire.h"

enum {
  CHUNK = 64 * 1024, /* a pipe usually holds this much; less if the user of all slots has many pipes */
  LITTLE = 4096,     /* libc writes this much at once to a pipe */
  LITTLE_US = 4000,
  SOON_US = 1000,
  END_US = 2000,
  END_LOOKS = 10,
  THREADS_LOOKS = 500, /* while threads that are ending are left; they need microseconds */
  DISCARD_BYTES = 1024 * 1024,
  DEAR_US = 250,
  PAUSE_TIMES = 20,
  TURN_MOST = 16, /* programs seldom say more at once before they wait for an answer */
};

/* Bytes of an open box, on their way between a pipe and a socket. */
struct carried {
  uint8_t bytes[CHUNK];
  size_t from, to;
};

static struct shared *shared;
static const struct slot_setup *setup;
static int nowhere = -1; /* /dev/null */
static const struct request *request;
static int pipes[STREAMS] = {-1, -1, -1}, sockets[STREAMS] = {-1, -1, -1};
static ssize_t much[STREAMS];     /* a pipe that had this much will soon be full again */
static uint64_t look_us[STREAMS]; /* when to read again; 0: when there is something */
static int end_looks;             /* how often the end of standard output was seen */
static struct carried carried[STREAMS];

enum process_end { GOES_ON, HAS_THREADS, ENDS };
enum { EXITING = 4 }; /* PF_EXITING */

static void pass_input_on(void);
static bool pass_output_on(int stream);
static bool look(int stream);
static ssize_t read_kept(int stream);
static ssize_t read_passed(void);
static enum process_end program_end(void);
static pid_t program_pid(void);
static bool has_live_thread(pid_t pid);
static int proc_folder(void);
static const char *proc_root(void);
static bool read_threads(pid_t pid, pid_t thread, unsigned *flags, unsigned *threads);

/* The program gets the default action again at its execve, which it would not for a signal that is ignored. */
static void ignore(int number) { (void)number; }

void streams_open(struct slot_setup *slot_setup) {
  setup = slot_setup;
  shared = setup->shared;
  output_pages_open(slot_setup);
  nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  signal(SIGPIPE, ignore);
}

static void close_stream(int stream) {
  if (pipes[stream] >= 0) close(pipes[stream]);
  if (sockets[stream] >= 0) close(sockets[stream]);
  pipes[stream] = sockets[stream] = -1;
  look_us[stream] = 0;
}

/* A file instead of a pipe. */
static bool has_file(int stream) { return stream == 0 && !request->stream && !request->pair; }

void streams_begin(struct box *box, const int *given) {
  request = box->request;
  end_looks = 0;
  for (int i = 0; i < STREAMS; i++) {
    int ends[2];
    carried[i].from = carried[i].to = look_us[i] = 0;
    box->slot_ends[2 * i] = box->slot_ends[2 * i + 1] = -1;
    if (has_file(i)) {
      if (box->files[i] < 0) box->files[i] = input_of_bytes(setup->proc, request->input, request->input_length);
      continue;
    }
    must(pipe2(ends, O_CLOEXEC), "make a pipe");
    pipes[i] = ends[i == 0];
    box->files[i] = ends[i != 0];
    must(fcntl(pipes[i], F_SETFL, O_NONBLOCK), "make a pipe non-blocking");
    sockets[i] = request->stream ? given[i] : -1;
    much[i] = fcntl(pipes[i], F_GETPIPE_SZ) / 2;
    if (i > 0 && !request->stream && !(request->pair && i == 1)) look_us[i] = monotonic_us() + LITTLE_US;
    box->slot_ends[2 * i] = pipes[i];
    box->slot_ends[2 * i + 1] = request->stream || (request->pair && i < 2) ? given[i] : -1;
  }
  if (!request->pair) return;
  partner_begin(shared, request, pipes[0], given);
  pipes[0] = -1;
}

static bool has_carried(int stream) { return carried[stream].from < carried[stream].to; }

static bool is_passed(int stream) { return request->judges && stream == 1; }

static bool takes(int stream) { return !is_passed(stream) || partner_takes(); }

uint64_t streams_poll(struct pollfd *polled) {
  uint64_t next = UINT64_MAX;
  for (int i = 0; i < STREAMS; i++) {
    const bool to_pipe = i == 0 && has_carried(0), to_socket = i > 0 && has_carried(i);
    const bool of_socket = request->stream && (i == 0 ? !to_pipe : to_socket);
    polled[i] = (struct pollfd){.fd = of_socket ? sockets[i] : pipes[i], .events = to_pipe || to_socket ? POLLOUT : POLLIN};
    if (pipes[i] < 0 || look_us[i] || !takes(i)) polled[i].fd = -1;
    if (look_us[i] && look_us[i] < next) next = look_us[i];
  }
  polled[STREAMS] = (struct pollfd){.fd = -1};
  if (request->pair) partner_poll(&polled[0], &polled[STREAMS]);
  return next;
}

void streams_serve(const struct pollfd *polled) {
  if (request->pair) partner_serve(&polled[0], &polled[STREAMS]);
  else if (polled[0].revents) pass_input_on();
  for (int i = 1; i < STREAMS; i++) {
    if (pipes[i] < 0) continue;
    if (request->stream && polled[i].revents) pass_output_on(i);
    if (!request->stream && (polled[i].revents || (look_us[i] && monotonic_us() >= look_us[i]))) {
      if (takes(i)) look(i);
      else look_us[i] = 0;
    }
  }
}

void streams_drain(void) {
  for (int i = 1; i < STREAMS; i++) {
    /* If the worker is too slow to take the last output of an open box, the rest is lost. */
    while (pipes[i] >= 0 && (request->stream ? pass_output_on(i) : read_kept(i) > 0)) {
      /* At most what a pipe holds. */
    }
  }
}

void streams_end(void) {
  for (int i = 0; i < STREAMS; i++) close_stream(i);
  if (request->pair) partner_end();
  if (!request->stream) return;
  for (int i = 0; i < STREAMS; i++) memset(carried[i].bytes, 0, carried[i].to);
}

static void pass_input_on(void) {
  struct carried *bytes = &carried[0];
  if (!has_carried(0)) {
    ssize_t count = recv(sockets[0], bytes->bytes, CHUNK, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return close_stream(0);
    bytes->from = 0;
    bytes->to = (size_t)count;
  }
  ssize_t count = write(pipes[0], bytes->bytes + bytes->from, bytes->to - bytes->from);
  if (count < 0 && errno == EAGAIN) return;
  if (count < 0) return close_stream(0);
  bytes->from += (size_t)count;
}

/* false: there is no more for now, or the socket takes no more. */
static bool pass_output_on(int stream) {
  struct carried *bytes = &carried[stream];
  if (!has_carried(stream)) {
    ssize_t count = read(pipes[stream], bytes->bytes, CHUNK);
    if (count < 0 && errno == EAGAIN) return false;
    if (count <= 0) return close_stream(stream), false;
    shared->seen[stream - 1] += (uint64_t)count;
    bytes->from = 0;
    bytes->to = (size_t)count;
  }
  ssize_t count = send(sockets[stream], bytes->bytes + bytes->from, bytes->to - bytes->from, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0 && errno == EAGAIN) return false;
  if (count < 0) return close_stream(stream), false;
  bytes->from += (size_t)count;
  return true;
}

static uint64_t limit_of(int stream) {
  return stream == 1 ? request->limits.stdout_bytes : request->limits.stderr_bytes;
}

/* Reads once, and decides when to read again. */
static bool look(int stream) {
  const bool discards = is_passed(stream) ? partner_is_over() : shared->kept[stream - 1] == limit_of(stream);
  uint64_t before = own_cpu_us();
  ssize_t count = read_kept(stream);
  if (pipes[stream] < 0) return false;
  uint64_t spent = own_cpu_us() - before, pause = 0;
  if (request->pair && stream == 1) {
    if (count > 0 && (discards || partner_turn_length() > TURN_MOST)) pause = SOON_US;
  } else {
    if (count > 0 && (discards || count < much[stream])) pause = SOON_US;
    if (count > 0 && count < LITTLE) pause = LITTLE_US;
  }
  if (count == 0) pause = END_US;
  if (spent >= DEAR_US && spent * PAUSE_TIMES > pause) pause = spent * PAUSE_TIMES;
  /* The run is to be ended. What is left of its output is read then. */
  look_us[stream] = stream == 1 && shared->over ? UINT64_MAX : pause ? monotonic_us() + pause : 0;
  return count > 0;
}

static ssize_t discard(int stream) { return splice(pipes[stream], NULL, nowhere, NULL, DISCARD_BYTES, SPLICE_F_NONBLOCK); }

/* Beyond the limit of standard error the last bytes are kept: there many a runtime says what it died of. */
static ssize_t read_end(void) {
  uint8_t *ring = output_region(END_REGION);
  const size_t at = (shared->seen[1] - shared->kept[1]) % END_MAX;
  const struct iovec parts[] = {{ring + at, END_MAX - at}, {ring, at}};
  return readv(pipes[2], parts, 2);
}

/* Returns the count of bytes; 0 or less: there are no more for now. */
static ssize_t read_kept(int stream) {
  if (is_passed(stream)) return read_passed();
  _Atomic uint64_t *kept = &shared->kept[stream - 1];
  const uint64_t room = limit_of(stream) - *kept;
  uint8_t *at = output_region(stream - 1) + *kept;
  ssize_t count = room ? read(pipes[stream], at, room) : stream == 2 ? read_end() : discard(stream);
  if (count < 0 && errno == EINTR) return 1;
  if (count < 0) {
    /* Without memory to keep it, any output is over the limit. */
    if (errno != EAGAIN) shared->over = true;
    return count;
  }
  if (count == 0) {
    const enum process_end end = request->pair && stream == 1 ? program_end() : GOES_ON;
    if (end == HAS_THREADS && ++end_looks <= THREADS_LOOKS) return 0;
    close_stream(stream);
    if (request->pair && stream == 1) partner_note_end(end == ENDS);
    return 0;
  }
  shared->seen[stream - 1] += (uint64_t)count;
  if (room) *kept += (uint64_t)count;
  if (request->pair && stream == 1) partner_note_output(room ? (size_t)count : 0);
  /* Standard error has no end at its limit: a program may print many messages. */
  if (stream == 1 && !room) shared->over = true;
  return count;
}

/*
 * An interactor's standard output. It counts nowhere. Many a runtime closes it just before the process ends. So if the process
 * goes on, the program sees the end only after so many looks, and cannot exceed a limit because of it before that.
 */
static ssize_t read_passed(void) {
  size_t room = 0;
  uint8_t *at = partner_room(&room);
  if (at && !room) return -1;
  ssize_t count = at ? read(pipes[1], at, room) : discard(1);
  if (count < 0) return errno == EINTR ? 1 : count;
  if (count == 0) {
    const enum process_end end = program_end();
    if (end != ENDS && ++end_looks <= (end == HAS_THREADS ? THREADS_LOOKS : END_LOOKS)) return 0;
    close_stream(1);
    partner_note_end(end == ENDS);
  } else if (at) {
    partner_pass((size_t)count);
  }
  return count;
}

/*
 * Whether its process is ending, or has ended. The kernel sets PF_EXITING before it closes a process's files. So after the
 * end of an output this tells a program that ended from one that closed its output and goes on, however slow the machine is.
 *
 * The flag is that of the first thread, which may have ended while others go on. Of a process that ends, each thread has the
 * flag by now, because its last one closed the output. The kernel counts a thread until it is gone, and the first one until
 * the process is. So the process ends if the count is 1 after the flag was seen: the only thread that is left can start no
 * other. A count of 0 is that of a thread that was just removed. It is looked at again, because another may have taken its
 * place with an execve. Where all that are seen have the flag, there may still be one that was not seen.
 */
static enum process_end program_end(void) {
  unsigned flags, threads;
  const pid_t pid = program_pid();
  for (int looks = 0; looks < 2; looks++) {
    if (!pid || !read_threads(pid, pid, &flags, &threads)) return ENDS;
    if (!(flags & EXITING)) return GOES_ON;
  }
  return threads == 1 ? ENDS : has_live_thread(pid) ? GOES_ON : HAS_THREADS;
}

static bool has_live_thread(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "%s%d/task", proc_root(), pid);
  const int folder = openat(proc_folder(), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = folder < 0 ? NULL : fdopendir(folder);
  if (folder >= 0 && !list) close(folder);
  bool is_live = false;
  unsigned flags, threads;
  for (struct dirent *entry; list && !is_live && (entry = readdir(list));) {
    const pid_t thread = atoi(entry->d_name); /* 0 for . and .. */
    is_live = thread && read_threads(pid, thread, &flags, &threads) && !(flags & EXITING);
  }
  if (list) closedir(list);
  return is_live;
}

static int proc_folder(void) { return setup->proc < 0 ? AT_FDCWD : setup->proc; }
static const char *proc_root(void) { return setup->proc < 0 ? "/proc/" : ""; }

/* The program is init's oldest child. 0: a process that cannot be found has ended. */
static pid_t program_pid(void) {
  char path[64], text[512];
  const int init = shared->init_pid;
  if (setup->group->kind == ISOLATION_RLIMITS) return init;
  snprintf(path, sizeof path, "%s%d/task/%d/children", proc_root(), init, init);
  return read_text(proc_folder(), path, text, sizeof text) <= 0 ? 0 : atoi(text);
}

/* false: it is not there any more. */
static bool read_threads(pid_t pid, pid_t thread, unsigned *flags, unsigned *threads) {
  char path[64], text[512];
  snprintf(path, sizeof path, "%s%d/task/%d/stat", proc_root(), pid, thread);
  if (read_text(proc_folder(), path, text, sizeof text) <= 0) return false;
  const char *name_end = strrchr(text, ')'); /* the program chooses its name */
  const char *format = ") %*c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u";
  return name_end && sscanf(name_end, format, flags, threads) == 2;
}
