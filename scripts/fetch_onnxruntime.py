"""Fetch onnxruntime-web from npm, for pages that run their network: python -m scripts.fetch_onnxruntime"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from rl_clarity.base.files import write_atomically
from rl_clarity.pages.browser_runtime import DIRECTORY, FILES, VERSION
from svelte3.toolchain import find_node

INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
"""Integrity hash of the package, as the npm registry publishes it."""


def main() -> None:
    stamp = DIRECTORY / "version.txt"
    if stamp.exists() and stamp.read_text() == VERSION:
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [*find_node().npm, "pack", f"onnxruntime-web@{VERSION}", "--json", "--pack-destination", folder]
        packed = subprocess.run(command, capture_output=True, text=True, check=False)
        if packed.returncode:
            sys.exit(f"npm cannot fetch onnxruntime-web {VERSION}: {packed.stderr.strip()}")
        (entry,) = json.loads(packed.stdout)
        archive = Path(folder, entry["filename"])
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode("ascii")
        if f"sha512-{digest}" != INTEGRITY:
            sys.exit(f"onnxruntime-web {VERSION} from npm is not the expected package: sha512-{digest}")
        DIRECTORY.mkdir(exist_ok=True)
        with tarfile.open(archive) as package:
            for name in FILES.values():
                member = package.extractfile(f"package/dist/{name}")
                assert member is not None
                write_atomically(DIRECTORY / name, member.read())
    stamp.write_text(VERSION)


if __name__ == "__main__":
    main()
