#!/bin/sh
# Builds the launcher and tries it. If no program could run on this machine, prints one line with the reason and the
# remedy, and exits 1. `make run` does this first, before anything large is downloaded.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
launcher=$root/build/launcher

stop() {
  echo "this machine cannot run programs: $*" >&2
  exit 1
}

"$root/src/local/toolchains.sh" compiler
if ! command -v cc >/dev/null || [ ! -e /usr/include/stdio.h ]; then
  # So that a person asks once for all that is missing.
  "$root/src/local/toolchains.sh" languages
  stop 'it has no C compiler to build the launcher (see above); as an administrator, run apt-get install gcc libc6-dev'
fi
make --no-print-directory -s -C "$root/src/sandbox" || stop 'the launcher could not be built (see above)'
# Degraded isolation counts, because `serve` falls back to it where that is safe, and says so.
"$root/src/local/scope.sh" "$launcher" --probe >/dev/null 2>&1 ||
  why=$("$launcher" --probe --isolation rlimits 2>&1 >/dev/null) ||
  stop "${why#launcher: }"
