#!/bin/sh
# backup_time.sh FOLDER: writes down for Prometheus that a backup has just been made. FOLDER is the one that the textfile
# collector of node_exporter reads. Without node_exporter, and so without the folder, there is nothing to do.
set -eu
[ -d "$1" ] || exit 0
new=$(mktemp "$1/runledger_backup.XXXXXXXX")
trap 'rm -f "$new"' EXIT
printf '%s\n' \
  '# HELP runledger_backup_time_seconds When the newest backup was made, in seconds since 1970.' \
  '# TYPE runledger_backup_time_seconds gauge' \
  "runledger_backup_time_seconds $(date +%s)" > "$new"
chmod 644 "$new"
mv "$new" "$1/runledger_backup.prom"
