#!/bin/bash
# Debian's mariadb client as the tests drive it: statements in, canonical rows out. A login a statement, as operators type them.
# Statements with parameters go by PREPARE and EXECUTE, which the server does without: they are put in as the shell would.
set -u
client() { mariadb --no-defaults -h "$SQL_HOST" -P "$SQL_PORT" -u "$SQL_USER" --password="$SQL_PASSWORD" $SQL_TLS ${SQL_AUTH:+--default-auth=$SQL_AUTH} ${SQL_COMPRESS:+--compress} --default-character-set=utf8mb4 -B "$@"; }
client -e "DO 0" || exit 1
while IFS=$'\t' read -r statement parameter; do
    statement=${statement/\?/\'$parameter\'}
    if answer=$(client -e "$statement" 2>&1); then
        if [ -z "$answer" ]; then echo ok; else printf '> %s\n' "$answer"; fi
    else
        printf '%s\n' "$answer" | sed -n 's/^ERROR \([0-9]*\).*/! \1/p'
    fi
done
