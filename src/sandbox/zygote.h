/* A slot's warm interpreters. */
#ifndef RUNLEDGER_ZYGOTE_H
#define RUNLEDGER_ZYGOTE_H
#include "box.h"
#include "root.h"
#include "slot_setup.h"

struct zygote;

void zygotes_open(const struct slot_setup *setup, const struct roots *roots);

/* The zygote that may fork this request's run, or NULL. */
struct zygote *zygotes_choose(const struct request *request);
/* false: the zygote was lost during the run, so the result of the run is unknown. */
bool zygote_run(struct zygote *zygote, const struct box *box);

/* After a plain run: its request may be the first of a kind worth keeping warm. */
void zygotes_learn(const struct request *request);
/* v1: while a run is in the group, a zygote that is still starting is stopped, so that its CPU time is not counted as the run's. */
void zygotes_stop_start(bool stop);
/* After each run, before the slot is idle. */
void zygotes_renew(void);

/* While the slot is idle: the descriptor to wait for besides requests, and the time until zygotes_use_idle_time(); -1: forever. */
int zygotes_wait_ms(int *descriptor);
/* Takes over a zygote that has become warm, or starts one. */
void zygotes_use_idle_time(void);

/* Tasks of zygotes in the slot's group. */
unsigned zygotes_tasks(void);
/* Sockets of zygotes in the slot's network namespace. */
unsigned zygotes_sockets(void);

#endif
