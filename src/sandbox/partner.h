/*
 * Two runs at the same time, in two slots: each one's standard output is the other's standard input. Each
 * slot serves its own program's pipes, and two sockets lead to the slot of the partner. No program has an
 * end of a socket or of the other program's pipes. So it cannot see, lock, block or signal its partner.
 *
 * What must stay true:
 *   - The slot never waits for the partner while its program runs. It takes the program's output as it
 *     comes, up to the limit of standard output, which holds for a pair, too. The partner gets exactly what
 *     is kept. So a program that floods a partner that never reads is ended by its own limit.
 *   - The output of an interactor (`judges`) is only passed on: it is not kept, and has no limit. While much
 *     of it waits for the program, no more is taken, so an interactor waits for a program that does not
 *     read, as with a pipe. Otherwise a program could choose that its interactor exceeds a limit.
 *   - When a program has closed its output, or has ended, its partner sees the end of its input once it has
 *     read everything. The slot stays until then, or until the partner is over, too. Before that it
 *     closes its own side of what the partner writes, so two slots never wait for each other.
 *   - What a program writes to a partner that is over, or that has closed its input, is discarded; only an
 *     interactor's is not counted. It gets no SIGPIPE, so no program can end its partner by ending early.
 *   - When an output ends with its process, output_end_us is set before the partner can notice. So whatever the
 *     partner does because of the end comes later, also by the clock.
 *
 * The report says which of the two ended first. A run ends when the launcher decided to end it, or with its process,
 * whichever came first. An output that is closed before is not the end of its run, nor is the end
 * of a process's first thread while it has others.
 */
#ifndef RUNLEDGER_PARTNER_H
#define RUNLEDGER_PARTNER_H
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "shared.h"
#include "wire.h"

/* `input`: the slot's end of the program's standard input. `sockets`: from the partner, and to it. */
void partner_begin(struct shared *shared, const struct request *request, int input, const int *sockets);
void partner_poll(struct pollfd *input, struct pollfd *output);
void partner_serve(const struct pollfd *input, const struct pollfd *output);
/* So many more bytes of standard output are kept. */
void partner_note_output(size_t count);
/* The output has ended. `with_process`: because the process has, or is about to. */
void partner_note_end(bool with_process);
/* Of an interactor: where to put the next bytes of its output, and how many. NULL: nowhere, the program is over. */
uint8_t *partner_room(size_t *room);
/* So many were put there. */
void partner_pass(size_t count);
/* Whether an interactor's output may be read now. */
bool partner_takes(void);
bool partner_is_over(void);
/* How many pieces of output there were since the partner wrote last. */
unsigned partner_turn_length(void);
void partner_end(void);

#endif
