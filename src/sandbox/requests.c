#define _GNU_SOURCE
#include "requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* The worker gives back what it holds. What waited here would keep its lease for as long as no process can be made. */
#define NO_SLOT NO_ROOM "the launcher cannot start a slot"

enum {
  QUEUE_MAX = 1024,
  SPARE_BYTES = 64 * 1024,
  READ_AT_ONCE = 64 * 1024,
  READ_MOST = 4 << 20, /* before the clocks of the runs are looked at again */
};

/* What the worker asks for with one frame: a run, or the two runs of a pair. */
struct order {
  uint32_t ids[2];
  const uint8_t *payloads[2];
  size_t lengths[2];
  unsigned runs;
  bool stream;
  const char *account; /* of a run that a warm interpreter may fork; else NULL */
};

struct queued {
  struct queued *next;
  struct buffer payload; /* of the runs, one after the other */
  struct order order;    /* its payloads point into `payload` */
};

static const struct options *options;
static int socket_to_worker = -1;
static struct buffer incoming;
static struct queued *queue;
/* Of the last small request that waited. The next one then needs no system call and no new page. */
static struct buffer spare;
static unsigned queue_length;
static size_t queue_bytes, queue_bytes_max;
static struct request parsed;
static uint64_t deadline_us; /* 0: there is none */
static bool deadline_passed;

static void take_frame(enum frame_type type, uint32_t id, const uint8_t *payload, size_t length);
static void take_order(struct order *order);
static void put_away(struct buffer *payload);
static const char *check_run(const uint8_t *payload, size_t length, struct order *order);
static bool start(const struct order *order);
static void cancel(uint32_t id);

void requests_open(const struct options *chosen) {
  int socket = chosen->socket;
  options = chosen;
  /* The worker sends no more: any request that a slot could have started at once can wait for it. */
  queue_bytes_max = (size_t)FRAME_MAX * (chosen->slots + chosen->stream_slots);
  socket_to_worker = socket;
  must(fcntl(socket, F_SETFL, O_NONBLOCK), "find the worker's socket");
  must(fcntl(socket, F_SETFD, FD_CLOEXEC), "protect the worker's socket");
  /* So that a report of usual size goes out in one call. */
  int size = 4 << 20;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  poll_add(socket, EVENT_WORKER, 0, POLLIN | POLLRDHUP);
  answers_open(socket);
}

/* Room for all of the frame that has begun: a buffer that grows by little copies a large frame again and again. */
static size_t room_needed(void) {
  size_t needed = incoming.used + READ_AT_ONCE;
  if (incoming.used < 4) return needed;
  uint32_t length = get_u32(incoming.at);
  return length <= FRAME_MAX && length + 4 > needed ? length + 4 : needed;
}

void requests_read(void) {
  for (size_t all = 0; all < READ_MOST;) {
    if (!buffer_reserve(&incoming, room_needed())) fail("allocate");
    ssize_t count = read(socket_to_worker, incoming.at + incoming.used, incoming.size - incoming.used);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count <= 0) return answers_hang_up(NULL);
    incoming.used += (size_t)count;
    all += (size_t)count;
    size_t at = 0;
    while (incoming.used - at >= FRAME_HEAD) {
      uint32_t length = get_u32(incoming.at + at);
      if (length < FRAME_HEAD - 4 || length > FRAME_MAX) return answers_hang_up("the length of a frame is impossible");
      if (incoming.used - at < length + 4) break;
      take_frame(incoming.at[at + 4], get_u32(incoming.at + at + 5), incoming.at + at + FRAME_HEAD, length + 4 - FRAME_HEAD);
      if (answers_hung_up()) return;
      at += length + 4;
    }
    if (at) memmove(incoming.at, incoming.at + at, incoming.used - at);
    incoming.used -= at;
  }
  if (!incoming.used && incoming.size > (1 << 20)) buffer_release(&incoming);
}

static void take_frame(enum frame_type type, uint32_t id, const uint8_t *payload, size_t length) {
  struct slot *slot;
  switch (type) {
    case FRAME_RUN: take_order(&(struct order){.ids = {id}, .payloads = {payload}, .lengths = {length}, .runs = 1}); break;
    case FRAME_PAIR: {
      struct order pair = {.ids = {id}, .runs = 2};
      if (!wire_split_pair(payload, length, &pair.ids[1], pair.payloads, pair.lengths))
        return answers_hang_up("a pair is truncated");
      take_order(&pair);
      break;
    }
    case FRAME_CANCEL: cancel(id); break;
    case FRAME_INPUT:
      if ((slot = slot_running(id))) run_feed_more(slot, payload, length);
      break;
    case FRAME_METER:
      if ((slot = slot_running(id))) run_meter(slot);
      break;
    case FRAME_PEEK:
      if (length != PEEK_SIZE) return answers_hang_up("a peek is not three numbers");
      run_peek(slot_running(id), id, payload);
      break;
    case FRAME_DEADLINE:
      if (length != 8) return answers_hang_up("a deadline is not a number");
      deadline_us = get_u64(payload);
      deadline_passed = deadline_us && deadline_us <= monotonic_us();
      break;
    default: answers_hang_up("the type of a frame is unknown");
  }
}

