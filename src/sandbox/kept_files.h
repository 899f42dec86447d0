/*
 * The files that a run leaves and that its request asks for: copied from the work directory into the
 * output pages when no process of the run is left, however the run ended.
 *
 * The slot does this, and not the launcher: the program decides how many names there are to look at. What
 * is looked at and what is kept are limited. A folder is entered, and a file opened, by one name at a time
 * and never through a link, so nothing outside the work directory is found. Only regular files are opened:
 * opening a FIFO or a device would be an action.
 *
 * The order is that of the patterns, and of the names within each. A file that does not fit is not kept,
 * and the report says so; smaller ones after it are kept if they fit.
 */
#ifndef RUNLEDGER_KEPT_FILES_H
#define RUNLEDGER_KEPT_FILES_H
#include "shared.h"
#include "wire.h"

void keep_files(int directory, const struct request *request, struct shared *shared);

#endif
