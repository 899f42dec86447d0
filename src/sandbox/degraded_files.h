/*
 * The files of a degraded run. There is no private root: /box, /tmp and /load in a request's command and
 * variables are rewritten to directories of the slot, which only the slot's programs can enter, and what
 * would be mounted is copied.
 */
#ifndef RUNLEDGER_DEGRADED_FILES_H
#define RUNLEDGER_DEGRADED_FILES_H
#include <stdbool.h>
#include <stddef.h>

#include "box.h"
#include "slot_setup.h"

void degraded_files_open(const struct slot_setup *setup);
/* The request's input, if it is in the store. false: it is not there, and the failure is recorded. */
bool degraded_open_input(struct box *box);
/* Removes what a run had and left. */
void degraded_remove(void);
/* Makes the request's files. Enters the work directory. */
void degraded_furnish(const struct request *request);
int degraded_open_work(void);
/* The real path of a path of the box: /box/x lies in the work directory, /load beside it. */
const char *degraded_path(const char *at);
/* Replaces the paths of a box in a text of the request. */
void degraded_rewrite(char *into, size_t size, const char *text);

#endif
