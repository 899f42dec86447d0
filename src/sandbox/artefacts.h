/*
 * The store of artefacts. Only the launcher's savers (saving.h) write to it. A saver copies regular files
 * from a box whose processes are all dead, so that none can exchange a file during the copy. It copies under a
 * temporary name, and then renames. It is outside the slot's control group, so the pages of the copy are not
 * charged to the program.
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
  bool full;        /* and it failed because it has no room */
  char reason[160]; /* why nothing was saved */
};

/* NULL: there is no store. */
void artefacts_open(const char *directory);
bool artefacts_have_store(void);
/* Its directory. */
int artefacts_store(void);
/* `box`: the work directory with the files. If SIGTERM comes, which must be blocked, it stops and removes what it copied. */
void artefacts_save(int box, const struct request *request, struct saved *saved);

#endif
