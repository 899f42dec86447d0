/*
 * Messages between launcher, slot and init: one byte each, some with descriptors, over a socket that
 * keeps messages apart (SOCK_SEQPACKET).
 */
#ifndef RUNLEDGER_MESSAGE_H
#define RUNLEDGER_MESSAGE_H
#include <stdbool.h>
#include <sys/types.h>

#include "wire.h"

enum {
  MESSAGE_RUN = 'R',   /* launcher to slot: run the request; carries the sockets of an open box. To init: with the streams */
  MESSAGE_READY = 'Y', /* slot: has started; the program's process of a box ahead: its box can take orders */
  MESSAGE_MAP = 'U',   /* slot: is in a new user namespace and needs its ids mapped; launcher: done */
  MESSAGE_BOX = 'B',   /* init to slot: the work directory's descriptor; launcher to slot: has saved from it */
  MESSAGE_DONE = 'D',  /* init to slot: the program ended; slot to launcher: the run is over, and its output complete */
  MESSAGE_OVER = 'O',  /* slot: the run is over its limit of output */
  MESSAGE_ESTIMATE = 'E', /* launcher to slot: estimate the inherited memory; slot: done */
  MESSAGE_IDLE = 'I',  /* slot: can take the next run */
  MESSAGE_FORK = 'F',  /* slot to zygote: fork a child ahead of time; zygote: that child is reaped */
  MESSAGE_DROP = 'X',  /* slot to the child of a zygote: there is no run for it. The zygote reads it if the child has died */
};

enum { MESSAGE_DESCRIPTORS = 4 + MAX_LOADS }; /* at most, with one message */

int send_message(int socket, char message, const int *descriptors, unsigned count);
/* A message came, and this process may open no more descriptors: those of the message are lost. */
enum { MESSAGE_CUT = 2 };
/* 1: a message; MESSAGE_CUT; 0: the other side is gone; -1: there is none now, or an error. NULL: none are expected. */
ssize_t receive_message(int socket, char *message, int *descriptors, unsigned *count, bool wait);

#endif
