#!/bin/sh
# debian_root.sh FOLDER [PACKAGE...]: makes a minimal Debian in a new folder, with the packages, from this machine's own apt
# sources. It needs root and debootstrap.
#
#   deploy/container/debian_root.sh /var/tmp/debian
#   tar -C /var/tmp/debian -c . | podman import - localhost/debian:12
set -eu
folder=${1:?usage: debian_root.sh FOLDER [PACKAGE...]}
shift
suite=bookworm
mirror=http://deb.debian.org/debian

[ "$(id -u)" = 0 ] || { echo 'debian_root.sh needs root' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'debian_root.sh needs debootstrap: apt-get install debootstrap' >&2; exit 1; }
[ ! -e "$folder" ] || { echo "$folder is already there" >&2; exit 1; }

include=ca-certificates
for package in "$@"; do include=$include,$package; done
debootstrap --variant=minbase --include="$include" "$suite" "$folder" "$mirror"
# Debian's updates, as an image from a registry has them.
cat > "$folder/etc/apt/sources.list" <<END
deb $mirror $suite main
deb $mirror $suite-updates main
deb http://deb.debian.org/debian-security $suite-security main
END
rm -f "$folder"/var/cache/apt/archives/*.deb
