/* The output pages (shared.h), as the slot writes them. */
#ifndef RUNLEDGER_OUTPUT_PAGES_H
#define RUNLEDGER_OUTPUT_PAGES_H
#include "slot_setup.h"

/* Once. Maps the pages, and closes their descriptor. */
void output_pages_open(struct slot_setup *setup);
/* 0: standard output, 1: standard error, LEFT_REGION: what the run left, END_REGION. Each has OUTPUT_MAX bytes. */
uint8_t *output_region(int region);

#endif
