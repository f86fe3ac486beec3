"""python3 scripts/sbom.py TARGET: writes the components of the binaries as CycloneDX 1.5 JSON to standard output.

Taken from `cargo metadata` with the lock file: the crates that are linked into sexton-server and sexton-check, without
those that are only used for building or testing.
"""

import hashlib
import json
import subprocess
import sys

ROOTS = ("sexton", "sexton-engine")


def main():
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", sys.argv[1]]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] in ROOTS and package["source"] is None]
    linked = {}
    while waiting:
        key = waiting.pop()
        if key in linked:
            continue
        normal = [dep["pkg"] for dep in nodes[key]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        linked[key] = normal
        waiting += normal
    reference = {key: f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}" for key in linked}
    components = []
    for key in sorted(linked, key=reference.get):
        package = packages[key]
        component = {"type": "library", "bom-ref": reference[key], "name": package["name"], "version": package["version"],
                     "purl": reference[key]}  # fmt: skip
        if package["license"]:
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        components.append(component)
    server = next(package for package in packages.values() if package["name"] == "sexton")
    serial = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial[:8]}-{serial[8:12]}-4{serial[13:16]}-8{serial[17:20]}-{serial[20:32]}",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "sexton", "name": "sexton", "version": server["version"]}},
        "components": components,
        "dependencies": [{"ref": reference[key], "dependsOn": sorted(map(reference.get, needs))} for key, needs in sorted(linked.items())],
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
