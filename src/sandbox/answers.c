#define _GNU_SOURCE
#include "answers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "poll.h"

enum {
  RESTS_MOST = 7,
  HEAD_MOST = 128,
  SLOW_BYTES = 1024 * 1024,        /* a backlog above this: the worker reads slowly */
  BACKLOG_MAX = 1024 * 1024 * 1024, /* a backlog above this: the worker does not read at all */
};

static int socket_to_worker = -1;
static struct buffer backlog;
static size_t backlog_at;
static bool polls_for_writing, hung_up;

static void poll_for_writing(bool wanted);

void answers_open(int socket) { socket_to_worker = socket; }

void answer(enum frame_type type, uint32_t id, const void *head, size_t head_length, const struct buffer *rest, unsigned rests) {
  uint8_t first[FRAME_HEAD + HEAD_MOST];
  struct iovec parts[1 + RESTS_MOST] = {{first, FRAME_HEAD + head_length}};
  size_t payload = head_length, sent = 0;
  if (hung_up) return;
  if (head_length) memcpy(first + FRAME_HEAD, head, head_length);
  for (unsigned i = 0; i < rests; i++) {
    parts[i + 1] = (struct iovec){rest[i].at, rest[i].used};
    payload += rest[i].used;
  }
  put_head(first, (uint32_t)payload, type, id);
  if (backlog_at > backlog.used / 2) {
    memmove(backlog.at, backlog.at + backlog_at, backlog.used - backlog_at);
    backlog.used -= backlog_at;
    backlog_at = 0;
  }
  if (backlog_at == backlog.used) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = rests + 1};
    ssize_t count = sendmsg(socket_to_worker, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return answers_hang_up(NULL);
    sent = count > 0 ? (size_t)count : 0;
  }
  /* Only the rest is copied. */
  for (unsigned i = 0; i <= rests; i++) {
    size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
    sent -= skip;
    if (skip == parts[i].iov_len) continue;
    if (backlog.used - backlog_at > BACKLOG_MAX || !buffer_append(&backlog, (uint8_t *)parts[i].iov_base + skip, parts[i].iov_len - skip))
      return answers_hang_up("the worker does not read its answers");
  }
  if (backlog_at < backlog.used) poll_for_writing(true);
}

void answer_fault(uint32_t id, const char *format, ...) {
  char text[512];
  va_list rest;
  va_start(rest, format);
  int length = vsnprintf(text, sizeof text, format, rest);
  va_end(rest);
  struct buffer bytes = {(uint8_t *)text, length < (int)sizeof text ? (size_t)length : sizeof text - 1, 0};
  answer(FRAME_FAULT, id, NULL, 0, &bytes, 1);
}

bool answers_write(void) {
  if (backlog_at == backlog.used) return false;
  while (backlog_at < backlog.used) {
    ssize_t count = send(socket_to_worker, backlog.at + backlog_at, backlog.used - backlog_at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return false;
    if (count < 0 && errno != EINTR) {
      answers_hang_up(NULL);
      return false;
    }
    if (count > 0) backlog_at += (size_t)count;
  }
  backlog.used = backlog_at = 0;
  if (backlog.size > SLOW_BYTES) buffer_release(&backlog);
  poll_for_writing(false);
  return true;
}

static void poll_for_writing(bool wanted) {
  if (wanted == polls_for_writing) return;
  polls_for_writing = wanted;
  poll_change(socket_to_worker, (short)(POLLIN | POLLRDHUP | (wanted ? POLLOUT : 0)));
}

bool answers_are_slow(void) { return backlog.used - backlog_at > SLOW_BYTES; }

void answers_hang_up(const char *why) {
  if (why) fprintf(stderr, "launcher: the connection to the worker ends: %s\n", why);
  hung_up = true;
}

bool answers_hung_up(void) { return hung_up; }
