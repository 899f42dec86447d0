#define _GNU_SOURCE
#include "slots.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answers.h"
#include "cgroup.h"
#include "cgroup_files.h"
#include "failure.h"
#include "identity.h"
#include "message.h"
#include "monotonic.h"
#include "poll.h"
#include "remains.h"
#include "run_output.h"
#include "run_report.h"
#include "run_watch.h"
#include "saving.h"
#include "seccomp.h"
#include "slot.h"

/* After this many failed starts in a row the launcher gives up. */
enum { MOST_FAILED_STARTS = 5 };
static bool all_were_ready;
/* The processes of a dead slot are gone within milliseconds. This is for a process that the kernel blocks. */
enum { GONE_US = 3 * 1000 * 1000 };
/* A slot that is dead: the next look at its processes; and the next start, or look, if the machine had no room or blocks one. */
enum { LOOK_US = 1000, START_AGAIN_US = 1000 * 1000 };

struct slot slots[MAX_SLOTS];
unsigned slot_count;

static const struct options *options;
static int priority;

static void map_output(struct slot *slot);
static bool slot_start(struct slot *slot);
static void map_ids(const struct slot *slot);
static void slot_became_idle(struct slot *slot);
static void reap_orphans(void);
static bool is_own(pid_t pid);
static bool is_no_remain(pid_t pid);
static bool end_remains_of(struct slot *slot);
static void end_remains(void);

void slots_start(const struct options *chosen, int worker_priority) {
  options = chosen;
  priority = worker_priority;
  saving_open(worker_priority);
  slot_count = options->slots + options->stream_slots;
  must(prctl(PR_SET_CHILD_SUBREAPER, 1), "become the reaper of orphans");
  seccomp_build(groups_kind() == ISOLATION_RLIMITS);
  for (unsigned i = 0; i < slot_count; i++) {
    struct slot *slot = &slots[i];
    slot->number = i;
    slot->for_streams = i >= options->slots;
    slot->input = slot->outputs[0] = slot->outputs[1] = slot->control = slot->pidfd = -1;
    slot->saver_pidfd = slot->saved = -1;
    slot->memory = (int)must(memfd_create("slot", MFD_CLOEXEC), "make a slot's shared pages");
    must(ftruncate(slot->memory, sizeof *slot->shared), "size a slot's shared pages");
    slot->shared = mmap(NULL, sizeof *slot->shared, PROT_READ | PROT_WRITE, MAP_SHARED, slot->memory, 0);
    if (slot->shared == MAP_FAILED) fail("map a slot's shared pages");
    map_output(slot);
    identity_choose(&slot->identity, i, slot_count, options->uid_base);
    if (!group_make(&slot->group, i)) fail("make a slot's control group");
    if (!slot_start(slot)) fail("fork a slot");
  }
}

/* Customers' bytes: no other slot that is forked gets them. */
static void map_output(struct slot *slot) {
  const size_t size = OUTPUT_REGIONS * (size_t)OUTPUT_MAX;
  slot->output_memory = (int)must(memfd_create("output", MFD_CLOEXEC), "make a slot's output pages");
  must(ftruncate(slot->output_memory, (off_t)size), "size a slot's output pages");
  slot->output = mmap(NULL, size, PROT_READ, MAP_SHARED, slot->output_memory, 0);
  if (slot->output == MAP_FAILED) fail("map a slot's output pages");
  must(madvise((void *)slot->output, size, MADV_DONTFORK), "protect a slot's output pages");
  madvise((void *)slot->output, size, MADV_DONTDUMP);
}

/* false: the machine has no room for another process, and nothing has changed. */
static bool slot_start(struct slot *slot) {
  int ends[2];
  must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "make a slot's socket");
  slot->shared->failure = (struct failure){0};
  slot->shared->init_pid = 0;
  pid_t launcher_pid = getpid(), pid = fork();
  if (pid < 0) return close(ends[0]), close(ends[1]), false;
  if (pid == 0) {
    struct slot_setup setup = {.options = options, .number = slot->number, .control = ends[1],
                               .memory = slot->memory, .output = slot->output_memory, .proc = -1, .priority = priority,
                               .launcher = launcher_pid, .group = &slot->group, .shared = slot->shared,
                               .identity = slot->identity};
    slot_main(&setup);
  }
  close(ends[1]);
  slot->pid = pid;
  slot->start_again_us = 0;
  slot->state = SLOT_STARTING;
  slot->answered = true;
  slot->control = ends[0];
  slot->pidfd = (int)must((long)syscall(SYS_pidfd_open, slot->pid, 0), "watch a slot");
  poll_add(slot->control, EVENT_CONTROL, slot->number, POLLIN);
  poll_add(slot->pidfd, EVENT_DEATH, slot->number, POLLIN);
  return true;
}

