#!/bin/bash
# Debian's mariadb client: begins sessions, reads, and prints `ok mariadb`, a tab and its version, or why not.
set -u
client() { mariadb --no-defaults -h "$SQL_HOST" -P "$SQL_PORT" -u "$SQL_USER" --password="$SQL_PASSWORD" --skip-ssl -B -N "$@" procprof; }
for option in --skip-compress --compress; do
    rows=$(client "$option" -e "BEGIN; SELECT id, role FROM nodes WHERE id = 10001; COMMIT" 2>&1)
    [ "$rows" = $'10001\tBE' ] || { echo "failed mariadb $option $rows"; exit; }
    long=$(client "$option" -e "SELECT REPEAT('ab', 100000)" 2>&1)
    [ "${#long}" = 200000 ] || { echo "failed mariadb $option ${long:0:1000}"; exit; }
    refused=$(client "$option" -e "SELECT absent FROM nodes" 2>&1)
    [[ "$refused" = *"ERROR 1054 (42S22)"* ]] || { echo "failed mariadb $option $refused"; exit; }
done
# The release's: its fixes change the last part.
printf 'ok mariadb\tmariadb %s\n' "$(mariadb --version | sed 's/.*Distrib \([0-9]*\.[0-9]*\).*/\1/')"
