#pragma once
#include "probe.hpp"

static const size_t MIB = 1 << 20;

/// Calls `more` until it fails. More than `most` successes are an escape.
template <class F> void until_it_fails(const char *what, long most, F more) {
    long count = 0;
    while (count <= most && more(count)) count++;
    if (count > most) return say("ESCAPED %s %ld", what, count);
    say("DENIED %s %s after %ld", what, errno_name(), count);
}