void slot_read_control(struct slot *slot) {
  char message;
  int descriptors[MESSAGE_DESCRIPTORS];
  unsigned count;
  ssize_t got = 0;
  while (slot->control >= 0 && (got = receive_message(slot->control, &message, descriptors, &count, false)) == 1) {
    switch (message) {
      case MESSAGE_MAP: map_ids(slot); break;
      case MESSAGE_READY: slot_became_idle(slot); break;
      case MESSAGE_OVER: run_end(slot, ENDING_OUTPUT); break;
      case MESSAGE_ESTIMATE: run_note_estimate(slot); break;
      case MESSAGE_DONE:
        run_settle(slot, count ? descriptors[0] : -1);
        break;
      case MESSAGE_IDLE:
        run_give_up(slot);
        slot_became_idle(slot);
        break;
    }
  }
  /* A descriptor was lost, and the slot waits for an answer that nobody can give. */
  if (got == MESSAGE_CUT) syscall(SYS_pidfd_send_signal, slot->pidfd, SIGKILL, NULL, 0);
}

static void map_ids(const struct slot *slot) {
  if (!identity_map(&slot->identity, slot->number, slot->pid))
    fprintf(stderr, "launcher: the ids of a user namespace cannot be mapped: %s\n", strerror(errno));
  send_message(slot->control, MESSAGE_MAP, NULL, 0);
}

static void slot_became_idle(struct slot *slot) {
  if (slot->state == SLOT_STARTING) {
    slot->failed_starts = 0;
    reap_orphans();
  }
  run_forget(slot);
  slot->state = SLOT_IDLE;
  if (groups_kind() != ISOLATION_V1) return;
  /* While there is time: the counters of the next run. The last one is answered, so its peak is needed no more. */
  if (slot->run_group != slot->shared->run_group) {
    group_follow(&slot->group, slot->run_group = slot->shared->run_group, READS_COUNTERS);
    group_read(&slot->group, &slot->before);
  } else {
    group_reset_peak(&slot->group);
  }
}

void slot_died(struct slot *slot) {
  char why[200] = "the slot was killed";
  waitpid(slot->pid, NULL, 0);
  slot_read_control(slot);
  if (slot->shared->failure.error)
    snprintf(why, sizeof why, "%s: %s", slot->shared->failure.step, strerror(slot->shared->failure.error));
  if (slot->state == SLOT_STARTING) {
    /* The machine may be short of memory now, and the others may be running programs. */
    if (all_were_ready) {
      fprintf(stderr, "launcher: slot %u cannot start, and is tried again: %s\n", slot->number, why);
      slot->start_again_us = monotonic_us() + START_AGAIN_US;
    } else if (++slot->failed_starts == MOST_FAILED_STARTS) {
      fprintf(stderr, "launcher: a slot cannot start: %s\n", why);
      slots_stop();
      exit(EXIT_BROKEN);
    }
  }
  slot->died_us = monotonic_us();
  slot->user_ended = false;
  if (slot->state == SLOT_BUSY && !slot->answered) {
    memcpy(slot->lost, why, sizeof why);
    saving_forget(slot);
    run_close(slot);
  } else if (slot->state != SLOT_STARTING) {
    /* No run's fault says why. */
    fprintf(stderr, "launcher: slot %u starts again: %s\n", slot->number, why);
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
 * The boxes of a dead slot die with it, but not at once. Until they are gone, the slot is not restarted, and the worker
 * gets no fault, because a worker that gets one may run the program elsewhere beside the remains, which also count for the
 * limit of processes. Without groups, a user id or the launcher's children say what the remains are (end_remains_of). A
 * process that still exists after GONE_US is blocked in the kernel and executes nothing.
 */
uint64_t slot_revive(struct slot *slot) {
  if (slot->start_again_us > monotonic_us()) return slot->start_again_us;
  reap_orphans();
  bool empty = groups_kind() == ISOLATION_RLIMITS ? end_remains_of(slot) : group_sweep(&slot->group);
  const bool is_blocked = !empty && monotonic_us() - slot->died_us > GONE_US;
  if (*slot->lost && (empty || is_blocked)) {
    answer_fault(slot->id, "%s", slot->lost);
    *slot->lost = 0;
  }
  if (is_blocked) return slot->start_again_us = monotonic_us() + START_AGAIN_US;
  if (!empty) return monotonic_us() + LOOK_US;
  group_unmake(&slot->group);
  if (!group_make(&slot->group, slot->number)) fail("make a slot's control group again");
  slot->before = (struct counters){0};
  slot->run_group = 0;
  if (slot_start(slot)) return UINT64_MAX;
  fprintf(stderr, "launcher: slot %u cannot start, and is tried again: %s\n", slot->number, strerror(errno));
  return slot->start_again_us = monotonic_us() + START_AGAIN_US;
}

/* The processes of a dead slot are now the launcher's children. Otherwise the machine's first process might never reap them. */
static void reap_orphans(void) {
  for (;;) {
    siginfo_t end = {0};
    if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) || !end.si_pid) return;
    if (is_own(end.si_pid)) return; /* its pidfd reports its death */
    waitpid(end.si_pid, NULL, WNOHANG);
    for (unsigned i = 0; i < slot_count; i++)
      if (slots[i].left_saver == end.si_pid) slots[i].left_saver = 0;
  }
}

