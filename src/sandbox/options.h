/* The launcher's command line. There is no other configuration: it has no environment and reads no file. */
#ifndef RUNLEDGER_OPTIONS_H
#define RUNLEDGER_OPTIONS_H
#include <stdbool.h>

#include "isolation.h"

/* The descriptor by which others see that the worker, its launcher or a slot lives: src/queue/neighbours.ts. No program has it. */
enum { SIGN_OF_LIFE = 4 };
enum { MAX_SLOTS = 64, MAX_PROFILES = 16, MAX_ENTRIES = 4096 };

enum entry_kind {
  ENTRY_BIND,  /* mounted */
  ENTRY_COPY,  /* a small file */
  ENTRY_OWN,   /* a file that programs map: each slot that runs programs has a copy */
  ENTRY_FRONT, /* the same, in a directory that is mounted later: the copy is in front of its file */
  ENTRY_TREE,  /* a folder: copied with all that everybody may read in it */
  ENTRY_LINK,
};

/* One entry of a box's read-only root. */
struct entry {
  enum entry_kind kind;
  const char *from, *to;
};

struct profile {
  const char *name;
  struct entry entries[MAX_ENTRIES];
  unsigned entry_count;
};

struct options {
  unsigned slots;        /* for ordinary runs */
  unsigned stream_slots; /* for boxes that stay open */
  unsigned cpu_reserve;  /* percent of the processors that programs leave to the service; 0: no quotas */
  unsigned uid_base;
  int socket;
  enum isolation isolation;
  const char *zygote;    /* shared object that turns an interpreter into a zygote; NULL: none */
  const char *store;     /* directory of artefacts; NULL: none are saved or loaded */
  struct profile profiles[MAX_PROFILES];
  unsigned profile_count;
  bool probe;            /* print the isolation found and exit */
  bool print_filter;     /* print the system call filter of `isolation` and exit */
};

/* `options` is all zeros before. */
void options_parse(int count, char **arguments, struct options *options);
/* -1: there is no profile of this name. */
int profile_index(const struct options *options, const char *name);
#endif
