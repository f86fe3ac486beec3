"""python3 -m smoke_node [--server sexton]: starts a server for node_client/smoke.js (ioredis)."""

import argparse
import subprocess
import sys
from pathlib import Path

from harness.server import Server


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="sexton")
    args = parser.parse_args()
    with Server(args.server) as server:
        directory = Path(__file__).parent / "node_client"
        done = subprocess.run(["node", "smoke.js", str(server.port)], cwd=directory, timeout=120)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
