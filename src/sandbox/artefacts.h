/*
 * The store of artefacts. Only the launcher's processes write to it. One saves regular files from a box whose processes
 * are all dead, so that none can exchange a file during the copy, under a temporary name, and then
 * renames. It does this outside the slot's control group: the pages of the copy are not charged to the program.
 */
#ifndef RUNLEDGER_ARTEFACTS_H
#define RUNLEDGER_ARTEFACTS_H
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct saved {
  bool done;
  uint64_t bytes;
  uint32_t files;
  bool broken;      /* the store failed, and nothing that the box left is the cause */
  char reason[160]; /* why nothing was saved */
};

/* NULL: there is no store. */
void artefacts_open(const char *directory);
bool artefacts_have_store(void);
/* Its directory. */
int artefacts_store(void);
/* `box`: the work directory that the files are in. SIGTERM, which is blocked, stops it, and nothing is left. */
void artefacts_save(int box, const struct request *request, struct saved *saved);

#endif
