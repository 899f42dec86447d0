/*
 * Compiles the rules of seccomp_rules.c into two filters, and loads them.
 *
 * The slot loads the first one when it starts. It has every rule, except that the calls with which slot
 * and init build a box are allowed. All processes of the slot inherit it, so no run pays for it. Init
 * and program load the second one before the program starts. It has only those calls, and is short. The
 * kernel runs both filters, and the stricter answer counts.
 *
 * The numbers are searched as a tree: one comparison of about eight is the longest way. The kernel
 * remembers which numbers are always allowed and asks no filter about them; the rules that look at
 * arguments are the others.
 */
#define _GNU_SOURCE
#include "seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "array.h"
#include "failure.h"
#include "seccomp_rules.h"

#if defined __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "the launcher has the system call numbers of x86-64 and arm64 only"
#endif

enum { X32_BIT = 0x40000000, MOST_INSTRUCTIONS = 1024, MOST_JUDGED = 64, LAST_PRINTED = 1100 };

/* Numbers from `first` to the next range's have one outcome, or one rule. */
struct range {
  uint32_t first, outcome;
  const struct rule *judged; /* NULL: the outcome does not depend on arguments */
};

struct program {
  struct sock_filter code[MOST_INSTRUCTIONS];
  unsigned length;
};

static struct program of_slot, of_program;

/* State of one compilation. */
static struct program *target;
static struct {
  unsigned from;
  const struct rule *rule;
} jumps[MOST_JUDGED];
static unsigned jump_count;

static void compile_slot(const struct rule *rules, unsigned count);
static void compile_program(const struct rule *rules, unsigned count);
static void emit_tree(const struct range *ranges, unsigned first, unsigned last);
static void emit_judged(void);

void seccomp_build(bool degraded) {
  static struct rule rules[MOST_RULES];
  if (of_slot.length) return;
  unsigned count = seccomp_rules(degraded, rules);
  compile_slot(rules, count);
  compile_program(rules, count);
}

static unsigned emit(unsigned code, uint32_t value, unsigned if_true, unsigned if_false) {
  if (target->length == MOST_INSTRUCTIONS || if_true > 255 || if_false > 255) abort();
  target->code[target->length] = (struct sock_filter){(uint16_t)code, (uint8_t)if_true, (uint8_t)if_false, value};
  return target->length++;
}

static void emit_load(size_t offset) { emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0); }

static void emit_outcome(uint32_t outcome) {
  const uint32_t action = outcome == ALLOW ? SECCOMP_RET_ALLOW : outcome & ASK ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO;
  emit(BPF_RET | BPF_K, action | (outcome & SECCOMP_RET_DATA), 0, 0);
}

/* Appends a range, or lets the last one go on. */
static unsigned append(struct range *ranges, unsigned count, struct range next) {
  if (count && ranges[count - 1].first == next.first) count--;
  bool same = count && !next.judged && !ranges[count - 1].judged && ranges[count - 1].outcome == next.outcome;
  if (!same) ranges[count++] = next;
  return count;
}

static void compile(const struct rule *rules, unsigned count, bool setup) {
  static struct range ranges[2 * MOST_RULES + 1];
  const struct range others = {.outcome = setup ? ALLOW : ENOSYS};
  unsigned used = append(ranges, 0, others);
  for (unsigned i = 0; i < count; i++) {
    const struct rule *rule = &rules[i];
    if (setup && !rule->setup) continue;
    bool free = !setup && rule->setup;
    struct range own = {rule->number, free ? ALLOW : rule->outcome, !free && rule->clause_count ? rule : NULL};
    used = append(ranges, used, own);
    used = append(ranges, used, (struct range){rule->number + 1, others.outcome, NULL});
  }
  emit_tree(ranges, 0, used - 1);
  emit_judged();
}

