/* What a slot's process gets from the launcher when it is forked. */
#ifndef RUNLEDGER_SLOT_SETUP_H
#define RUNLEDGER_SLOT_SETUP_H
#include "options.h"
#include "shared.h"

struct slot_setup {
  const struct options *options;
  unsigned number;
  int control;  /* the socket to the launcher */
  int reports;  /* init's end of its socket to the slot (relay.c) */
  int memory;   /* memfd of the shared pages, for a zygote to map */
  int output;   /* memfd of the output pages, until the slot has mapped it */
  int proc;     /* the machine's /proc, which the slot can see only while it starts */
  int priority; /* the worker's */
  pid_t launcher;
  struct group *group;
  struct shared *shared;
  struct identity identity;
};

#endif
