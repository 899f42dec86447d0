#!/bin/sh
# entrypoint.sh COMMAND [ARG...]: runs a command of Runledger as the first process of a container.
#
# A container's own control groups are mounted read-only, unless it is privileged. A worker that may change mounts makes
# them writable. One that may not goes on, and says itself what is missing.
set -eu
if [ "${1-}" = worker ] && [ "$(id -u)" = 0 ]; then
  awk '$5 ~ "^/sys/fs/cgroup" { print $5 }' /proc/self/mountinfo | while read -r point; do
    mount -o remount,bind,rw "$point" 2>/dev/null || break
  done
fi
exec "$(dirname "$0")/../../runledger" "$@"
