/*
 * Standard input as a regular file, so that a program can ask for its size, map it and read it again.
 *
 * An input that is in the request becomes a memory file of the run's own. It is sealed, so nothing can
 * change it, not even the program, which may open it again by its path. Its pages are charged to the
 * slot, and freed when the run's last process is dead.
 *
 * An input in the store is opened through the store's read-only mount. So no right of a program's user
 * can change the file, its mode, owner or times, or open it for writing.
 */
#ifndef RUNLEDGER_INPUT_FILE_H
#define RUNLEDGER_INPUT_FILE_H
#include <stddef.h>
#include <stdint.h>

/* `proc`: the machine's /proc; -1: it is at its usual place. */
int input_of_bytes(int proc, const uint8_t *bytes, size_t length);
/* -1 with errno: there is no such regular file. */
int input_of_store(const char *path);
/* A copy of an open file, for a place without a read-only mount of the store. Closes `file`. */
int input_copy(int proc, int file);

#endif
