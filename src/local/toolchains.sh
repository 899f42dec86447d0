#!/bin/sh
# Sees to what the languages and the launcher need: python3, g++ (and cc), javac, mold. What is
# missing is installed with apt where that may be done (root, or sudo that asks for no password);
# else one line says what to install, and the service goes on with the languages that are there.
# Never fails: a machine without a compiler can still serve what it can.
set -u

missing=
need() { # need COMMAND PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need python3 python3
need cc gcc
need g++ g++
need javac default-jdk-headless
# Headers of the C library come with the compiler only when recommended packages do.
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
  [ -z "$missing" ] || echo "missing, to be installed by an administrator: apt-get install$missing (going on without)" >&2
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
  # One by one: a package that is not to be had must not keep the others out.
  for package in $missing; do
    apt install -y --no-install-recommends "$package" ||
      echo "could not install $package: $(grep -m1 '^E:' "$log" || tail -n 1 "$log") (going on without)" >&2
  done
fi
# A faster linker, where this release has it: no loss without.
if [ -n "$wanted" ] && available mold; then
  echo "compilers: installing mold, a faster linker ..." >&2
  apt install -y --no-install-recommends mold || true
fi
exit 0
