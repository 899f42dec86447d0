#!/bin/sh
# Installs what the languages and the launcher need. Each language names its packages (src/languages/common/packages.txt). The
# launcher needs a C compiler and the C library's headers. It uses apt if it may (as root, or with a sudo that asks for no
# password). Otherwise it prints one line that names the missing packages and the languages that will not run without them, and
# the service runs with the languages that the machine has. It needs nothing but a shell, so that a person learns this before
# anything is downloaded. It never fails, except as a check: a machine without a compiler still runs the other languages.
#
#   toolchains.sh            all of it
#   toolchains.sh compiler   only what the launcher needs; prints nothing about what it cannot install
#   toolchains.sh languages  installs nothing; prints the line if a language will not run
#   toolchains.sh check      installs nothing; names what the launcher and the languages lack, and exits 1: for an image
set -u

here=$(dirname "$0")
. "$here/as_root.sh"
only=${1-}
chosen=$(printf %s ${RUNLEDGER_LANGUAGES-})

missing=
optional=
without=
available() {
  apt-cache show "$1" >/dev/null 2>&1
}
chosen_of() { # chosen_of WORDS: of each word, which may be names between commas, the first that this release has, or the last
  for word in "$@"; do
    while name=${word%%,*} && [ "$name" != "$word" ] && ! available "$name"; do word=${word#*,}; done
    printf ' %s' "$name"
  done
}
lacks() { ! command -v "$1" >/dev/null 2>&1; }
with() { # with WORD LIST: the list, which names the word once
  case " $2 " in *" $1 "*) echo "$2" ;; *) echo "$2 $1" ;; esac
}
is_on() { # is_on LANGUAGE DEFAULT
  case ",$chosen," in ,,) [ "$2" = default ] ;; *",$1,"*) ;; *) false ;; esac
}

if lacks cc; then missing=$(with gcc "$missing"); fi
[ "$only" = compiler ] || while read -r language default kind command package; do
  is_on "$language" "$default" && lacks "$command" || continue
  case $kind in
    needed) missing=$(with "$package" "$missing") without=$(with "$language" "$without") ;;
    optional) optional=$(with "$package" "$optional") ;;
  esac
done < "$here/../languages/common/packages.txt"
# gcc only recommends the headers of the C library, so a minimal installation lacks them.
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -n "$missing$optional" ] || exit 0

if [ "$only" = check ]; then
  [ "$missing" ] || exit 0
  echo "missing packages${without:+, so these will not run:$without}; apt-get could not install$(chosen_of $missing) (see above)" >&2
  exit 1
fi
if [ "$only" = languages ] || ! may_be_root || ! command -v apt-get >/dev/null 2>&1; then
  case $only in
    compiler) missing= ;;
    languages) [ "$without" ] || missing= ;;
  esac
  [ -z "$missing" ] ||
    echo "missing packages${without:+, so these will not run:$without}; an administrator can install them: apt-get install$(chosen_of $missing) (continuing without)" >&2
  exit 0
fi

# A fresh machine updates itself in its first minutes. The lock is held until that has ended.
apt() {
  as_root LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1
}
reason() {
  grep -m1 '^E:' "$log" || tail -n 1 "$log"
}
log=$(mktemp) || exit 0
trap 'rm -f "$log"' EXIT
if [ -n "$missing" ]; then
  echo "compilers: installing$(chosen_of $missing) (once, a few minutes; waits while this machine updates itself) ..." >&2
  # Its lock is another one, which apt does not wait for.
  tries=60
  until apt update || [ $tries = 0 ] || ! grep -q 'Could not get lock' "$log"; do
    tries=$((tries - 1))
    sleep 5
  done
  grep -q '^E:' "$log" && echo "the lists of packages could not be brought up to date: $(reason) (continuing)" >&2
  # One by one, so that a package that is not available does not prevent the others.
  for package in $(chosen_of $missing); do
    apt install -y --no-install-recommends "$package" ||
      echo "could not install $package: $(reason) (continuing without)" >&2
  done
fi
# These only make things faster, and not every release has them.
for package in $optional; do
  available "$package" || continue
  echo "compilers: installing $package ..." >&2
  apt install -y --no-install-recommends "$package" || true
done
exit 0
