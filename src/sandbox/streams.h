/*
 * A run's standard streams: the slot's ends of its pipes.
 *
 * An ordinary run's input is a file (input_file.h), and its output goes to the output pages, up to its limit;
 * what is beyond is counted and discarded. A run of a pair has its output kept in the same way, and its
 * partner gets it, too (partner.h). An open box's streams are passed on between its pipes and three sockets
 * to the launcher, as they come.
 *
 * The slot does this, and not the launcher. A program has both ends of its pipes. It can hold a pipe's lock
 * for as long as it likes, in a read or write whose memory another thread keeps changing; and it can make
 * each read slow, by many waiters on the pipe. So the program can block the reader of its pipes until it is
 * killed, and it decides what a read costs.
 *
 * All of this costs some 10 us for each 64 KiB of output. In v1 it counts as the program's CPU time, except in a pair.
 *
 * A program also decides how it prints. So that its output costs the slot little:
 *   - it looks first when LITTLE_US have passed, or when the program has ended, as most programs then have;
 *   - after a read that found little, it looks again only when LITTLE_US have passed, so a pipe that
 *     gets single bytes costs at most 250 reads a second, and a full pipe waits only that long; after a
 *     read that found more, but less than half a pipe, when SOON_US have passed;
 *   - standard error beyond its limit is discarded without a copy, at most once in SOON_US;
 *   - after a read that took DEAR_US of CPU time or more, the pipe is left alone for PAUSE_TIMES as long;
 *   - in a pair the slot looks at standard output at once, but after TURN_MOST reads during which the
 *     partner wrote nothing, only when SOON_US have passed.
 * When the program has ended, its pipes hold at most what fits into them, and nothing can wait on them.
 */
#ifndef RUNLEDGER_STREAMS_H
#define RUNLEDGER_STREAMS_H
#include <poll.h>

#include "box.h"
#include "slot_setup.h"

enum { STREAMS = 3, STREAM_ENTRIES = STREAMS + 1 };

/* Once, while /dev is there. */
void streams_open(struct slot_setup *setup);

/*
 * Makes the pipes: box->files are the program's ends. The first may be an open file, which is the input; -1: it is not.
 * `sockets`: of an open box or of a pair; else NULL.
 */
void streams_begin(struct box *box, const int *sockets);
/* What to wait for: STREAM_ENTRIES entries. Returns the time of the next look; UINT64_MAX: none is due. */
uint64_t streams_poll(struct pollfd *polled);
void streams_serve(const struct pollfd *polled);
/* No process of the run is left to write: reads the rest. */
void streams_drain(void);
/* Closes what is still open. The output of a pair is first passed on to its end. */
void streams_end(void);

#endif
