"""Reading `interface.html` back without a browser: its manifest and, in a page of one file, all else."""

from __future__ import annotations

import json
import re
from typing import Any

from rl_clarity.errors import ClarityError
from rl_clarity.pages.manifest import FORMAT, VERSION

_MANIFEST = re.compile(rb'<script type="application/json" id="manifest">(.*?)</script>', re.DOTALL)
_EMBEDDED = re.compile(rb'<script type="text/plain" data-(chunk|picture)="([A-Za-z0-9._/-]+)">')
_END = b"</script>"


def read_manifest(document: bytes) -> dict[str, Any]:
    """The manifest of a page; raises ClarityError where there is none, or one of another version."""
    match = _MANIFEST.search(document)
    if match is None:
        raise ClarityError("this file is no page of rl-clarity: it holds no manifest")
    try:
        manifest = json.loads(match[1])
    except ValueError as error:
        raise ClarityError(f"the page's manifest is damaged: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ClarityError("this file is no page of rl-clarity: its manifest is of another format")
    if manifest.get("version") != VERSION:
        raise ClarityError(f"the page's format has version {manifest.get('version')!r}; this program reads {VERSION}")
    return manifest


def embedded_files(document: bytes) -> dict[tuple[str, str], str]:
    """Text of what a page of one file embeds, by kind (`chunk`, `picture`) and name."""
    found = {}
    for match in _EMBEDDED.finditer(document):
        end = document.find(_END, match.end())
        found[match[1].decode(), match[2].decode()] = document[match.end() : end].decode("ascii")
    return found
