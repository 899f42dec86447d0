/*
 * One set of pages for each slot, mapped by launcher, slot and init. A program loses them at execve.
 * A second set, the output pages, is mapped by launcher and slot only: OUTPUT_MAX bytes for standard
 * output, as many for standard error, and as many for what the run left (LEFT_... in wire.h). A fourth region is a ring:
 * the last END_MAX bytes of standard error beyond its limit.
 * Each field names the process that writes it; the messages between the processes order the accesses.
 */
#ifndef RUNLEDGER_SHARED_H
#define RUNLEDGER_SHARED_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup_files.h"
#include "failure.h"
#include "identity.h"
#include "wire.h"

enum { OUTPUT_REGIONS = 4, LEFT_REGION = 2, END_REGION = 3 };

struct shared {
  struct failure failure;   /* slot, init, and the program's process before execve */
  _Atomic int init_pid;     /* slot: as the launcher numbers it; 0 from just before it is reaped */
  uint32_t run_group;            /* slot: the group of this run; v1: in an idle slot, of the next one */
  uint64_t start_us;        /* program's process, immediately before execve */
  uint64_t cpu_start_us;
  int exec_error;           /* program's process: the errno of a failed execve */
  uint64_t end_us, cpu_end_us; /* init */
  int wait_status;          /* init */
  uint64_t largest_bytes;   /* slot, where there is no group: the peak of the largest process */
  bool ended;               /* init: end_us, cpu_end_us and wait_status are valid */
  bool orphans;             /* init: processes were left when the program ended */
  struct zygote_view {      /* slot, before it starts a zygote and before each fork of one */
    struct group group;
    struct identity identity;
    int reports;
    pid_t slot;
    uint32_t run_group;
    _Atomic int init_pid;   /* zygote */
    /* zygote, before its first message: the interpreter's memory, and all of the zygote's */
    uint64_t interpreter_bytes, private_bytes;
  } zygote;
  /* slot: memory that a forked run shares with its zygote when it starts; 0 in a plain run */
  uint64_t inherited_bytes; /* a plain run would be charged for this much of it */
  uint64_t forked_bytes;    /* all of it */
  uint64_t inherited_left;  /* slot, asked by MESSAGE_ESTIMATE: what of inherited_bytes is still shared */
  uint64_t memory_refused;  /* slot: requests for memory that it refused */
  uint64_t seen[2];         /* slot: bytes of standard output and error */
  _Atomic uint64_t kept[2]; /* slot: how many of them are in the output pages; the launcher reads it while the program runs */
  uint64_t left;            /* slot: bytes of the records of what the run left */
  bool over;                /* slot: standard output is over its limit */
  /* slot, of a pair: when its standard output ended with its process, before the partner could notice; 0: it did not */
  uint64_t output_end_us;
  uint64_t served_us;       /* slot: CPU time of its own, which v1 counts as the run's and which is not the program's */
  uint32_t frame_length;    /* launcher */
  uint8_t frame[FRAME_MAX]; /* launcher: the request's payload */
};

#endif