static void fault_all(const struct order *order, const char *why) {
  for (unsigned i = 0; i < order->runs; i++) answer_fault(order->ids[i], "%s", why);
}

static void take_order(struct order *order) {
  const char *wrong = NULL;
  for (unsigned i = 0; i < order->runs && !wrong; i++) wrong = check_run(order->payloads[i], order->lengths[i], order);
  if (!wrong && deadline_passed) wrong = "the deadline has passed";
  if (wrong) return fault_all(order, wrong);
  bool queued = false;
  for (const struct queued *item = queue; item; item = item->next) queued |= item->order.stream == order->stream;
  if (!queued && start(order)) return;
  if (slots_lack(order->stream, order->runs)) return fault_all(order, NO_SLOT);
  const size_t length = order->lengths[0] + order->lengths[1];
  struct queued *item = calloc(1, sizeof *item);
  if (item) item->payload = spare, spare = (struct buffer){0};
  bool kept = item && queue_length < QUEUE_MAX && queue_bytes + length <= queue_bytes_max && buffer_reserve(&item->payload, length);
  for (unsigned i = 0; i < order->runs && kept; i++) kept = buffer_append(&item->payload, order->payloads[i], order->lengths[i]);
  if (!kept) {
    if (item) put_away(&item->payload);
    free(item);
    return fault_all(order, "there are too many requests at once");
  }
  item->order = *order;
  item->order.account = NULL; /* it pointed into the frame */
  item->order.payloads[0] = item->payload.at;
  item->order.payloads[1] = item->payload.at + order->lengths[0];
  struct queued **last = &queue;
  while (*last) last = &(*last)->next;
  *last = item;
  queue_length++;
  queue_bytes += length;
}

/* NULL: the run can be started. Otherwise: why it is rejected. */
static const char *check_run(const uint8_t *payload, size_t length, struct order *order) {
  static char why[MAX_NAME + 64];
  const char *wrong = wire_parse(payload, length, &parsed);
  if (!wrong && parsed.pair != (order->runs == 2)) wrong = "a run of a pair comes with its partner";
  if (wrong) return snprintf(why, sizeof why, "the request is malformed: %s", wrong), why;
  if (profile_index(options, parsed.profile) < 0)
    return snprintf(why, sizeof why, "there is no profile %s", parsed.profile), why;
  if ((parsed.load_count || parsed.save_key || parsed.input_key) && !artefacts_have_store()) return "there is no store";
  if (parsed.stream && !options->stream_slots) return "there are no slots for open boxes";
  if (parsed.pair && options->slots < 2) return "two programs at the same time need two slots";
  order->stream = parsed.stream;
  order->account = parsed.pair ? NULL : parsed.zygote;
  return NULL;
}

/* false: there is no free slot for it. */
static bool start(const struct order *order) {
  struct slot *found[2] = {NULL};
  if (order->runs == 2 ? !slots_free_pair(found) : !(found[0] = slot_free(order->stream, order->account))) return false;
  for (unsigned i = 0; i < order->runs; i++) {
    struct slot *slot = found[i];
    memcpy(slot->shared->frame, order->payloads[i], order->lengths[i]);
    slot->shared->frame_length = (uint32_t)order->lengths[i];
    wire_parse(slot->shared->frame, order->lengths[i], &slot->request);
    if (slot->request.zygote && !slot->request.pair) snprintf(slot->account, sizeof slot->account, "%s", slot->request.zygote);
  }
  if (order->runs == 2) run_begin_pair(found, order->ids);
  else run_begin(found[0], order->ids[0]);
  return true;
}

static void put_away(struct buffer *payload) {
  if (spare.at || payload->size > SPARE_BYTES) return buffer_release(payload);
  spare = *payload;
  spare.used = 0;
}

static void drop(struct queued **at) {
  struct queued *item = *at;
  *at = item->next;
  queue_length--;
  queue_bytes -= item->payload.used;
  put_away(&item->payload);
  free(item);
}

void requests_dispatch(void) {
  bool full[2] = {false, false}; /* no more can start: ordinary runs, open boxes */
  for (struct queued **at = &queue; *at && !deadline_passed;) {
    const struct order *order = &(*at)->order;
    if (!full[order->stream] && start(order)) {
      drop(at);
      continue;
    }
    if (slots_lack(order->stream, order->runs)) {
      fault_all(order, NO_SLOT);
      drop(at);
      continue;
    }
    full[order->stream] = true;
    at = &(*at)->next;
  }
}

uint64_t requests_check_deadline(uint64_t now) {
  if (!deadline_us || deadline_passed) return UINT64_MAX;
  deadline_passed = now >= deadline_us;
  while (deadline_passed && queue) {
    fault_all(&queue->order, "the deadline has passed");
    drop(&queue);
  }
  return deadline_us;
}

bool requests_deadline_passed(void) { return deadline_passed; }

/* A pair that waits is cancelled by the id of either run. */
static void cancel(uint32_t id) {
  struct slot *slot = slot_running(id);
  if (slot) return run_end(slot, ENDING_CANCELLED);
  for (struct queued **at = &queue; *at; at = &(*at)->next) {
    const struct order *order = &(*at)->order;
    if (order->ids[0] != id && (order->runs < 2 || order->ids[1] != id)) continue;
    fault_all(order, "cancelled before it started");
    drop(at);
    return;
  }
}
