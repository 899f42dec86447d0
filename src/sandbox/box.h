/* The inside of a box: from the first process of its pid namespace to the program. */
#ifndef RUNLEDGER_BOX_H
#define RUNLEDGER_BOX_H
#include "shared.h"

struct box {
  const struct request *request;
  struct shared *shared;
  struct group *group;
  struct identity identity;
  int reports;  /* the socket to the slot */
  int parent;   /* pidfd of the process that cloned init: the slot, or its zygote */
  int files[3]; /* the program's standard input, output and error */
  int slot_ends[6]; /* the slot's ends of them, which an init inherits; -1: none */
  int loads[MAX_LOADS];
  int *thread_id; /* of a zygote: where its libc keeps its main thread's id; NULL: the program begins with an execve */
};

__attribute__((noreturn)) void box_init(struct box *box);

/* The steps of box_init, which a box ahead of its request takes in another order, all inside the box's namespaces. */
void box_die_with_parent(const struct box *box);
/* Without a request, the files are not yet limited. */
void box_mount(const struct box *box);
void box_limit_files(const struct request *request);
void box_furnish(const struct box *box);
/* In v2 the new process is in the run group. It is not confined; nor is init. */
pid_t box_fork_program(const struct box *box);
/* Of init, once the program's process is forked: no process of the program inherits the priority. */
void box_raise_priority(void);
/* Of the program's process, while it may still mount. */
void box_protect_proc(void);
void box_become_program(const struct box *box);
void box_start_clock(const struct box *box);
/* Both, and the program. */
__attribute__((noreturn)) void box_execute(const struct box *box);
/*
 * After an execve that failed. If that is because of a program that was loaded, the run ends with 126 and a line on standard
 * error, as in a shell. Otherwise it is a fault.
 */
__attribute__((noreturn)) void box_not_executed(struct shared *shared, const struct request *request, const char *path);
__attribute__((noreturn)) void box_await(struct box *box, pid_t program);

#endif
