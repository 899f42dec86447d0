#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "failure.h"
#include "wire.h"

static const char USAGE[] =
    "launcher [option value]...\n"
    "  --socket FD            socket to the worker (3)\n"
    "  --slots N              runs at the same time (1)\n"
    "  --stream-slots N       open boxes at the same time (0)\n"
    "  --cpu-reserve PERCENT  of the processors, kept free of programs (5); 0: no quotas at all\n"
    "  --isolation KIND       auto, v1, v2, v2-user or rlimits (auto, which never chooses rlimits)\n"
    "  --uid-base N           first of the user ids that programs run as (720000)\n"
    "  --store DIR            directory of artefacts\n"
    "  --zygote FILE          shared object that makes a Python interpreter fork its runs\n"
    "  --profile NAME         start a root file system; the next six options add to it:\n"
    "  --bind FROM TO         mount FROM read-only at TO\n"
    "  --copy FROM TO         copy a small file\n"
    "  --own FROM TO          copy a file that programs map\n"
    "  --tree FROM TO         copy a folder\n"
    "  --front FROM TO        copy it in front of its directory, which a later --bind mounts\n"
    "  --link TARGET AT       make a symbolic link\n"
    "  --probe                start one slot, print the isolation as JSON, and exit\n"
    "  --print-filter         print number, name and outcome of each system call and exit\n";

typedef void setter(struct options *options, char **values);
static setter set_socket, set_slots, set_stream_slots, set_cpu_reserve, set_isolation, set_uid_base, set_store, set_zygote;
static setter begin_profile, add_bind, add_copy, add_own, add_front, add_tree, add_link, set_probe, set_print_filter;

static const struct {
  const char *name;
  int values;
  setter *set;
} TABLE[] = {
    {"--socket", 1, set_socket},       {"--slots", 1, set_slots},
    {"--isolation", 1, set_isolation}, {"--stream-slots", 1, set_stream_slots},
    {"--uid-base", 1, set_uid_base},   {"--store", 1, set_store},
    {"--profile", 1, begin_profile},   {"--bind", 2, add_bind},
    {"--copy", 2, add_copy},           {"--link", 2, add_link},
    {"--own", 2, add_own},             {"--front", 2, add_front},
    {"--tree", 2, add_tree},
    {"--zygote", 1, set_zygote},       {"--cpu-reserve", 1, set_cpu_reserve},
    {"--probe", 0, set_probe},         {"--print-filter", 0, set_print_filter},
};

__attribute__((noreturn, format(printf, 1, 2))) static void reject(const char *format, ...) {
  va_list rest;
  va_start(rest, format);
  fputs("launcher: ", stderr);
  vfprintf(stderr, format, rest);
  fprintf(stderr, "\n%s", USAGE);
  va_end(rest);
  exit(EXIT_USAGE);
}

void options_parse(int count, char **arguments, struct options *options) {
  /* Only these: what is not written takes no memory, and every fork has to copy what does. */
  options->slots = 1;
  options->cpu_reserve = 5;
  options->uid_base = 720000;
  options->socket = 3;
  for (int i = 1; i < count;) {
    unsigned row = 0;
    while (row < COUNT(TABLE) && strcmp(TABLE[row].name, arguments[i])) row++;
    if (row == COUNT(TABLE)) reject("unknown option %s", arguments[i]);
    if (i + TABLE[row].values >= count) reject("%s needs a value", arguments[i]);
    TABLE[row].set(options, arguments + i + 1);
    i += 1 + TABLE[row].values;
  }
  if (options->slots + options->stream_slots > MAX_SLOTS) reject("there are more than %d slots", MAX_SLOTS);
}

static unsigned number(const char *text, unsigned least, unsigned most, const char *what) {
  char *end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  if (errno || *end || end == text || value < least || value > most)
    reject("%s must be a number from %u to %u, not \"%s\"", what, least, most, text);
  return (unsigned)value;
}

static void set_socket(struct options *options, char **values) {
  options->socket = (int)number(values[0], 0, 1023, "--socket");
}

static void set_slots(struct options *options, char **values) {
  options->slots = number(values[0], 1, MAX_SLOTS, "--slots");
}

static void set_stream_slots(struct options *options, char **values) {
  options->stream_slots = number(values[0], 0, MAX_SLOTS, "--stream-slots");
}

static void set_cpu_reserve(struct options *options, char **values) {
  options->cpu_reserve = number(values[0], 0, 90, "--cpu-reserve");
}

static void set_uid_base(struct options *options, char **values) {
  options->uid_base = number(values[0], 1000, 2000000000, "--uid-base");
}

static void set_isolation(struct options *options, char **values) {
  if (!isolation_by_name(values[0], &options->isolation))
    reject("--isolation must be auto, v1, v2, v2-user or rlimits, not \"%s\"", values[0]);
}

static void set_store(struct options *options, char **values) {
  if (values[0][0] != '/') reject("--store must be an absolute path");
  options->store = values[0];
}

static void set_zygote(struct options *options, char **values) {
  if (values[0][0] != '/') reject("--zygote must be an absolute path");
  options->zygote = values[0];
}

static void set_probe(struct options *options, char **values) {
  (void)values;
  options->probe = true;
}

static void set_print_filter(struct options *options, char **values) {
  (void)values;
  options->print_filter = true;
}

static void begin_profile(struct options *options, char **values) {
  if (options->profile_count == MAX_PROFILES) reject("there are more than %d profiles", MAX_PROFILES);
  if (!wire_is_name(values[0])) reject("--profile: \"%s\" is not a valid name", values[0]);
  if (profile_index(options, values[0]) >= 0) reject("--profile %s is given twice", values[0]);
  options->profiles[options->profile_count++].name = values[0];
}

static void add_entry(struct options *options, enum entry_kind kind, char **values) {
  if (!options->profile_count) reject("--bind, --copy, --own, --front, --tree and --link must follow a --profile");
  struct profile *profile = &options->profiles[options->profile_count - 1];
  if (profile->entry_count == MAX_ENTRIES) reject("profile %s has more than %d entries", profile->name, MAX_ENTRIES);
  if (kind != ENTRY_LINK && values[0][0] != '/') reject("%s is not an absolute path", values[0]);
  if (values[1][0] != '/' || !wire_is_inner_path(values[1] + 1)) reject("%s is not an absolute path without . and ..", values[1]);
  profile->entries[profile->entry_count++] = (struct entry){kind, values[0], values[1]};
}

static void add_bind(struct options *options, char **values) { add_entry(options, ENTRY_BIND, values); }
static void add_copy(struct options *options, char **values) { add_entry(options, ENTRY_COPY, values); }
static void add_own(struct options *options, char **values) { add_entry(options, ENTRY_OWN, values); }
static void add_front(struct options *options, char **values) { add_entry(options, ENTRY_FRONT, values); }
static void add_tree(struct options *options, char **values) { add_entry(options, ENTRY_TREE, values); }
static void add_link(struct options *options, char **values) { add_entry(options, ENTRY_LINK, values); }

int profile_index(const struct options *options, const char *name) {
  for (unsigned i = 0; i < options->profile_count; i++)
    if (!strcmp(options->profiles[i].name, name)) return (int)i;
  return -1;
}
