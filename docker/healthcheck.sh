#!/bin/sh
# Ends with 0 when the server answers: PONG; that a password is wanted which the check does not know; or that it is
# still loading, which may take longer than an orchestrator waits, and which a restart would only begin anew.
# SEXTON_PORT says where it listens when that is not 6379; SEXTON_PASSWORD_FILE or SEXTON_PASSWORD is the password.
if [ -n "$SEXTON_PASSWORD_FILE" ]; then
    SEXTON_PASSWORD=$(cat "$SEXTON_PASSWORD_FILE")
fi
if [ -n "$SEXTON_PASSWORD" ]; then
    export REDISCLI_AUTH="$SEXTON_PASSWORD"
fi
redis-cli --no-auth-warning -p "${SEXTON_PORT:-6379}" ping 2>&1 | grep -Eq '^(PONG|NOAUTH |LOADING )'
