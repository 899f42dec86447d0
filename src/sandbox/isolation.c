#include "isolation.h"

#include <string.h>

#include "array.h"

static const char *const NAMES[] = {
    [ISOLATION_AUTO] = "auto",           [ISOLATION_V1] = "v1",           [ISOLATION_V2] = "v2",
    [ISOLATION_V2_USER] = "v2-user",     [ISOLATION_RLIMITS] = "rlimits",
};

const char *isolation_name(enum isolation kind) { return NAMES[kind]; }

bool isolation_by_name(const char *name, enum isolation *kind) {
  for (unsigned i = 0; i < COUNT(NAMES); i++) {
    if (strcmp(NAMES[i], name)) continue;
    *kind = (enum isolation)i;
    return true;
  }
  return false;
}
