"""Write and execute the notebooks in examples/: `python -m scripts.make_notebook [NAME]`.

NAME.ipynb is generated from NAME.py, and a test executes it. Its outputs are saved, with small images.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CoalesceStreamsPreprocessor, ExecutePreprocessor

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = REPOSITORY / "examples"
NOTEBOOKS = ("core_functions", "one_failure")
CELL_SECONDS = 900


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=NOTEBOOKS, help="name of the notebook; by default all of them")
    chosen = parser.parse_args().name
    for name in [chosen] if chosen else NOTEBOOKS:
        target = EXAMPLES / f"{name}.ipynb"
        nbformat.write(execute(notebook(name), EXAMPLES), target)
        print(f"{target.name}: {target.stat().st_size // 1024} KB")


def notebook(name: str) -> Any:
    """Return a notebook without outputs. In its source, `# %%` begins a code cell, `# %% [markdown]` a text cell."""
    cells = []
    parts = re.split(r"^# %%(.*)\n", (EXAMPLES / f"{name}.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for kind, text in zip(parts[1::2], parts[2::2], strict=True):
        if "[markdown]" in kind:
            cells.append(nbformat.v4.new_markdown_cell(re.sub(r"^# ?", "", text.strip(), flags=re.MULTILINE)))
        else:
            cells.append(nbformat.v4.new_code_cell(text.strip()))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def execute(book: Any, directory: Path) -> Any:
    """Run a notebook in a directory; return it with outputs, without times and standard error."""
    book, _ = ExecutePreprocessor(timeout=CELL_SECONDS).preprocess(book, {"metadata": {"path": str(directory)}})
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    book.metadata["language_info"] = {"name": "python"}
    return CoalesceStreamsPreprocessor().preprocess(book, {})[0]


if __name__ == "__main__":
    main()
