"""Hook of MkDocs: the page of `rl-clarity demo` becomes part of the documentation site."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    page = Path(config.config_file_path).parent / config.extra["demo"]
    for path in sorted(page.rglob("*")):
        if path.is_file():
            name = f"demo/{path.relative_to(page).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files
