/* The launcher's slots: started together, watched, and restarted when one dies. */
#ifndef RUNLEDGER_SLOTS_H
#define RUNLEDGER_SLOTS_H
#include "options.h"
#include "slot_record.h"

extern struct slot slots[MAX_SLOTS];
extern unsigned slot_count;

/* `priority`: the worker's, for the slots. */
void slots_start(const struct options *options, int priority);
/* Every slot is idle. */
bool slots_ready(void);
void slots_stop(void);

void slot_read_control(struct slot *slot);
/* Its pidfd is readable. */
void slot_died(struct slot *slot);
/* Starts a dead slot again once its group is empty. Returns when to call it again, if it could not be started yet. */
uint64_t slot_revive(struct slot *slot);

/* An idle slot, or NULL. Preferred is the slot whose interpreter is warm for `account`, then one that has served no account. */
struct slot *slot_free(bool for_streams, const char *account);
/* Two idle slots. false: there are not as many. */
bool slots_free_pair(struct slot *pair[2]);
/* So few slots are alive that so many runs cannot begin together, until the machine has room for another process. */
bool slots_lack(bool for_streams, unsigned runs);
/* The slot that runs this request and has not answered it, or NULL. */
struct slot *slot_running(uint32_t id);
/* The worker reads again: goes on reading the open boxes. */
void slots_resume_reading(void);

#endif
