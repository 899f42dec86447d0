#!/bin/sh
# Installs what the languages and the launcher need: python3, g++, cc, javac, and mold. It uses apt if it may (as root,
# or with a sudo that asks for no password). Otherwise it prints one line that names the missing packages, and the
# service runs with the languages that the machine has.
# It never fails: a machine without a compiler still runs the other languages.
set -u

missing=
need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need python3 python3
need cc gcc
need g++ g++
need javac default-jdk-headless
# gcc only recommends the headers of the C library, so a minimal installation lacks them.
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"

wanted=
command -v mold >/dev/null 2>&1 || wanted=mold
[ -n "$missing$wanted" ] || exit 0

as_root=
if [ "$(id -u)" = 0 ]; then
  as_root=env
elif sudo -n true 2>/dev/null; then
  as_root='sudo -n'
fi
if [ -z "$as_root" ] || ! command -v apt-get >/dev/null 2>&1; then
  [ -z "$missing" ] || echo "missing packages; an administrator can install them: apt-get install$missing (continuing without)" >&2
  exit 0
fi

apt() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1
}
available() {
  apt-cache show "$1" >/dev/null 2>&1
}
log=$(mktemp) || exit 0
trap 'rm -f "$log"' EXIT
if [ -n "$missing" ]; then
  echo "compilers: installing$missing (once, a few minutes) ..." >&2
  apt update
  # One by one, so that a package that is not available does not prevent the others.
  for package in $missing; do
    apt install -y --no-install-recommends "$package" ||
      echo "could not install $package: $(grep -m1 '^E:' "$log" || tail -n 1 "$log") (continuing without)" >&2
  done
fi
# A faster linker, if this release has it. It is optional.
if [ -n "$wanted" ] && available mold; then
  echo "compilers: installing mold, a faster linker ..." >&2
  apt install -y --no-install-recommends mold || true
fi
exit 0