static void compile_slot(const struct rule *rules, unsigned count) {
  target = &of_slot;
  /*
   * Another ABI has other numbers. No honest program uses one. The signal ends a program that does not expect it. An end by
   * the filter itself would make the kernel write a line into its log each time, at the machine's cost.
   */
  emit_load(offsetof(struct seccomp_data, arch));
  emit(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
  emit(BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
  emit_load(offsetof(struct seccomp_data, nr));
  emit(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
  emit(BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
  compile(rules, count, false);
}

/* The first filter has checked the ABI. */
static void compile_program(const struct rule *rules, unsigned count) {
  target = &of_program;
  emit_load(offsetof(struct seccomp_data, nr));
  compile(rules, count, true);
}

/* A binary search between two ranges, both included. Rules with clauses come after the tree. */
static void emit_tree(const struct range *ranges, unsigned first, unsigned last) {
  if (first == last && ranges[first].judged) {
    if (jump_count == MOST_JUDGED) abort();
    jumps[jump_count].rule = ranges[first].judged;
    jumps[jump_count++].from = emit(BPF_JMP | BPF_JA, 0, 0, 0);
    return;
  }
  if (first == last) {
    emit_outcome(ranges[first].outcome);
    return;
  }
  unsigned middle = (first + last + 1) / 2;
  unsigned at = emit(BPF_JMP | BPF_JGE | BPF_K, ranges[middle].first, 0, 0);
  emit_tree(ranges, first, middle - 1);
  unsigned distance = target->length - at - 1;
  if (distance > 255) abort();
  target->code[at].jt = (uint8_t)distance;
  emit_tree(ranges, middle, last);
}

/* Emits a condition, and notes the instructions that must jump to the next clause if it does not hold. */
static unsigned emit_condition(const struct condition *condition, unsigned *failing) {
  const size_t low = offsetof(struct seccomp_data, args) + 8 * (size_t)condition->argument, high = low + 4;
  unsigned count = 0;
  emit_load(condition->test == SMALL ? high : low);
  switch (condition->test) {
    case WITHIN:
      if (condition->low == condition->high) {
        failing[count++] = emit(BPF_JMP | BPF_JEQ | BPF_K, condition->low, 0, 0);
        break;
      }
      if (condition->low) failing[count++] = emit(BPF_JMP | BPF_JGE | BPF_K, condition->low, 0, 0);
      emit(BPF_JMP | BPF_JGT | BPF_K, condition->high, 0, 1);
      failing[count++] = emit(BPF_JMP | BPF_JA, 0, 0, 0);
      break;
    case ANY_BIT: failing[count++] = emit(BPF_JMP | BPF_JSET | BPF_K, condition->low, 0, 0); break;
    case PRESENT:
      emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
      emit_load(high);
      emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
      failing[count++] = emit(BPF_JMP | BPF_JA, 0, 0, 0);
      break;
    case SMALL: failing[count++] = emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 0); break;
    default: abort();
  }
  return count;
}

static void emit_rule(const struct rule *rule) {
  for (uint32_t i = 0; i < rule->clause_count; i++) {
    const struct clause *clause = &rule->clauses[i];
    unsigned failing[2 * COUNT(clause->when)], count = 0;
    for (unsigned n = 0; n < COUNT(clause->when); n++)
      if (clause->when[n].test != TRUE) count += emit_condition(&clause->when[n], failing + count);
    emit_outcome(clause->outcome);
    for (unsigned n = 0; n < count; n++) {
      struct sock_filter *jump = &target->code[failing[n]];
      unsigned distance = target->length - failing[n] - 1;
      if (jump->code == (BPF_JMP | BPF_JA)) jump->k = distance;
      else jump->jf = (uint8_t)distance;
    }
  }
  emit_outcome(rule->outcome);
}

static void emit_judged(void) {
  for (unsigned i = 0; i < jump_count; i++) {
    target->code[jumps[i].from].k = target->length - jumps[i].from - 1;
    emit_rule(jumps[i].rule);
  }
  jump_count = 0;
}

/*
 * No core dump, neither as a file nor for a handler of the host. A kernel that pipes cores into a
 * program ignores the limit, except that 1 means none. Where 1 would be above the hard limit, 0 remains.
 */
static void forbid_cores(void) {
  const struct rlimit none = {1, 1}, least = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none)) must(setrlimit(RLIMIT_CORE, &least), "limit core dumps");
}

int seccomp_confine_slot(void) {
  struct sock_fprog program = {.filter = of_slot.code, .len = (unsigned short)of_slot.length};
  forbid_cores();
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges");
  long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (listener >= 0) return (int)listener;
  /* The launcher itself runs under a filter that has a listener, and there can be no second one. */
  for (unsigned i = 0; i < of_slot.length; i++) {
    struct sock_filter *end = &of_slot.code[i];
    if (end->code == (BPF_RET | BPF_K) && (end->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_USER_NOTIF)
      end->k = SECCOMP_RET_ERRNO | (end->k & SECCOMP_RET_DATA);
  }
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "confine the slot's system calls");
  return -1;
}

void seccomp_confine(void) {
  struct sock_fprog program = {.filter = of_program.code, .len = (unsigned short)of_program.length};
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "confine the system calls");
}

static bool holds(const struct condition *condition, uint64_t argument) {
  const uint32_t low = (uint32_t)argument;
  switch (condition->test) {
    case WITHIN: return low >= condition->low && low <= condition->high;
    case ANY_BIT: return low & condition->low;
    case PRESENT: return argument != 0;
    case SMALL: return argument >> 32 == 0;
    default: return true;
  }
}

static uint32_t outcome_of(const struct rule *rule, uint64_t argument) {
  for (uint32_t i = 0; i < rule->clause_count; i++)
    if (holds(&rule->clauses[i].when[0], argument) && holds(&rule->clauses[i].when[1], argument)) return rule->clauses[i].outcome;
  return rule->outcome;
}

void seccomp_print(bool degraded, uint64_t argument) {
  static struct rule rules[MOST_RULES];
  unsigned count = seccomp_rules(degraded, rules), at = 0;
  for (uint32_t number = 0; number <= LAST_PRINTED; number++) {
    bool listed = at < count && rules[at].number == number;
    uint32_t outcome = listed ? outcome_of(&rules[at], argument) : ENOSYS;
    const char *name = listed ? rules[at++].name : "-";
    if (outcome >= ALLOW) printf("%u %s %s\n", number, name, outcome == ALLOW ? "allow" : "ask");
    else printf("%u %s %u\n", number, name, outcome);
  }
}
