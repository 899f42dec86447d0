#!/bin/sh
# debian_root.sh FOLDER: makes a minimal Debian in a new folder. It needs root and debootstrap.
#
#   deploy/container/debian_root.sh /var/tmp/debian
#   tar -C /var/tmp/debian -c . | podman import - localhost/debian:12
set -eu
folder=${1:?usage: debian_root.sh FOLDER}
suite=bookworm
mirror=http://deb.debian.org/debian

[ "$(id -u)" = 0 ] || { echo 'debian_root.sh needs root' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'debian_root.sh needs debootstrap: apt-get install debootstrap' >&2; exit 1; }
[ ! -e "$folder" ] || { echo "$folder is already there" >&2; exit 1; }

debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder" "$mirror"
# Debian's updates, as an image from a registry has them.
cat > "$folder/etc/apt/sources.list" <<END
deb $mirror $suite main
deb $mirror $suite-updates main
deb http://deb.debian.org/debian-security $suite-security main
END
rm -f "$folder"/var/cache/apt/archives/*.deb
