/* The launcher's record of one slot and of the run in it. */
#ifndef RUNLEDGER_SLOT_RECORD_H
#define RUNLEDGER_SLOT_RECORD_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "buffer.h"
#include "cgroup_files.h"
#include "identity.h"
#include "shared.h"
#include "wire.h"

/* Why the launcher ended a run. The protocol carries these numbers. */
enum ending { ENDING_NONE, ENDING_CPU, ENDING_WALL, ENDING_OUTPUT, ENDING_CANCELLED, ENDING_DEADLINE };

enum slot_state {
  SLOT_STARTING, /* forked and not yet ready */
  SLOT_IDLE,
  SLOT_BUSY,     /* has a run, answered or not */
  SLOT_DEAD,     /* its group is being swept; then the slot is started again */
};

struct slot {
  unsigned number;
  bool for_streams;
  enum slot_state state;
  unsigned failed_starts; /* in a row */
  pid_t pid;
  int pidfd, control, memory;
  int listener;               /* where the kernel asks the launcher about system calls; -1: nowhere */
  unsigned answers;           /* since the last pause of the listener */
  uint64_t pause_end_us;      /* 0: it is not paused */
  uint32_t run_group;              /* whose counters are open; 0: none */
  char account[MAX_NAME + 1]; /* the account of its last zygote */
  struct group group;
  struct shared *shared;
  struct identity identity;

  /* The run. Once it is answered it is over for the worker, but not yet for the slot. */
  struct request request;
  uint32_t id;
  bool answered, ended, killed;
  int input, outputs[2], box;
  uint32_t input_at;
  struct buffer more_input; /* of an open box */
  bool input_closes, paused;
  struct buffer kept[2]; /* standard output and error, up to the limit */
  uint64_t seen[2];      /* and how much there was */
  uint64_t look_us[2];   /* when to read again; 0: when epoll reports it */
  uint32_t discards;     /* looks at output beyond its limit */
  uint64_t cpu_us;       /* of the program, as last read during the run */
  enum ending ending;
  uint64_t ending_us, dispatched_us, next_check_us;
  struct counters before; /* v1: when the run before ended */
  uint64_t charged_peak_bytes; /* of the run group, noted so far, without page cache */
  uint64_t memory_peak_bytes;  /* with the inherited memory of that moment */
  uint64_t inherited_bytes;    /* as last estimated; never rises in a run */
  uint64_t memory_refused;    /* requests for memory that the launcher refused */
  char lost[200]; /* why a run was lost with its slot, until the worker gets the fault */
  uint64_t lost_us;
};

#endif
