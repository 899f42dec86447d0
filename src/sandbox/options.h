/* What the launcher is told on its command line: it has no environment and reads no file. */
#ifndef RUNLEDGER_OPTIONS_H
#define RUNLEDGER_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

enum { MAX_SLOTS = 64, MAX_PROFILES = 16, MAX_ENTRIES = 48 };

enum isolation { ISOLATION_AUTO, ISOLATION_V1, ISOLATION_V2, ISOLATION_V2_USER, ISOLATION_RLIMITS };
enum entry_kind { ENTRY_BIND, ENTRY_COPY, ENTRY_LINK };

/* One line of a box's read-only root. */
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
  unsigned slots;        /* places for runs */
  unsigned stream_slots; /* places for boxes that stay open */
  unsigned uid_base;
  int socket;
  enum isolation isolation;
  const char *zygote;    /* shared object that makes an interpreter a zygote; NULL: none */
  const char *store;     /* artefacts; NULL: none are saved or loaded */
  struct profile profiles[MAX_PROFILES];
  unsigned profile_count;
  bool probe;            /* say what isolation there is, and exit */
};

void options_parse(int count, char **arguments, struct options *options);
int profile_index(const struct options *options, const char *name);
#endif
