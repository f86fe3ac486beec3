#!/bin/sh
# Starts the server with the directives that are its arguments. A password comes from SEXTON_PASSWORD_FILE (a mounted secret) or
# SEXTON_PASSWORD; it goes in by standard input, so that no list of processes shows it.
set -e
if [ -n "$SEXTON_PASSWORD_FILE" ]; then
    SEXTON_PASSWORD=$(cat "$SEXTON_PASSWORD_FILE")
fi
if [ -z "$SEXTON_PASSWORD" ]; then
    exec sexton-server "$@"
fi
quoted=$(printf '%s' "$SEXTON_PASSWORD" | sed 's/[\\"]/\\&/g')
unset SEXTON_PASSWORD
exec sexton-server "$@" - <<END
requirepass "$quoted"
END
