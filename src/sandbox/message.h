/*
 * Messages between launcher, slot and init: one byte each, some with descriptors, over a socket that
 * keeps messages apart (SOCK_SEQPACKET).
 */
#ifndef RUNLEDGER_MESSAGE_H
#define RUNLEDGER_MESSAGE_H
#include <stdbool.h>
#include <sys/types.h>

enum {
  MESSAGE_RUN = 'R',   /* launcher to slot: run the request; carries stdin, stdout and stderr */
  MESSAGE_READY = 'Y', /* slot: has started; carries the listener of its filter, if it has one */
  MESSAGE_MAP = 'U',   /* slot: is in a new user namespace and needs its ids mapped; launcher: done */
  MESSAGE_BOX = 'B',   /* init: the work directory's descriptor, for the launcher to save from */
  MESSAGE_DONE = 'D',  /* init: the program ended */
  MESSAGE_REAPED = 'E', /* slot: init is reaped, so every process of the run is dead */
  MESSAGE_IDLE = 'I',  /* slot: can take the next run */
  MESSAGE_FORK = 'F',  /* slot to zygote: fork a child ahead of time; zygote: that child is reaped */
};

enum { MESSAGE_DESCRIPTORS = 4 }; /* at most, with one message */

int send_message(int socket, char message, const int *descriptors, unsigned count);
/* 1: a message; 0: the other side is gone; -1: there is none now, or an error. */
ssize_t receive_message(int socket, char *message, int *descriptors, unsigned *count, bool wait);

#endif
