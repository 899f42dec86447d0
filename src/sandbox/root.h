/* The read-only roots of the boxes. */
#ifndef RUNLEDGER_ROOT_H
#define RUNLEDGER_ROOT_H
#include <stdbool.h>

#include "identity.h"
#include "options.h"

/* Descriptors of mount namespaces that contain only one profile's root, or only the store. */
struct roots {
  int profiles[MAX_PROFILES];
  int store; /* -1: there is no store */
};

void roots_build(const struct options *options, const struct identity *identity, bool for_streams, struct roots *roots);

#endif
