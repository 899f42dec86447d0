/* The launcher's slots: started together, watched, and replaced when one dies. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watch.h"

/* A slot that cannot start this often in a row never will. */
enum { MOST_FAILED_STARTS = 5 };
/* What a dead slot ran is gone within milliseconds; this is for what the kernel holds up. */
enum { GONE_US = 3 * 1000 * 1000 };

static void slot_start(struct slot *slot);
static void slot_became_idle(struct slot *slot);
static void reap_orphans(void);

void slots_start(void) {
  const struct options *options = &launcher.options;
  launcher.slot_count = options->slots + options->stream_slots;
  must(prctl(PR_SET_CHILD_SUBREAPER, 1), "become the reaper of orphans");
  seccomp_build(groups_kind() == ISOLATION_RLIMITS);
  for (unsigned i = 0; i < launcher.slot_count; i++) {
    struct slot *slot = &launcher.slots[i];
    slot->number = i;
    slot->for_streams = i >= options->slots;
    slot->input = slot->outputs[0] = slot->outputs[1] = slot->box = slot->control = slot->pidfd = -1;
    slot->memory = (int)must(memfd_create("slot", MFD_CLOEXEC), "make a slot's shared pages");
    must(ftruncate(slot->memory, sizeof *slot->shared), "size a slot's shared pages");
    slot->shared = mmap(NULL, sizeof *slot->shared, PROT_READ | PROT_WRITE, MAP_SHARED, slot->memory, 0);
    if (slot->shared == MAP_FAILED) fail("map a slot's shared pages");
    identity_choose(&slot->identity, i);
    if (!group_make(&slot->group, i)) fail("make a slot's control group");
    slot_start(slot);
  }
}

static void slot_start(struct slot *slot) {
  int ends[2];
  must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "make a slot's socket");
  slot->shared->fault = (struct fault){0};
  slot->shared->init_pid = 0;
  slot->state = SLOT_STARTING;
  slot->answered = true;
  pid_t launcher_pid = getpid();
  slot->pid = (pid_t)must(fork(), "fork a slot");
  if (slot->pid == 0) {
    struct slot_setup setup = {.options = &launcher.options, .number = slot->number, .control = ends[1],
                               .memory = slot->memory, .proc = -1, .priority = launcher.priority,
                               .launcher = launcher_pid, .group = &slot->group, .shared = slot->shared,
                               .identity = slot->identity};
    slot_main(&setup);
  }
  close(ends[1]);
  slot->control = ends[0];
  slot->pidfd = (int)must((long)syscall(SYS_pidfd_open, slot->pid, 0), "watch a slot");
  poll_add(slot->control, EVENT_CONTROL, slot->number, EPOLLIN);
  poll_add(slot->pidfd, EVENT_DEATH, slot->number, EPOLLIN);
}

void slot_read_control(struct slot *slot) {
  char message;
  int descriptors[4];
  unsigned count;
  while (slot->control >= 0 && receive_message(slot->control, &message, descriptors, &count, false) == 1) {
    if (message == MESSAGE_BOX && count == 1 && slot->box < 0 && !slot->answered) slot->box = descriptors[0], count = 0;
    for (unsigned i = 0; i < count; i++) close(descriptors[i]);
    switch (message) {
      case MESSAGE_MAP: identity_map(slot); break;
      case MESSAGE_READY: slot_became_idle(slot); break;
      case MESSAGE_DONE:
        slot->ended = true;
        /* Orphans are dying, and what is saved must lie still: both wait for the slot's word. */
        if (!slot->shared->orphans && !slot->request.save_key) run_settle(slot);
        break;
      case MESSAGE_IDLE:
        run_settle(slot);
        slot_became_idle(slot);
        break;
    }
  }
}

static void slot_became_idle(struct slot *slot) {
  if (slot->state == SLOT_STARTING) {
    slot->failed_starts = 0;
    reap_orphans();
  }
  slot->state = SLOT_IDLE;
  if (groups_kind() == ISOLATION_V1 && !slot->before.cpu_us) group_read(&slot->group, &slot->before);
  worker_dispatch();
}

