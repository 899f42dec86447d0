#!/bin/sh
# Installs a browser for the tests of pages, if it may: with apt, as root or with a sudo that asks for no password. It never fails:
# where there is none, these tests count as not run.
set -u

. "$(dirname "$0")/../../src/local/as_root.sh"
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
may_be_root && command -v apt-get >/dev/null 2>&1 || exit 0
echo 'tests: installing chromium (once, about 100 MB) ...' >&2
apt() {
  as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null 2>&1
}
apt update
apt install -y --no-install-recommends chromium || true
