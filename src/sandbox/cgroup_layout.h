/* Where the control groups of one launcher go: the result of looking for either version. */
#ifndef RUNLEDGER_CGROUP_LAYOUT_H
#define RUNLEDGER_CGROUP_LAYOUT_H
#include "isolation.h"

enum { HIERARCHIES = 4 };

struct cgroup_layout {
  enum isolation kind;
  unsigned hierarchies;         /* v1: one for each controller; v2: one */
  char bases[HIERARCHIES][512]; /* the launcher's own group in each */
  int cpu;                      /* the one that has the cpu controller; -1: none has */
};

#endif
