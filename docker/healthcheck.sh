#!/bin/sh
# Ends with 0 when the server answers: PONG; that a password is wanted, which the check need not know; or that it is
# still loading, which may take longer than an orchestrator waits, and which a restart would only begin anew.
# SEXTON_PORT says where it listens when that is not 6379.
redis-cli -p "${SEXTON_PORT:-6379}" ping 2>&1 | grep -Eq '^(PONG|NOAUTH |LOADING )'
