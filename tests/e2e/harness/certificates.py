"""Certificates for tests, made with openssl."""

import subprocess
from pathlib import Path


class Authority:
    """Makes certificates in a directory: `NAME.crt` and `NAME.key`, with keys of elliptic curves or, with `rsa`, of RSA."""

    def __init__(self, directory, name, rsa=False):
        self.directory, self.name, self.rsa = Path(directory), name, rsa
        self.run("req", "-x509", *self.new_key(name), "-subj", f"/CN=Authority {name}", "-days", "2", "-out", f"{name}.crt")

    def run(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.directory, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"openssl {' '.join(arguments)}: {done.stderr}")

    def new_key(self, name):
        kind = ["rsa:2048"] if self.rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        return ["-newkey", *kind, "-nodes", "-keyout", f"{name}.key"]

    def certify(self, name, common_name, alternative, days=2):
        self.run("req", *self.new_key(name), "-subj", f"/O=Test/CN={common_name}", "-out", f"{name}.csr")
        (self.directory / f"{name}.ext").write_text(f"subjectAltName={alternative}\n" if alternative else "")
        authority = ["-CA", f"{self.name}.crt", "-CAkey", f"{self.name}.key", "-CAcreateserial"]
        self.run("x509", "-req", "-in", f"{name}.csr", *authority, "-days", str(days), "-extfile", f"{name}.ext", "-out", f"{name}.crt")
