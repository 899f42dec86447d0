/* What the launcher, its slots and the boxes in them share. */
#ifndef RUNLEDGER_LAUNCHER_H
#define RUNLEDGER_LAUNCHER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup.h"
#include "options.h"
#include "util.h"
#include "wire.h"

/* Who a box's program is, as its own user namespace numbers it. */
struct identity {
  uid_t uid;
  gid_t gid;
  bool own_namespace; /* a user namespace per slot */
  bool shares_uid;    /* no subordinate ids: init and slot have the program's own uid */
};

/*
 * One page set per slot, mapped by launcher, slot and init; a program loses it at execve. Whoever
 * writes a field is named; the socket between them orders the accesses.
 */
struct shared {
  struct fault fault;       /* slot, init, and the program's process before execve */
  _Atomic int init_pid;     /* slot: as the launcher sees it; 0 before it is reaped */
  uint32_t leaf;            /* slot: which leaf the run is in (v2) */
  uint64_t start_us;        /* program's process, last thing before execve */
  uint64_t cpu_start_us, memory_start_bytes;
  int exec_error;           /* program's process: execve failed with it */
  uint64_t end_us, cpu_end_us; /* init */
  int wait_status;          /* init */
  uint64_t largest_bytes;   /* slot, where there is no group: of the largest process */
  bool ended;               /* init: the three above hold */
  bool orphans;             /* init: processes were left when the program ended */
  struct zygote_view {      /* slot, before it starts a zygote, and before each of its forks */
    struct group group;
    struct identity identity;
    enum isolation kind;
    int control;
    pid_t slot;
    uint32_t leaf;
    _Atomic int init_pid;   /* zygote */
    uint64_t interpreter_bytes; /* zygote, before it says that it is ready */
  } zygote;
  /* slot: what a forked run has of its zygote and a plain one would pay for itself; 0 in a plain run */
  uint64_t inherited_bytes;
  uint32_t frame_length;    /* launcher */
  uint8_t frame[FRAME_MAX]; /* launcher: the request's payload */
};

/* Messages between launcher, slot and init, one byte each, some with descriptors. */
enum {
  MESSAGE_RUN = 'R',   /* launcher: take the request; stdin, stdout, stderr come along */
  MESSAGE_READY = 'Y', /* slot: started */
  MESSAGE_MAP = 'U',   /* slot: in a new user namespace, needs its ids mapped; launcher: done */
  MESSAGE_BOX = 'B',   /* init: the work directory's descriptor, kept to save from */
  MESSAGE_DONE = 'D',  /* init: the program ended */
  MESSAGE_IDLE = 'I',  /* slot: init is reaped, the group is empty */
  MESSAGE_FORK = 'F',  /* slot, to a zygote: have a child ready; zygote: it is; later: it is reaped */
};

/* slot.c */
struct slot_setup {
  const struct options *options;
  unsigned number;
  int control;
  int memory; /* memfd of the shared pages, for a zygote to map */
  int proc;   /* the machine's /proc, which is in sight for the slot's start only */
  int priority; /* the worker's */
  pid_t launcher;
  struct group *group;
  struct shared *shared;
  struct identity identity;
};
__attribute__((noreturn)) void slot_main(struct slot_setup *setup);

/* root.c: mount namespaces that hold nothing but one profile's read-only root, or the store. */
struct roots {
  int profiles[MAX_PROFILES]; /* descriptors of mount namespaces */
  int store;                  /* -1: there is no store */
};
void roots_build(const struct options *options, const struct identity *identity, struct roots *roots);

/* box.c */
struct box {
  const struct request *request;
  struct shared *shared;
  struct group *group;
  struct identity identity;
  int control;
  int parent;   /* pidfd of who cloned init: the slot, or its zygote */
  int files[3]; /* the program's standard input, output, error */
  int loads[MAX_LOADS];
  const volatile bool *started; /* NULL, or false while the program's process still waits for orders */
};
__attribute__((noreturn)) void box_init(struct box *box);
/* The parts of it that a zygote uses in its own order; all inside the box's namespaces. */
void box_die_with_parent(const struct box *box);
void box_furnish(const struct box *box);
void box_become_program(const struct box *box);
void box_start_clock(const struct box *box);
__attribute__((noreturn)) void box_await(struct box *box, pid_t program);

/* A forked run's limits: what it has of its zygote is charged there already, and counts as its own. */
struct limits zygote_limits(const struct request *request, const struct shared *shared);

/* zygote.c, in the slot */
struct zygote;
void zygotes_open(const struct slot_setup *setup, const struct roots *roots);
struct zygote *zygotes_choose(const struct request *request);
bool zygote_run(struct zygote *zygote, const struct box *box);
void zygotes_learn(const struct request *request);
int zygotes_patience_ms(int *descriptor);
void zygotes_tend(void);
void zygotes_hold(bool hold);
void zygotes_renew(void);
unsigned zygotes_tasks(void);

/* degraded.c and landlock.c, in the slot */
void degraded_open(const struct slot_setup *setup);
void degraded_run(const struct box *box);
/* `target_of` says where a path of the box really is. */
void landlock_confine(const struct request *request, const struct options *options, const char *(*target_of)(const char *));
int landlock_version(void);
bool landlock_scopes_signals(void);

/* seccomp.c */
void seccomp_build(bool degraded); /* once, before the first fork */
void seccomp_confine(void);

int send_message(int socket, char message, const int *descriptors, unsigned count);
ssize_t receive_message(int socket, char *message, int *descriptors, unsigned *count, bool wait);
#endif
