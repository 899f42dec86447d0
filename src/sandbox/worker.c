/*
 * The worker's side of the socket: frames in, answers out, and a queue for requests that came while
 * every slot was busy. The client sends few more than there are slots; the queue's bound is for a
 * client gone wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "watch.h"

enum {
  QUEUE_MAX = 1024,
  QUEUE_BYTES_MAX = 64 * 1024 * 1024,
  SLOW_BYTES = 1024 * 1024,            /* unread by the worker: open boxes are read no further */
  UNREAD_MAX = 1024 * 1024 * 1024,     /* unread by the worker: it is gone for good */
};

struct queued {
  struct queued *next;
  struct buffer payload;
  uint32_t id;
  bool stream;
};

static int socket_to_worker = -1;
static struct buffer incoming, outgoing;
static size_t outgoing_at;
static struct queued *queue;
static unsigned queue_length;
static size_t queue_bytes;
static struct request parsed;

static void take_frame(enum frame_type type, uint32_t id, const uint8_t *payload, size_t length);
static void take_request(uint32_t id, const uint8_t *payload, size_t length);
static void cancel(uint32_t id);
static void start(struct slot *slot, uint32_t id, const uint8_t *payload, size_t length);
static void hang_up(const char *why);

void worker_open(int socket) {
  socket_to_worker = socket;
  must(fcntl(socket, F_SETFL, O_NONBLOCK), "find the worker's socket");
  must(fcntl(socket, F_SETFD, FD_CLOEXEC), "keep the worker's socket");
  /* A report of usual size goes out in one call. */
  int size = 4 << 20;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  poll_add(socket, EVENT_WORKER, 0, EPOLLIN | EPOLLRDHUP);
}

void worker_read(void) {
  for (;;) {
    if (!buffer_reserve(&incoming, incoming.used + 65536)) fail("allocate");
    ssize_t count = read(socket_to_worker, incoming.at + incoming.used, incoming.size - incoming.used);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count <= 0) return hang_up(NULL);
    incoming.used += (size_t)count;
    size_t at = 0;
    while (incoming.used - at >= FRAME_HEAD) {
      uint32_t length = get_u32(incoming.at + at);
      if (length < FRAME_HEAD - 4 || length > FRAME_MAX) return hang_up("a frame's length is impossible");
      if (incoming.used - at < length + 4) break;
      take_frame(incoming.at[at + 4], get_u32(incoming.at + at + 5), incoming.at + at + FRAME_HEAD, length + 4 - FRAME_HEAD);
      if (launcher.closing) return;
      at += length + 4;
    }
    memmove(incoming.at, incoming.at + at, incoming.used - at);
    incoming.used -= at;
  }
  if (!incoming.used && incoming.size > (1 << 20)) buffer_release(&incoming);
}

static void hang_up(const char *why) {
  if (why) fprintf(stderr, "launcher: %s: the worker's requests cannot be read any more\n", why);
  launcher.closing = true;
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
      if (length != 8) return hang_up("a deadline is not a number");
      launcher.deadline_us = get_u64(payload);
      launcher.expired = launcher.deadline_us && launcher.deadline_us <= clock_us();
      break;
    default: hang_up("a frame is of no known type");
  }
}

