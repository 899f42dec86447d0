#define _GNU_SOURCE
#include "saving.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array.h"
#include "kernel_files.h"
#include "poll.h"

static int priority;
/* What the next saver is to save. Its texts are no longer those of the frame, which a slot's next request overwrites. */
static struct request order;
static char key[MAX_NAME + 1], paths[MAX_SAVE_PATHS][MAX_PATH];

static void copy_order(const struct request *request);
static void save(int box, int result, pid_t launcher);
static void let_go(struct slot *slot);

void saving_open(int of_worker) { priority = of_worker; }

bool saving_begin(struct slot *slot, int box) {
  int ends[2];
  const pid_t launcher = getpid();
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return false;
  copy_order(&slot->request);
  pid_t saver = fork();
  if (saver == 0) save(box, ends[1], launcher);
  close(ends[1]);
  slot->saved = ends[0];
  slot->saver_pidfd = saver < 0 ? -1 : (int)syscall(SYS_pidfd_open, saver, 0);
  if (slot->saver_pidfd < 0) {
    if (saver > 0) kill(saver, SIGKILL), waitpid(saver, NULL, 0);
    let_go(slot);
    return false;
  }
  slot->saver = saver;
  poll_add(slot->saver_pidfd, EVENT_SAVED, slot->number, POLLIN);
  return true;
}

static void copy_order(const struct request *request) {
  order = *request;
  order.save_key = key;
  snprintf(key, sizeof key, "%s", request->save_key);
  for (uint32_t i = 0; i < order.save_path_count; i++) {
    order.save_paths[i] = paths[i];
    snprintf(paths[i], sizeof paths[i], "%s", request->save_paths[i]);
  }
}

/* Without the launcher's other descriptors: an end of another run's input would keep that input open. */
static void save(int box, int result, pid_t launcher) {
  const int kept[] = {box, result, artefacts_store()};
  struct saved saved = {0};
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher || close_all_but(kept, COUNT(kept))) _exit(1);
  setpriority(PRIO_PROCESS, 0, priority);
  /* Like the slot, which waits for it. Only root may set this. */
  write_text(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
  artefacts_save(box, &order, &saved);
  _exit(write(result, &saved, sizeof saved) != sizeof saved);
}

void saving_end(struct slot *slot, struct saved *saved) {
  waitpid(slot->saver, NULL, 0);
  if (read(slot->saved, saved, sizeof *saved) != sizeof *saved)
    *saved = (struct saved){.broken = true, .reason = "the process that saves the files was killed"};
  let_go(slot);
}

void saving_stop(const struct slot *slot) {
  if (slot->saver) kill(slot->saver, SIGTERM);
}

/* slots.c reaps it. */
void saving_forget(struct slot *slot) {
  if (!slot->saver) return;
  saving_stop(slot);
  slot->left_saver = slot->saver;
  let_go(slot);
}

static void let_go(struct slot *slot) {
  if (slot->saver) poll_remove(slot->saver_pidfd);
  if (slot->saver_pidfd >= 0) close(slot->saver_pidfd);
  close(slot->saved);
  slot->saver = 0;
  slot->saver_pidfd = slot->saved = -1;
}
