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

/* Why the launcher ended a run. The protocol carries these numbers, but for the last: then it says that SIGKILL ended the run. */
enum ending { ENDING_NONE, ENDING_CPU, ENDING_WALL, ENDING_OUTPUT, ENDING_CANCELLED, ENDING_DEADLINE, ENDING_MEMORY };

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
  unsigned failed_starts; /* in a row, while not all slots were ready once */
  uint64_t start_again_us; /* not before then, because its process could not be forked */
  pid_t pid;
  int pidfd, control, memory, output_memory;
  const uint8_t *output;      /* the output pages */
  uint32_t run_group;              /* whose counters are open; 0: none */
  char account[MAX_NAME + 1]; /* the account of its last zygote */
  struct group group;
  struct shared *shared;
  struct identity identity;

  /* The run. Once it is answered it is over for the worker, but not yet for the slot. */
  struct request request;
  uint32_t id;
  bool answered, killed;
  /* Of an open box: its sockets to the slot, and what is to be written. */
  int input, outputs[2];
  uint32_t input_at;
  struct buffer more_input;
  bool input_closes, paused;
  enum ending ending;
  uint64_t ending_us, dispatched_us, next_check_us;
  uint64_t window_us, window_cpu_us; /* when the present window began (run_watch.c), and the CPU time used by then */
  bool resting;                      /* the program used little CPU time in the window before */
  pid_t saver;                       /* the process that saves the run's files (saving.h); 0: there is none */
  int saver_pidfd, saved;            /* `saved`: the pipe of its result */
  struct counters before; /* v1: when the run before ended */
  uint64_t charged_peak_bytes; /* of the run group, noted so far, without page cache */
  uint64_t kernel_peak_bytes;  /* of the run group, with page cache */
  uint64_t memory_peak_bytes;  /* with the inherited memory of that moment */
  uint64_t inherited_bytes;    /* as last estimated; never rises in a run */
  bool estimates;              /* the slot is estimating them */
  uint64_t awaiting_bytes;     /* the charged peak to which they will be added */
  char lost[200]; /* why a run was lost with its slot, until the worker gets the fault */
  uint64_t died_us;
  bool user_ended; /* all processes of its user id were killed since */
  pid_t left_saver; /* of a dead slot: it was asked to end, and was not reaped yet */
};

#endif
