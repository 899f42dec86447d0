#!/bin/sh
# backup_time.sh FOLDER: writes down for Prometheus that a backup has just been made. FOLDER is the one that the textfile
# collector of node_exporter reads. Without node_exporter, and so without the folder, there is nothing to do.
set -eu
[ -d "$1" ] || exit 0
file=$1/runledger_backup.prom
printf '%s\n' \
  '# HELP runledger_backup_time_seconds When the newest backup was made, in seconds since 1970.' \
  '# TYPE runledger_backup_time_seconds gauge' \
  "runledger_backup_time_seconds $(date +%s)" > "$file.$$"
chmod 644 "$file.$$"
mv "$file.$$" "$file"
