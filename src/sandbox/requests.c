#define _GNU_SOURCE
#include "requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "answers.h"
#include "artefacts.h"
#include "buffer.h"
#include "failure.h"
#include "monotonic.h"
#include "poll.h"
#include "run_report.h"
#include "run_watch.h"
#include "slots.h"
#include "wire.h"

enum {
  QUEUE_MAX = 1024,
  QUEUE_BYTES_MAX = 64 * 1024 * 1024,
};

struct queued {
  struct queued *next;
  struct buffer payload;
  uint32_t id;
  bool stream;
};

static const struct options *options;
static int socket_to_worker = -1;
static struct buffer incoming;
static struct queued *queue;
static unsigned queue_length;
static size_t queue_bytes;
static struct request parsed;
static uint64_t deadline_us; /* 0: there is none */
static bool deadline_passed;

static void take_frame(enum frame_type type, uint32_t id, const uint8_t *payload, size_t length);
static void take_request(uint32_t id, const uint8_t *payload, size_t length);
static void cancel(uint32_t id);
static void start(struct slot *slot, uint32_t id, const uint8_t *payload, size_t length);

void requests_open(const struct options *chosen) {
  int socket = chosen->socket;
  options = chosen;
  socket_to_worker = socket;
  must(fcntl(socket, F_SETFL, O_NONBLOCK), "find the worker's socket");
  must(fcntl(socket, F_SETFD, FD_CLOEXEC), "protect the worker's socket");
  /* So that a report of usual size goes out in one call. */
  int size = 4 << 20;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  poll_add(socket, EVENT_WORKER, 0, EPOLLIN | EPOLLRDHUP);
  answers_open(socket);
}

void requests_read(void) {
  for (;;) {
    if (!buffer_reserve(&incoming, incoming.used + 65536)) fail("allocate");
    ssize_t count = read(socket_to_worker, incoming.at + incoming.used, incoming.size - incoming.used);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count <= 0) return answers_hang_up(NULL);
    incoming.used += (size_t)count;
    size_t at = 0;
    while (incoming.used - at >= FRAME_HEAD) {
      uint32_t length = get_u32(incoming.at + at);
      if (length < FRAME_HEAD - 4 || length > FRAME_MAX) return answers_hang_up("the length of a frame is impossible");
      if (incoming.used - at < length + 4) break;
      take_frame(incoming.at[at + 4], get_u32(incoming.at + at + 5), incoming.at + at + FRAME_HEAD, length + 4 - FRAME_HEAD);
      if (answers_hung_up()) return;
      at += length + 4;
    }
    memmove(incoming.at, incoming.at + at, incoming.used - at);
    incoming.used -= at;
  }
  if (!incoming.used && incoming.size > (1 << 20)) buffer_release(&incoming);
}

static void take_frame(enum frame_type type, uint32_t id, const uint8_t *payload, size_t length) {
  struct slot *slot;
  switch (type) {
    case FRAME_RUN: take_request(id, payload, length); break;
    case FRAME_CANCEL: cancel(id); break;
    case FRAME_INPUT:
      if ((slot = slot_running(id))) run_feed_more(slot, payload, length);
      break;
    case FRAME_METER:
      if ((slot = slot_running(id))) run_meter(slot);
      break;
    case FRAME_DEADLINE:
      if (length != 8) return answers_hang_up("a deadline is not a number");
      deadline_us = get_u64(payload);
      deadline_passed = deadline_us && deadline_us <= monotonic_us();
      break;
    default: answers_hang_up("the type of a frame is unknown");
  }
}

static void take_request(uint32_t id, const uint8_t *payload, size_t length) {
  const char *wrong = wire_parse(payload, length, &parsed);
  if (wrong) return answer_fault(id, "the request is malformed: %s", wrong);
  if (profile_index(options, parsed.profile) < 0) return answer_fault(id, "there is no profile %s", parsed.profile);
  if ((parsed.load_count || parsed.save_key) && !artefacts_have_store()) return answer_fault(id, "there is no store");
  if (parsed.stream && !options->stream_slots) return answer_fault(id, "there are no slots for open boxes");
  if (deadline_passed) return answer_fault(id, "the deadline has passed");
  struct slot *slot = slot_free(parsed.stream, parsed.zygote);
  if (slot) return start(slot, id, payload, length);
  struct queued *item = calloc(1, sizeof *item);
  if (!item || queue_length == QUEUE_MAX || queue_bytes + length > QUEUE_BYTES_MAX || !buffer_append(&item->payload, payload, length)) {
    free(item);
    return answer_fault(id, "there are too many requests at once");
  }
  item->id = id;
  item->stream = parsed.stream;
  struct queued **last = &queue;
  while (*last) last = &(*last)->next;
  *last = item;
  queue_length++;
  queue_bytes += length;
}

static void start(struct slot *slot, uint32_t id, const uint8_t *payload, size_t length) {
  memcpy(slot->shared->frame, payload, length);
  slot->shared->frame_length = (uint32_t)length;
  wire_parse(slot->shared->frame, length, &slot->request);
  if (slot->request.zygote) snprintf(slot->account, sizeof slot->account, "%s", slot->request.zygote);
  run_begin(slot, id);
}

static void drop(struct queued **at) {
  struct queued *item = *at;
  *at = item->next;
  queue_length--;
  queue_bytes -= item->payload.used;
  buffer_release(&item->payload);
  free(item);
}

void requests_dispatch(void) {
  for (struct queued **at = &queue; *at && !deadline_passed;) {
    struct slot *slot = slot_free((*at)->stream, NULL);
    if (!slot) {
      at = &(*at)->next;
      continue;
    }
    start(slot, (*at)->id, (*at)->payload.at, (*at)->payload.used);
    drop(at);
  }
}

uint64_t requests_check_deadline(uint64_t now) {
  if (!deadline_us || deadline_passed) return UINT64_MAX;
  deadline_passed = now >= deadline_us;
  while (deadline_passed && queue) {
    answer_fault(queue->id, "the deadline has passed");
    drop(&queue);
  }
  return deadline_us;
}

bool requests_deadline_passed(void) { return deadline_passed; }

static void cancel(uint32_t id) {
  struct slot *slot = slot_running(id);
  if (slot) return run_end(slot, ENDING_CANCELLED);
  for (struct queued **at = &queue; *at; at = &(*at)->next) {
    if ((*at)->id != id) continue;
    answer_fault(id, "cancelled before it started");
    drop(at);
    return;
  }
}
