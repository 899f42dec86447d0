#!/bin/sh
# in_chroot.sh COMMAND [ARG...]: runs a command in a plain chroot: a folder, which is no mount, with this machine's files.
# It needs a mount namespace of its own (unshare --mount), whose mounts it changes.
set -e
clone=$PWD
mount -t tmpfs none /mnt
mkdir /mnt/root
cd /
for entry in *; do
  if [ -L "$entry" ]; then ln -s "$(readlink "$entry")" "/mnt/root/$entry"
  elif [ -d "$entry" ] && [ "$entry" != mnt ]; then mkdir "/mnt/root/$entry" && mount --rbind "/$entry" "/mnt/root/$entry"
  fi
done
exec chroot /mnt/root sh -c 'cd "$0" && exec "$@"' "$clone" "$@"
