#!/bin/sh
# Installs what the languages and the launcher need. Each language names its packages
# (src/languages/common/packages.ts prints them). The launcher needs a C compiler and the C library's headers. It uses
# apt if it may (as root, or with a sudo that asks for no password). Otherwise it prints one line that names the missing
# packages, and the service runs with the languages that the machine has.
# It never fails: a machine without a compiler still runs the other languages.
#
#   toolchains.sh            all of it
#   toolchains.sh compiler   only what the launcher needs; prints nothing about what it cannot install
set -u

here=$(dirname "$0")
only=${1-}
packages=
[ "$only" = compiler ] || packages=$(node "$here/../languages/common/packages.ts" 2>/dev/null) ||
  echo "the packages of the languages are not known, because Node 24 is missing (continuing without)" >&2

missing=
optional=
add() { # add COMMAND PACKAGE LIST: the list, with the package where the command is missing
  if command -v "$1" >/dev/null 2>&1; then echo "$3"; else
    case " $3 " in *" $2 "*) echo "$3" ;; *) echo "$3 $2" ;; esac
  fi
}
missing=$(add cc gcc "$missing")
while read -r kind command package; do
  case $kind in
    needed) missing=$(add "$command" "$package" "$missing") ;;
    optional) optional=$(add "$command" "$package" "$optional") ;;
  esac
done <<END
$packages
END
# gcc only recommends the headers of the C library, so a minimal installation lacks them.
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -n "$missing$optional" ] || exit 0

as_root=
if [ "$(id -u)" = 0 ]; then
  as_root=env
elif sudo -n true 2>/dev/null; then
  as_root='sudo -n'
fi
if [ -z "$as_root" ] || ! command -v apt-get >/dev/null 2>&1; then
  [ -z "$missing" ] || [ "$only" ] || echo "missing packages; an administrator can install them: apt-get install$missing (continuing without)" >&2
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
# These only make things faster, and not every release has them.
for package in $optional; do
  available "$package" || continue
  echo "compilers: installing $package ..." >&2
  apt install -y --no-install-recommends "$package" || true
done
exit 0
