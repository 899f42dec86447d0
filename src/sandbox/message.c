#define _GNU_SOURCE
#include "message.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int send_message(int socket, char message, const int *descriptors, unsigned count) {
  struct iovec part = {&message, 1};
  union {
    struct cmsghdr head;
    char space[CMSG_SPACE(MESSAGE_DESCRIPTORS * sizeof(int))];
  } control = {0};
  struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
  if (count) {
    packet.msg_control = control.space;
    packet.msg_controllen = CMSG_SPACE(count * sizeof(int));
    control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(&control.head), descriptors, count * sizeof(int));
  }
  return sendmsg(socket, &packet, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

ssize_t receive_message(int socket, char *message, int *descriptors, unsigned *count, bool wait) {
  struct iovec part = {message, 1};
  union {
    struct cmsghdr head;
    char space[CMSG_SPACE(MESSAGE_DESCRIPTORS * sizeof(int))];
  } control;
  struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space,
                          .msg_controllen = sizeof control.space};
  ssize_t got = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  *count = 0;
  if (got <= 0) return got;
  struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
  const bool cut = packet.msg_flags & MSG_CTRUNC;
  int arrived[MESSAGE_DESCRIPTORS];
  unsigned many = 0;
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
    many = (unsigned)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(arrived, CMSG_DATA(head), many * sizeof(int));
  }
  if (!cut && descriptors) {
    memcpy(descriptors, arrived, many * sizeof(int));
    *count = many;
  } else {
    for (unsigned i = 0; i < many; i++) close(arrived[i]);
  }
  return cut ? MESSAGE_CUT : got;
}
