/* Reads and writes the small text files by which the kernel shows counters and takes settings. */
#ifndef RUNLEDGER_KERNEL_FILES_H
#define RUNLEDGER_KERNEL_FILES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One counter from a file that holds a number (`name` is NULL) or lines of "name number". 0: not there. */
uint64_t read_counter(int fd, const char *name);
/*
 * A process's private pages, from an open /proc/<pid>/statm. Pages mapped from files are in the page cache: no run is
 * charged for them. 0: it cannot be read.
 */
uint64_t read_private_bytes(int statm);
ssize_t read_text(int dir, const char *path, char *text, size_t size);
bool write_text(int dir, const char *path, const char *text);
bool write_number(int fd, uint64_t number);
/* Root, and not of a user namespace that maps only some ids. */
bool is_machine_root(void);
unsigned processors(void);
/* Closes every descriptor from 3 on but these. */
int close_all_but(const int *kept, unsigned count);

#endif
