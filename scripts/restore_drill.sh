#!/usr/bin/env bash
# Runs the drill of docs/backup.md as it stands there: a backup, FLUSHALL, and the way back to the second before.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in target/release/sexton-server target/release/sexton-check; do
    [[ -x $tool ]] || { echo "$tool is missing: run 'make build' first" >&2; exit 1; }
done
WORK=$(mktemp -d)
# Two ports in a row. Those that the kernel gives to clients are not among them: a connection that has ended keeps its for a minute.
PORT=$(PYTHONPATH=tests/e2e .venv/bin/python -c 'from harness.server import free_ports; print(free_ports(2))')
export WORK PORT PATH="$PWD/target/release:/usr/bin:$PATH"
end() {
    for port in "$PORT" $((PORT + 1)); do
        redis-cli -p "$port" SHUTDOWN NOSAVE >/dev/null 2>&1 || true
    done
    # The servers of the drill may still be on their way out.
    for _ in {1..100}; do
        rm -rf "$WORK" 2>/dev/null && return
        sleep 0.1
    done
}
trap end EXIT
drill=$(awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' docs/backup.md)
[[ -n $drill ]] || { echo "docs/backup.md has no drill" >&2; exit 1; }
begun=$SECONDS
if ! timeout 60 bash -euxo pipefail -c "$drill" >"$WORK/said" 2>&1; then
    tail -n 40 "$WORK/said" "$WORK/log" >&2
    echo "the drill of docs/backup.md failed" >&2
    exit 1
fi
echo "ok: FLUSHALL undone to the second by docs/backup.md, $((SECONDS - begun)) s"
