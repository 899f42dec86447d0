/* The kinds of isolation that a machine may offer, and their names on the command line and in reports. */
#ifndef RUNLEDGER_ISOLATION_H
#define RUNLEDGER_ISOLATION_H
#include <stdbool.h>

enum isolation {
  ISOLATION_AUTO,
  ISOLATION_V1,      /* control groups version 1, root */
  ISOLATION_V2,      /* control groups version 2, root */
  ISOLATION_V2_USER, /* version 2, an ordinary user with a delegated group and user namespaces */
  ISOLATION_RLIMITS, /* neither groups nor namespaces */
};

const char *isolation_name(enum isolation kind);
/* false: no kind has this name. */
bool isolation_by_name(const char *name, enum isolation *kind);

#endif
