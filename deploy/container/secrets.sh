#!/bin/sh
# secrets.sh: prints an .env for compose.yaml, with new passwords and keys.
#
#   deploy/container/secrets.sh > deploy/container/.env
set -eu
umask 077
random() { od -An -vN 32 -tx1 /dev/urandom | tr -d ' \n'; }
for name in POSTGRES OWNER WEB WORKER AUDITOR; do echo "${name}_PASSWORD=$(random)"; done
for name in WEBHOOK DIGEST SEAL; do echo "${name}_KEY=$(random)"; done
