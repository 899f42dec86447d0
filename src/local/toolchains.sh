#!/bin/sh
# Installs what the languages and the launcher need. The languages name their packages themselves
# (src/languages/shared/packages.ts prints them); the launcher needs a C compiler and the C library's
# headers. Missing packages are installed with apt where that is allowed (root, or sudo that asks for no
# password); otherwise one line names them, and the service goes on with the languages that are there.
# Never fails: a machine without a compiler can still serve what it can.
set -u

here=$(dirname "$0")
packages=$(node "$here/../languages/shared/packages.ts" 2>/dev/null) ||
  echo "which packages the languages need is unknown: Node 24 is not there (going on without)" >&2

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
# Headers of the C library come with the compiler only when recommended packages do.
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -n "$missing$optional" ] || exit 0

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
  # One by one: a package that is not available must not keep the others out.
  for package in $missing; do
    apt install -y --no-install-recommends "$package" ||
      echo "could not install $package: $(grep -m1 '^E:' "$log" || tail -n 1 "$log") (going on without)" >&2
  done
fi
# These only make things faster, and not every release has them.
for package in $optional; do
  available "$package" || continue
  echo "compilers: installing $package ..." >&2
  apt install -y --no-install-recommends "$package" || true
done
exit 0
