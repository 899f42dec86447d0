#!/bin/sh
# secrets.sh FILE: writes an .env for compose.yaml, with new passwords and keys. It never writes over a file, because the
# database keeps the passwords that it was made with.
#
#   deploy/container/secrets.sh deploy/container/.env
set -euC
umask 077
exec > "${1:?name the file to write}"
random() { od -An -vN 32 -tx1 /dev/urandom | tr -d ' \n'; }
for name in POSTGRES OWNER WEB WORKER AUDITOR; do echo "${name}_PASSWORD=$(random)"; done
for name in WEBHOOK DIGEST SEAL; do echo "${name}_KEY=$(random)"; done