void slot_died(struct slot *slot) {
  char why[200] = "the slot was killed";
  /* A slot just forked may hold a copy of an older one's pidfd, whose event is then not news. */
  if (waitpid(slot->pid, NULL, WNOHANG) == 0) return;
  slot_read_control(slot);
  if (slot->shared->fault.error)
    snprintf(why, sizeof why, "%s: %s", slot->shared->fault.step, strerror(slot->shared->fault.error));
  if (slot->state == SLOT_STARTING && ++slot->failed_starts == MOST_FAILED_STARTS) {
    fprintf(stderr, "launcher: a slot cannot start: %s\n", why);
    slots_stop();
    exit(EXIT_BROKEN);
  }
  if (slot->state == SLOT_BUSY && !slot->answered) {
    memcpy(slot->lost, why, sizeof why);
    slot->lost_us = clock_us();
    run_close(slot);
  }
  poll_remove(slot->control);
  poll_remove(slot->pidfd);
  close(slot->control);
  close(slot->pidfd);
  slot->control = slot->pidfd = -1;
  slot->pid = 0;
  slot->state = SLOT_DEAD;
  slot_revive(slot);
}

/*
 * Its boxes die with it, but not at once; until then nothing new starts among them, and what was lost is not told of: it
 * could run again elsewhere beside its remains. (Where there are no groups, nobody knows of remains.) What the kernel
 * does not let die in all that time is held up in it, and runs no more.
 */
void slot_revive(struct slot *slot) {
  reap_orphans();
  bool empty = !launcher.closing && group_sweep(&slot->group);
  if (*slot->lost && (empty || clock_us() - slot->lost_us > GONE_US)) {
    worker_fault(slot->id, "%s", slot->lost);
    *slot->lost = 0;
  }
  if (!empty) return;
  group_unmake(&slot->group);
  if (!group_make(&slot->group, slot->number)) fail("make a slot's control group again");
  slot->before = (struct counters){0};
  slot->leaf = 0; /* no slot has that one: the counters of the new group's are not open yet */
  slot_start(slot);
}

/* What a dead slot had forked is ours now. The machine's first process might never reap it. */
static void reap_orphans(void) {
  for (;;) {
    siginfo_t end = {0};
    if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) || !end.si_pid) return;
    for (unsigned i = 0; i < launcher.slot_count; i++)
      if (launcher.slots[i].pid == end.si_pid) return; /* its death is told of by its pidfd */
    waitpid(end.si_pid, NULL, WNOHANG);
  }
}

bool slots_ready(void) {
  for (unsigned i = 0; i < launcher.slot_count; i++)
    if (launcher.slots[i].state != SLOT_IDLE) return false;
  return true;
}

void slots_stop(void) {
  launcher.closing = true;
  for (unsigned i = 0; i < launcher.slot_count; i++)
    if (launcher.slots[i].pid > 0) kill(launcher.slots[i].pid, SIGKILL);
  for (unsigned i = 0; i < launcher.slot_count; i++)
    if (launcher.slots[i].pid > 0) waitpid(launcher.slots[i].pid, NULL, 0);
  groups_remove();
}

/* Any will do; the one whose interpreter is warm for this account will do it sooner. */
struct slot *slot_free(bool for_streams, const char *account) {
  struct slot *found = NULL;
  for (unsigned i = 0; i < launcher.slot_count; i++) {
    struct slot *slot = &launcher.slots[i];
    if (slot->state != SLOT_IDLE || slot->for_streams != for_streams) continue;
    if (account && !strcmp(slot->account, account)) return slot;
    if (!found || (!account && *found->account && !*slot->account)) found = slot;
  }
  return found;
}

struct slot *slot_running(uint32_t id) {
  for (unsigned i = 0; i < launcher.slot_count; i++) {
    struct slot *slot = &launcher.slots[i];
    if (slot->state == SLOT_BUSY && !slot->answered && slot->id == id) return slot;
  }
  return NULL;
}
