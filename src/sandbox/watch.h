/* The launcher's own side: slots, the runs in them, and the worker at the other end. */
#ifndef RUNLEDGER_WATCH_H
#define RUNLEDGER_WATCH_H
#include "launcher.h"

/* Why the launcher ended a run; the numbers go over the wire. */
enum ending { ENDING_NONE, ENDING_CPU, ENDING_WALL, ENDING_OUTPUT, ENDING_CANCELLED, ENDING_DEADLINE };

enum slot_state {
  SLOT_STARTING, /* forked, not yet ready */
  SLOT_IDLE,
  SLOT_BUSY,     /* has a run, answered or not */
  SLOT_DEAD,     /* its group is being swept, then it is started anew */
};

struct saved {
  bool done;
  uint64_t bytes;
  uint32_t files;
  char refusal[160];
};

struct slot {
  unsigned number;
  bool for_streams;
  enum slot_state state;
  unsigned failed_starts;
  pid_t pid;
  int pidfd, control, memory;
  uint32_t leaf;               /* whose counters are open (v2) */
  char account[MAX_NAME + 1];  /* whose zygote it had last */
  struct group group;
  struct shared *shared;
  struct identity identity;

  /* the run it has; `answered` runs are over for the worker, not yet for the slot */
  struct request request;
  uint32_t id;
  bool answered, ended, killed;
  int input, outputs[2], box;
  uint32_t input_at;
  struct buffer more_input; /* of a stream */
  bool input_closes, paused;
  struct buffer kept[2];
  uint64_t seen[2];
  enum ending ending;
  uint64_t ending_us, dispatched_us, next_check_us;
  struct counters before;
  char lost[200]; /* why a run was lost with its slot; told when nothing of it is left */
  uint64_t lost_us;
};

enum event { EVENT_WORKER, EVENT_SIGNAL, EVENT_CONTROL, EVENT_DEATH, EVENT_INPUT, EVENT_STDOUT, EVENT_STDERR };

struct launcher {
  struct options options;
  int poll, signals, store, priority;
  struct slot slots[MAX_SLOTS];
  unsigned slot_count;
  uint64_t deadline_us; /* 0: none */
  bool expired, closing;
};
extern struct launcher launcher;

void poll_add(int descriptor, enum event event, unsigned slot, uint32_t events);
void poll_remove(int descriptor);

/* slots.c */
void slots_start(void);
bool slots_ready(void);
void slots_stop(void);
void slot_read_control(struct slot *slot);
void slot_died(struct slot *slot);
void slot_revive(struct slot *slot);
struct slot *slot_free(bool for_streams, const char *account);
struct slot *slot_running(uint32_t id);

/* watch.c: one run */
void run_begin(struct slot *slot, uint32_t id);
void run_feed(struct slot *slot);
void run_feed_more(struct slot *slot, const uint8_t *bytes, size_t count);
void run_read(struct slot *slot, int which);
void run_pause(struct slot *slot, bool pause);
void run_end(struct slot *slot, enum ending why);
void run_settle(struct slot *slot);
void run_fault(struct slot *slot, const char *why);
void run_close(struct slot *slot);
void run_meter(struct slot *slot);
/* Looks at the run's limits; says when to look again. */
uint64_t run_check(struct slot *slot, uint64_t now);

/* worker.c */
void worker_open(int socket);
void worker_read(void);
void worker_write(void);
void worker_answer(enum frame_type type, uint32_t id, const void *head, size_t head_length, const struct buffer *rest,
                   unsigned rests);
void worker_fault(uint32_t id, const char *format, ...) __attribute__((format(printf, 2, 3)));
void worker_hello(void);
void worker_dispatch(void); /* queued requests to free slots */
void worker_refuse_queued(const char *why);
bool worker_is_slow(void);

/* store.c */
void store_save(int box, const struct request *request, struct saved *saved);

/* userns.c */
void identity_choose(struct identity *identity, unsigned slot);
void identity_map(const struct slot *slot);
bool degraded_usable(char *why, size_t size);
bool userns_usable(char *why, size_t size);
#endif
