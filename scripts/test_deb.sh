#!/usr/bin/env bash
# scripts/test_deb.sh: installs the package, runs its unit's command as its user, kills it, starts it again, removes the package.
# As root, on a machine that may lose it: use a container. systemd need not run; its unit is verified where systemd-analyze is.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(ls -t target/debian/sexton_*.deb | head -n 1)
unit=/usr/lib/systemd/system/sexton.service
port=${PORT:-24790}
die() { echo "FAIL: $*" >&2; exit 1; }
cli() { redis-cli -e -p "$port" "$@"; }
dpkg -i "$package" >/dev/null
if command -v systemd-analyze >/dev/null; then
    said=$(systemd-analyze verify "$unit" 2>&1) || die "the unit: $said"
    [[ -z $said ]] || die "the unit: $said"
fi
start() {
    local line socket
    line=$(sed -n 's/^ExecStart=//p' "$unit")
    socket=$(mktemp -u)
    rm -f "$heard"
    python3 - "$socket" "$heard" <<'END' &
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
listener.settimeout(30)
text = ""
while "WATCHDOG=1" not in text:
    text += listener.recv(4096).decode() + "\n"
open(sys.argv[2], "w").write(text)
END
    until [[ -S $socket ]]; do :; done
    # shellcheck disable=SC2086 # the words of the unit's line
    setpriv --reuid sexton --regid sexton --clear-groups env NOTIFY_SOCKET="$socket" WATCHDOG_USEC=2000000 \
        $line --port "$port" >"$work/log" 2>&1 &
    server=$!
    wait %python3 || die "systemd was told nothing: $(tail -n 5 "$work/log")"
    grep -q READY=1 "$heard" || die "not ready"
}
work=$(mktemp -d) heard=$(mktemp -u)
trap 'kill -9 "${server:-}" 2>/dev/null || true; rm -rf "$work" "$heard"' EXIT
start
[[ $(cli SET greeting hello) == OK ]] || die "SET"
[[ $(cli WAITAOF 1 0 5000 | head -n 1) == 1 ]] || die "WAITAOF"
[[ $(cli CONFIG REWRITE) == OK ]] || die "CONFIG REWRITE"
kill -9 "$server"
wait "$server" 2>/dev/null || true
start
[[ $(cli GET greeting) == hello ]] || die "what was durable is gone after kill -9"
kill "$server"
wait "$server" || die "SIGTERM: code $?"
setpriv --reuid sexton --regid sexton --clear-groups sexton-check --quiet /var/lib/sexton | tail -n 1 | grep -q 'nothing is wrong' || die "sexton-check"
dpkg --purge sexton >/dev/null 2>&1
[[ ! -e /usr/bin/sexton-server && ! -e /etc/sexton/sexton.conf && ! -e $unit ]] || die "something was left behind"
[[ -d /var/lib/sexton/tree ]] || die "the package has removed the data"
echo "ok: installed, ready by notification, watchdog fed, kill -9 survived, purged; the data is left"
rm -rf /var/lib/sexton