/* A slot or a saver. */
static bool is_own(pid_t pid) {
  for (unsigned i = 0; i < slot_count; i++)
    if (slots[i].pid == pid || slots[i].saver == pid) return true;
  return false;
}

/* One that was asked to end still removes what it copied. */
static bool is_no_remain(pid_t pid) {
  for (unsigned i = 0; i < slot_count; i++)
    if (slots[i].left_saver == pid) return true;
  return is_own(pid);
}

/*
 * Without groups: true if nothing of a dead slot's runs is left. Where all slots have one user id, it is true if nothing is left of
 * any. An id of its own has no process then, not even a dead one.
 */
static bool end_remains_of(struct slot *slot) {
  if (slot->identity.shares_uid) return kill_children(is_no_remain);
  if (!slot->user_ended) slot->user_ended = kill_user(&slot->identity);
  if (!slot->user_ended) kill_children(is_no_remain);
  errno = 0;
  return getpriority(PRIO_USER, slot->identity.uid) == -1 && errno == ESRCH;
}

/* The slots have ended. A look kills, and the next one sees whether all are gone. */
static void end_remains(void) {
  const uint64_t begun = monotonic_us();
  for (bool empty = false; !empty && monotonic_us() - begun < GONE_US; usleep(empty ? 0 : LOOK_US)) {
    reap_orphans();
    empty = true;
    for (unsigned i = 0; i < slot_count && monotonic_us() - begun < GONE_US; i++) empty &= end_remains_of(&slots[i]);
  }
}

bool slots_ready(void) {
  for (unsigned i = 0; i < slot_count; i++)
    if (slots[i].state != SLOT_IDLE) return false;
  return all_were_ready = true;
}

void slots_stop(void) {
  for (unsigned i = 0; i < slot_count; i++) {
    saving_stop(&slots[i]);
    if (slots[i].pid > 0) kill(slots[i].pid, SIGKILL);
  }
  for (unsigned i = 0; i < slot_count; i++) {
    slots[i].user_ended = false;
    if (slots[i].pid > 0) waitpid(slots[i].pid, NULL, 0), slots[i].pid = 0;
    if (slots[i].saver) waitpid(slots[i].saver, NULL, 0), slots[i].saver = 0;
  }
  if (groups_kind() == ISOLATION_RLIMITS) end_remains();
  groups_remove();
}

bool slots_free_pair(struct slot *pair[2]) {
  pair[0] = slot_free(false, NULL);
  pair[1] = NULL;
  for (unsigned i = 0; i < slot_count && pair[0]; i++)
    if (slots[i].state == SLOT_IDLE && !slots[i].for_streams && &slots[i] != pair[0]) pair[1] = &slots[i];
  return pair[1] != NULL;
}

struct slot *slot_free(bool for_streams, const char *account) {
  struct slot *found = NULL;
  for (unsigned i = 0; i < slot_count; i++) {
    struct slot *slot = &slots[i];
    if (slot->state != SLOT_IDLE || slot->for_streams != for_streams) continue;
    if (account && !strcmp(slot->account, account)) return slot;
    if (!found || (*found->account && !*slot->account)) found = slot;
  }
  return found;
}

bool slots_lack(bool for_streams, unsigned runs) {
  unsigned alive = 0;
  for (unsigned i = 0; i < slot_count; i++)
    alive += slots[i].for_streams == for_streams && !(slots[i].state == SLOT_DEAD && slots[i].start_again_us);
  return alive < runs;
}

struct slot *slot_running(uint32_t id) {
  for (unsigned i = 0; i < slot_count; i++) {
    struct slot *slot = &slots[i];
    if (slot->state == SLOT_BUSY && !slot->answered && slot->id == id) return slot;
  }
  return NULL;
}

void slots_resume_reading(void) {
  for (unsigned i = 0; i < slot_count; i++)
    if (slots[i].state == SLOT_BUSY && !slots[i].answered) output_pause(&slots[i], false);
}
