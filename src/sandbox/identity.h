/*
 * The user that a slot's programs run as: an id of this machine, or, if the launcher is not root, an
 * id of a user namespace that the slot makes. With subordinate ids (newuidmap) each slot's programs
 * get an id of their own. Without them they share the worker's id, and everything else separates them:
 * they see no process, file or socket of the worker, and have no capability. In degraded isolation no
 * user namespace is made: root gives each slot an id, and an ordinary user's programs share his.
 */
#ifndef RUNLEDGER_IDENTITY_H
#define RUNLEDGER_IDENTITY_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "isolation.h"

/* The program's user, as the box's own user namespace numbers it. */
struct identity {
  uid_t uid;
  gid_t gid;
  uid_t ender;        /* in degraded isolation with an id of its own: what ends its processes has this id, and nothing else has */
  bool own_namespace; /* each slot has a user namespace */
  unsigned queue_bytes; /* of message queues that a program may have */
  bool shares_uid;    /* there are no subordinate ids: init and slot have the program's uid */
};

/*
 * Takes a range of ids that no other launcher on this machine has, until this process ends. Control groups do not suffice for
 * this: launchers in different containers or units see different ones, and each has the first instance there. `instance`: the
 * range that is tried first. Where all ranges are taken, the launcher ends.
 */
void identity_claim(enum isolation kind, unsigned instance, unsigned uid_base);

/* `slots`: how many there are. */
void identity_choose(struct identity *identity, unsigned slot, unsigned slots, unsigned uid_base);
/* Maps the ids of the user namespace that the slot's process has just made. */
bool identity_map(const struct identity *identity, unsigned slot, pid_t pid);

/* Whether an ordinary user can make useful user namespaces on this machine. false: `why` says how to allow it. */
bool userns_usable(char *why, size_t size);
/* Whether root can make namespaces and take other ids, which it often cannot in a container. false: `why` says how to allow it. */
bool root_usable(unsigned uid_base, char *why, size_t size);
/* Whether this process can give a degraded slot an id that is not its own. */
bool other_id_usable(unsigned uid_base);

#endif
