/* What a run has used: read while it goes on, and reported once at its end. */
#ifndef RUNLEDGER_RUN_REPORT_H
#define RUNLEDGER_RUN_REPORT_H
#include "artefacts.h"
#include "slot_record.h"

/* v2: opens the counters of the run's group, which the slot names before the program starts. v1: they are open already. */
void run_follow_group(struct slot *slot);
/* CPU time of the program so far. */
uint64_t run_cpu_us(const struct slot *slot);
/* Notes the memory in use, while the program runs. */
void run_note_memory(struct slot *slot);
/* Processes of this run that the kernel killed for want of memory: the run's own, or the machine's. */
uint64_t run_oom_kills(const struct slot *slot);
/* The slot has estimated what the run still shares with its zygote. */
void run_note_estimate(struct slot *slot);
/* Answers FRAME_METER. */
void run_meter(struct slot *slot);
/* Answers FRAME_PEEK; `numbers` is its payload. `slot`: NULL if the run has not started or is answered. */
void run_peek(const struct slot *slot, uint32_t id, const uint8_t *numbers);
/* Answers FRAME_RUN with a report, or with a fault if the machine was out of memory. The output is complete and nothing of the run is left to write more. */
void run_report(struct slot *slot, const struct saved *saved);

#endif
