"""Hook of MkDocs: the page that `make demo` writes becomes part of the documentation site."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DEMO = Path(__file__).resolve().parents[1] / "out" / "demo"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted(DEMO.rglob("*")):
        if path.is_file():
            name = f"demo/{path.relative_to(DEMO).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files
