#define _GNU_SOURCE
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "array.h"
#include "failure.h"

/* From linux/landlock.h, which older systems lack. */
enum { CREATE = 444, ADD_RULE = 445, RESTRICT = 446, RULE_PATH_BENEATH = 1, VERSION_FLAG = 1 };
enum { ABI_WITH_SCOPES = 6, SCOPE_ABSTRACT_SOCKETS = 1, SCOPE_SIGNALS = 2 };
static const uint64_t EXECUTE = 1, WRITE = 2, READ = 4, READ_DIR = 8, FIRST_ALL = (1 << 13) - 1;
static const uint64_t REFER = 1 << 13, TRUNCATE = 1 << 14;

struct ruleset {
  uint64_t files, network, scopes;
};
struct path_rule {
  uint64_t allowed;
  int32_t directory;
} __attribute__((packed));

int landlock_version(void) {
  int version = (int)syscall(CREATE, NULL, 0, VERSION_FLAG);
  return version < 0 ? 0 : version;
}

bool landlock_scopes_signals(void) { return landlock_version() >= ABI_WITH_SCOPES; }

static void allow(int rules, const char *path, uint64_t access) {
  struct path_rule rule = {.allowed = access, .directory = open(path, O_PATH | O_CLOEXEC)};
  struct stat state;
  if (rule.directory < 0) return; /* a path that does not exist needs no rule */
  if (!fstat(rule.directory, &state) && !S_ISDIR(state.st_mode)) rule.allowed &= EXECUTE | WRITE | READ | TRUNCATE;
  must((long)syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0), "allow a path");
  close(rule.directory);
}

void landlock_confine(const struct request *request, const struct options *options, const char *(*target_of)(const char *)) {
  static const char *const SYSTEM[] = {"/etc/alternatives", "/dev/random", "/dev/urandom"};
  int version = landlock_version();
  if (version == 0) return; /* then degraded_usable() made sure that the program has another user id */
  uint64_t all = FIRST_ALL | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0);
  struct ruleset set = {.files = all, .scopes = version >= ABI_WITH_SCOPES ? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS : 0};
  size_t size = version >= ABI_WITH_SCOPES ? 24 : version >= 4 ? 16 : 8;
  int rules = (int)must((long)syscall(CREATE, &set, size, 0), "make a Landlock ruleset");
  for (unsigned i = 0; i < COUNT(SYSTEM); i++) allow(rules, SYSTEM[i], EXECUTE | READ | READ_DIR);
  allow(rules, "/dev/null", READ | WRITE);
  allow(rules, "/dev/zero", READ | WRITE);
  allow(rules, "/proc/self", READ | READ_DIR);
  allow(rules, target_of("/box"), all & ~EXECUTE);
  allow(rules, target_of("/tmp"), all & ~EXECUTE);
  const struct profile *profile = &options->profiles[profile_index(options, request->profile)];
  for (unsigned i = 0; i < profile->entry_count; i++)
    if (profile->entries[i].kind != ENTRY_LINK && profile->entries[i].kind != ENTRY_FRONT)
      allow(rules, profile->entries[i].from, EXECUTE | READ | READ_DIR);
  for (uint32_t i = 0; i < request->load_count; i++)
    allow(rules, target_of(request->loads[i].at), EXECUTE | READ | READ_DIR);
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges");
  must((long)syscall(RESTRICT, rules, 0), "confine the file system");
  close(rules);
}
