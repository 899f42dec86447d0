/*
 * maps: prints the table of its mappings. wait: waits by a futex on each of the files, for some seconds, and names the files
 * whose wait was ended by a wake. wake: wakes all waits on the files for as long, and names those where somebody waited. both: the
 * two beside each other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 3, MOST = 200 };

static uint32_t *map(const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  if (file < 0 || page == MAP_FAILED) {
    printf("cannot map %s\n", path);
    exit(1);
  }
  close(file);
  return page;
}

static void *wait_on(void *path) {
  uint32_t *word = map(path);
  struct timespec limit = {.tv_sec = SECONDS};
  if (syscall(SYS_futex, word, FUTEX_WAIT, *word, &limit, NULL, 0) == 0) printf("woken: %s\n", (char *)path);
  return NULL;
}

static void wait_all(char **paths, int count) {
  pthread_t threads[MOST];
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, wait_on, paths[i])) exit(2);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void wake_all(char **paths, int count) {
  uint32_t *words[MOST];
  for (int i = 0; i < count; i++) words[i] = map(paths[i]);
  for (int turn = 0; turn < SECONDS * 100; turn++) {
    for (int i = 0; i < count; i++)
      if (syscall(SYS_futex, words[i], FUTEX_WAKE, 1, NULL, NULL, 0) > 0) printf("woke: %s\n", paths[i]);
    usleep(10000);
  }
}

static void print_maps(void) {
  char bytes[65536];
  int file = open("/proc/self/maps", O_RDONLY);
  for (ssize_t count; (count = read(file, bytes, sizeof bytes)) > 0;) fwrite(bytes, 1, (size_t)count, stdout);
}

int main(int count, char **arguments) {
  const char *what = arguments[1];
  char **paths = arguments + 2;
  count -= 2;
  if (count > MOST) return 3;
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!strcmp(what, "maps")) print_maps();
  if (!strcmp(what, "wait")) wait_all(paths, count);
  if (!strcmp(what, "wake")) wake_all(paths, count);
  if (!strcmp(what, "both")) {
    pid_t waker = fork();
    if (waker == 0) {
      wake_all(paths, count);
      return 0;
    }
    wait_all(paths, count);
    waitpid(waker, NULL, 0);
  }
  puts("done");
  return 0;
}
