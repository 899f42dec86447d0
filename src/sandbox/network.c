/*
 * A slot has one network namespace for all of its runs, so nothing of a run may stay in it.
 *
 * A program's sockets end with its processes, except for one kind: a socket that was sent through
 * itself, or through another one that was sent through it. No process has such a cycle, but it keeps
 * abstract names, memory files and namespaces, whatever was sent with it. The kernel looks for cycles
 * only when a socket is closed. So after each run the slot reads how many sockets its namespace has,
 * and if some are left, it closes sockets of its own until they are gone. (Denying sendmsg would
 * prevent cycles, but asyncio and multiprocessing need it.)
 *
 * The kernel frees cycles in threads of its own, which belong to no group. A program that makes them as fast as it can costs
 * half a processor besides its quota: in one measurement a start of a program beside it took up to 0.14 s.
 *
 * The kernel's tables in /proc/self/net are for debugging. They show the slot's own sockets and some
 * counters of the whole machine. Their modes belong to the namespace and not to a mount of /proc, so
 * they are changed once. This needs a root in the slot's user namespace, and without subordinate ids there
 * is none: then the tables can be read.
 */
#define _GNU_SOURCE
#include "network.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"

static int counters = -1;

static void hide_tables(int proc);
static unsigned socket_count(void);
static void look_for_cycles(void);

void network_open(int proc, const struct identity *identity) {
  counters = (int)must(openat(proc, "self/net/sockstat", O_RDONLY | O_CLOEXEC), "open the count of sockets");
  if (!identity->shares_uid) hide_tables(proc);
}

static void hide_tables(int proc) {
  int folder = (int)must(openat(proc, "self/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the tables of the network");
  DIR *tables = fdopendir(folder);
  if (!tables) fail("read the tables of the network");
  for (struct dirent *table; (table = readdir(tables));)
    if (table->d_name[0] != '.' && fchmodat(folder, table->d_name, 0, 0) && errno != ENOENT)
      fail("hide the table %s of the network", table->d_name);
  closedir(tables);
}

void network_await_empty(unsigned own) {
  for (int tries = 0; socket_count() > own; tries++) {
    if (tries == 2000) fail("free the sockets of a run");
    look_for_cycles();
    usleep(tries < 20 ? 100 : 1000);
  }
}

static unsigned socket_count(void) {
  char text[256] = "";
  unsigned count = 0;
  if (pread(counters, text, sizeof text - 1, 0) <= 0 || sscanf(text, "sockets: used %u", &count) != 1)
    fail("read the count of sockets");
  return count;
}

static void look_for_cycles(void) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return;
  close(pair[0]);
  close(pair[1]);
}
