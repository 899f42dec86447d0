/* Which system calls a program may make, with which arguments, and how the others are answered. */
#ifndef RUNLEDGER_SECCOMP_RULES_H
#define RUNLEDGER_SECCOMP_RULES_H
#include <stdbool.h>
#include <stdint.h>

/* An outcome: ALLOW, DONE, an errno, or ASK with the errno that answers where the slot cannot be asked. A call without a rule gets ENOSYS, as if the kernel did not know it. */
enum {
  DONE = 0,        /* answered as successful, without an effect */
  ALLOW = 0x10000,
  ASK = 0x20000,   /* the slot answers: questions.c */
};

/* A comparison with an argument. Without a word about it, with its low 32 bits: the kernel reads no more of these arguments. */
enum test {
  TRUE,    /* no comparison */
  WITHIN,  /* from `low` to `high`, both included */
  ANY_BIT, /* one of the bits of `low` */
  PRESENT, /* all 64 bits: is not zero */
  SMALL,   /* all 64 bits: is below 4 GiB */
};

struct condition {
  uint8_t argument, test;
  uint32_t low, high;
};

/* The outcome of a call for which both conditions hold. */
struct clause {
  struct condition when[2];
  uint32_t outcome;
};

struct rule {
  uint32_t number;
  const char *name;
  uint32_t outcome; /* if no clause applies; the first one that does decides */
  const struct clause *clauses;
  uint32_t clause_count;
  bool setup; /* slot and init need this call without limits; the rule applies from the program's start */
};

enum { MOST_RULES = 512 };

/* Writes the rules, in the order of their numbers, and returns their count. `degraded`: for runs without namespaces. */
unsigned seccomp_rules(bool degraded, struct rule *rules);

#endif
