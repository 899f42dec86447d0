#define _GNU_SOURCE
#include "partner.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monotonic.h"
#include "output_pages.h"

enum { CHUNK = 64 * 1024 };

static struct shared *shared;
static const struct request *request;
static int input_pipe = -1, input_socket = -1, output_socket = -1;
static uint8_t bytes[CHUNK]; /* of the partner's, on their way to the pipe */
static size_t from, to;
static size_t sent; /* of the kept standard output */
/*
 * An interactor's output on its way to the program. It is read up to a chunk at a time while at most a chunk waits, and
 * once more when the interactor is dead: its pipe holds no more than a chunk.
 */
static uint8_t passing[3 * CHUNK];
static size_t passing_from, passing_to;
static bool output_ended;
static unsigned turn_length;
static size_t written_down, record; /* of the transcript: its bytes, and where its last record begins */

static void pass_input_on(void);
static size_t rest_length(void);
static void send_rest(void);
static void write_down(enum left_kind kind, const uint8_t *at, size_t count);

static void close_descriptor(int *descriptor) {
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
}

void partner_begin(struct shared *pages, const struct request *of_run, int input, const int *sockets) {
  shared = pages;
  request = of_run;
  input_pipe = input;
  input_socket = sockets[0];
  output_socket = sockets[1];
  from = to = sent = written_down = record = turn_length = 0;
  passing_from = passing_to = 0;
  output_ended = false;
}

void partner_poll(struct pollfd *input, struct pollfd *output) {
  const bool writes = from < to;
  *input = (struct pollfd){.fd = writes ? input_pipe : input_socket, .events = writes ? POLLOUT : POLLIN};
  *output = (struct pollfd){.fd = rest_length() ? output_socket : -1, .events = POLLOUT};
}

void partner_serve(const struct pollfd *input, const struct pollfd *output) {
  if (input->revents) pass_input_on();
  if (output->revents) send_rest();
}

/* Reads and writes once. */
static void pass_input_on(void) {
  if (from == to) {
    ssize_t count = recv(input_socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      close_descriptor(&input_socket);
      close_descriptor(&input_pipe);
      return;
    }
    from = 0;
    to = (size_t)count;
    turn_length = 0;
    write_down(LEFT_INPUT, bytes, to);
  }
  ssize_t count = input_pipe < 0 ? -1 : write(input_pipe, bytes + from, to - from);
  if (count < 0 && input_pipe >= 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count < 0) {
    close_descriptor(&input_pipe); /* the program has closed its input: the rest is discarded */
    from = to;
  } else {
    from += (size_t)count;
  }
}

void partner_note_output(size_t count) {
  turn_length++;
  write_down(LEFT_OUTPUT, output_region(0) + shared->kept[0] - count, count);
  send_rest();
}

void partner_note_end(bool with_process) {
  if (with_process) shared->output_end_us = monotonic_us();
  output_ended = true;
  send_rest();
}

unsigned partner_turn_length(void) { return turn_length; }

bool partner_is_over(void) { return output_socket < 0 && !output_ended; }

bool partner_takes(void) { return passing_to <= CHUNK; }

uint8_t *partner_room(size_t *room) {
  if (output_socket < 0) return NULL;
  *room = sizeof passing - passing_to;
  if (*room > CHUNK) *room = CHUNK;
  return passing + passing_to;
}

void partner_pass(size_t count) {
  passing_to += count;
  turn_length++;
  send_rest();
}

/* What the partner has not got yet. */
static size_t rest_length(void) { return request->judges ? passing_to - passing_from : shared->kept[0] - sent; }

static void count_as_sent(size_t count) {
  if (!request->judges) {
    sent += count;
    return;
  }
  passing_from += count;
  if (passing_from == passing_to) passing_from = passing_to = 0;
}

/* Sends until the socket is full. */
static void send_rest(void) {
  while (output_socket >= 0 && rest_length()) {
    const uint8_t *rest = request->judges ? passing + passing_from : output_region(0) + sent;
    ssize_t count = send(output_socket, rest, rest_length(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) close_descriptor(&output_socket); /* the partner is over */
    else count_as_sent((size_t)count);
  }
  if (output_socket < 0) passing_from = passing_to = 0;
  if (output_ended) close_descriptor(&output_socket);
}

/* The program is dead, so the kept output grows no more. */
void partner_end(void) {
  close_descriptor(&input_socket);
  close_descriptor(&input_pipe);
  output_ended = true;
  for (send_rest(); output_socket >= 0; send_rest()) {
    struct pollfd writable = {.fd = output_socket, .events = POLLOUT};
    poll(&writable, 1, -1);
  }
  memset(bytes, 0, to);
  if (request->judges) memset(passing, 0, sizeof passing);
}

/* Bytes of one writer that follow each other are one record. */
static void write_down(enum left_kind kind, const uint8_t *at, size_t count) {
  uint8_t *region = output_region(LEFT_REGION);
  if (count > request->transcript_bytes - written_down) count = request->transcript_bytes - written_down;
  if (!count) return;
  if (!shared->left || region[record] != kind) {
    record = shared->left;
    region[record] = (uint8_t)kind;
    put_u32(region + record + 1, 0);
    put_u32(region + record + 5, 0);
    shared->left += LEFT_HEAD;
  }
  memcpy(region + shared->left, at, count);
  put_u32(region + record + 1, get_u32(region + record + 1) + (uint32_t)count);
  shared->left += count;
  written_down += count;
}
