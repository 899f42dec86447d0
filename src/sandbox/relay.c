/*
 * The slot's part in a run that goes on: it serves the program's streams and questions, and tells the
 * launcher when the run is over. It has three partners:
 *
 *   init       says that the program ended (MESSAGE_DONE), over a socket that all inits of the slot
 *              share, one after the other; before that, it may send the work directory (MESSAGE_BOX).
 *   launcher   gets MESSAGE_DONE once: when the program ended and left no process, or else when init is
 *              reaped. Then the output is complete. If the work directory is to be saved, the message
 *              carries it, and the slot keeps it open until the launcher has closed it: the last close
 *              frees every file, and that is not the launcher's work. Files that are only to be kept are
 *              copied by the slot, before the message (kept_files.c).
 *              If the launcher ended the run, its wall time lasts until init is reaped, because until then its
 *              processes use CPU time that counts. The kernel frees a program's memory at the program's
 *              priority: on a busy machine, and with much memory or many mappings, that can take seconds.
 *   program    may block the slot in any call that touches its pipes or its memory. The slot waits for
 *              nothing else here. The launcher ends the run through init's pidfd, and the program's
 *              death releases the slot. That is why init does not do this work: it must be free to die.
 */
#define _GNU_SOURCE
#include "relay.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failure.h"
#include "inherited.h"
#include "kept_files.h"
#include "message.h"
#include "monotonic.h"
#include "questions.h"
#include "shared.h"
#include "streams.h"

enum { CONTROL, REPORTS, END, FIRST_STREAM, ENTRIES = FIRST_STREAM + STREAM_ENTRIES };

static const struct slot_setup *setup;
static const struct request *request;
static int reports = -1;
static int directory = -1; /* the work directory; -1: none was sent */
static bool reported, over_reported;

static void read_report(void);
static void read_control(void);
static void report(void);

void relay_open(struct slot_setup *slot_setup) {
  int ends[2];
  must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "make the socket of the inits");
  slot_setup->reports = ends[1];
  reports = ends[0];
  setup = slot_setup;
}

void relay_begin(struct box *box, const int *sockets) {
  struct shared *shared = setup->shared;
  request = box->request;
  reported = over_reported = shared->over = false;
  shared->memory_refused = 0;
  shared->inherited_left = UINT64_MAX;
  for (int i = 0; i < 2; i++) shared->seen[i] = shared->kept[i] = 0;
  shared->left = shared->output_end_us = shared->served_us = 0;
  questions_limit(&request->limits);
  streams_begin(box, sockets);
}

bool relay_serve(int end, int most_ms) {
  const uint64_t until = most_ms < 0 ? UINT64_MAX : monotonic_us() + (uint64_t)most_ms * 1000;
  const uint64_t used_us = request->pair ? own_cpu_us() : 0;
  while (!reported) {
    struct pollfd polled[ENTRIES + 1] = {
        [CONTROL] = {.fd = setup->control, .events = POLLIN},
        [REPORTS] = {.fd = reports, .events = POLLIN},
        [END] = {.fd = end, .events = POLLIN},
    };
    uint64_t look = streams_poll(polled + FIRST_STREAM);
    if (questions_poll(polled, ENTRIES, look < until ? look : until) == 0 && look >= until) return false;
    if (polled[REPORTS].revents) {
      read_report();
      continue;
    }
    if (polled[END].revents) return true;
    if (polled[CONTROL].revents) read_control();
    streams_serve(polled + FIRST_STREAM);
    if (setup->shared->over && !over_reported) {
      over_reported = true;
      must(send_message(setup->control, MESSAGE_OVER, NULL, 0), "report too much output");
    }
    if (request->pair) setup->shared->served_us = own_cpu_us() - used_us;
  }
  return false;
}

void relay_keep(int sent) {
  if (directory >= 0) close(directory);
  directory = sent;
}

/* Orphans must die first, and files that are to be saved must not change: then the report waits for init's end. */
static void read_report(void) {
  char message;
  int passed[MESSAGE_DESCRIPTORS];
  unsigned count;
  if (receive_message(reports, &message, passed, &count, false) != 1) return;
  if (message == MESSAGE_BOX && count == 1) relay_keep(passed[0]);
  if (message == MESSAGE_DONE && !setup->shared->orphans && !request->save_key) report();
}

static void read_control(void) {
  char message;
  int passed[MESSAGE_DESCRIPTORS];
  unsigned count;
  if (receive_message(setup->control, &message, passed, &count, false) == 0) _exit(EXIT_BROKEN);
  if (message != MESSAGE_ESTIMATE) return;
  inherited_estimate(setup);
  must(send_message(setup->control, MESSAGE_ESTIMATE, NULL, 0), "report an estimate");
}

static bool saves(void) { return directory >= 0 && request->save_key; }

/* v1: init has read the CPU time before, unless the program left processes or was ended. */
static void keep(void) {
  struct shared *shared = setup->shared;
  const uint64_t used_us = own_cpu_us();
  keep_files(directory, request, shared);
  if (shared->orphans || !shared->ended) shared->served_us += own_cpu_us() - used_us;
}

static void report(void) {
  streams_drain();
  if (directory >= 0 && request->has_keep) keep();
  reported = true;
  must(send_message(setup->control, MESSAGE_DONE, &directory, saves()), "report the end of a run");
}

void relay_end(bool known) {
  char message = 0;
  unsigned count;
  for (struct pollfd more = {.fd = reports, .events = POLLIN}; poll(&more, 1, 0) > 0;) read_report();
  if (!reported && known) {
    report();
    while (saves() && message != MESSAGE_BOX)
      if (receive_message(setup->control, &message, NULL, &count, true) != 1) _exit(EXIT_BROKEN);
  }
  if (directory >= 0) close(directory);
  directory = -1;
  questions_limit(NULL);
  streams_end();
}