static void take_request(uint32_t id, const uint8_t *payload, size_t length) {
  const char *wrong = wire_parse(payload, length, &parsed);
  if (wrong) return worker_fault(id, "malformed request: %s", wrong);
  if (profile_index(&launcher.options, parsed.profile) < 0) return worker_fault(id, "there is no profile %s", parsed.profile);
  if ((parsed.load_count || parsed.save_key) && launcher.store < 0) return worker_fault(id, "there is no store");
  if (parsed.stream && !launcher.options.stream_slots) return worker_fault(id, "there are no slots for open boxes");
  if (launcher.expired) return worker_fault(id, "the deadline has passed");
  struct slot *slot = slot_free(parsed.stream, parsed.zygote);
  if (slot) return start(slot, id, payload, length);
  struct queued *item = calloc(1, sizeof *item);
  if (!item || queue_length == QUEUE_MAX || queue_bytes + length > QUEUE_BYTES_MAX || !buffer_append(&item->payload, payload, length)) {
    free(item);
    return worker_fault(id, "too many requests at once");
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

void worker_dispatch(void) {
  for (struct queued **at = &queue; *at && !launcher.expired;) {
    struct slot *slot = slot_free((*at)->stream, NULL);
    if (!slot) {
      at = &(*at)->next;
      continue;
    }
    start(slot, (*at)->id, (*at)->payload.at, (*at)->payload.used);
    drop(at);
  }
}

void worker_refuse_queued(const char *why) {
  while (queue) {
    worker_fault(queue->id, "%s", why);
    drop(&queue);
  }
}

static void cancel(uint32_t id) {
  struct slot *slot = slot_running(id);
  if (slot) return run_end(slot, ENDING_CANCELLED);
  for (struct queued **at = &queue; *at; at = &(*at)->next) {
    if ((*at)->id != id) continue;
    worker_fault(id, "cancelled before it began");
    drop(at);
    return;
  }
}

/* Writes at once what the socket takes; only the rest is copied. */
void worker_answer(enum frame_type type, uint32_t id, const void *head, size_t head_length, const struct buffer *rest, unsigned rests) {
  uint8_t first[FRAME_HEAD + 128];
  struct iovec parts[8] = {{first, FRAME_HEAD + head_length}};
  size_t payload = head_length, sent = 0;
  if (head_length) memcpy(first + FRAME_HEAD, head, head_length);
  for (unsigned i = 0; i < rests; i++) {
    parts[i + 1] = (struct iovec){rest[i].at, rest[i].used};
    payload += rest[i].used;
  }
  put_head(first, (uint32_t)payload, type, id);
  if (launcher.closing) return;
  if (outgoing_at == outgoing.used) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = rests + 1};
    ssize_t count = sendmsg(socket_to_worker, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return hang_up(NULL);
    sent = count > 0 ? (size_t)count : 0;
  }
  for (unsigned i = 0; i <= rests; i++) {
    size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
    sent -= skip;
    if (skip == parts[i].iov_len) continue;
    if (outgoing.used - outgoing_at > UNREAD_MAX || !buffer_append(&outgoing, (uint8_t *)parts[i].iov_base + skip, parts[i].iov_len - skip))
      return hang_up("the worker reads no answers");
  }
  worker_write();
}

void worker_write(void) {
  static bool waiting;
  while (outgoing_at < outgoing.used) {
    ssize_t count = send(socket_to_worker, outgoing.at + outgoing_at, outgoing.used - outgoing_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0 && errno != EINTR) return hang_up(NULL);
    if (count > 0) outgoing_at += (size_t)count;
  }
  bool rest = outgoing_at < outgoing.used;
  if (!rest && outgoing.used) {
    outgoing.used = outgoing_at = 0;
    if (outgoing.size > SLOW_BYTES) buffer_release(&outgoing);
  }
  if (rest == waiting) return;
  waiting = rest;
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | (rest ? EPOLLOUT : 0), .data.u64 = EVENT_WORKER};
  epoll_ctl(launcher.poll, EPOLL_CTL_MOD, socket_to_worker, &event);
  for (unsigned i = 0; i < launcher.slot_count && !rest; i++)
    if (launcher.slots[i].state == SLOT_BUSY && !launcher.slots[i].answered) run_pause(&launcher.slots[i], false);
}

bool worker_is_slow(void) { return outgoing.used - outgoing_at > SLOW_BYTES; }

void worker_fault(uint32_t id, const char *format, ...) {
  char text[512];
  va_list rest;
  va_start(rest, format);
  int length = vsnprintf(text, sizeof text, format, rest);
  va_end(rest);
  struct buffer bytes = {(uint8_t *)text, length < (int)sizeof text ? (size_t)length : sizeof text - 1, 0};
  worker_answer(FRAME_FAULT, id, NULL, 0, &bytes, 1);
}

void worker_hello(void) {
  static const char *const KINDS[] = {"", "v1", "v2", "v2-user", "rlimits"};
  char text[1024];
  int length = snprintf(text, sizeof text,
                        "{\"kind\":\"%s\",\"degraded\":%s,\"slots\":%u,\"stream_slots\":%u,\"groups\":\"%s/runledger.%u\",\"pid\":%d}",
                        KINDS[groups_kind()], groups_kind() == ISOLATION_RLIMITS ? "true" : "false", launcher.options.slots,
                        launcher.options.stream_slots, groups_base(), groups_instance(), getpid());
  struct buffer bytes = {(uint8_t *)text, (size_t)length, 0};
  worker_answer(FRAME_HELLO, 0, NULL, 0, &bytes, 1);
}
