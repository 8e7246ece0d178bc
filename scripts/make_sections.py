"""Write the files that depend on the dataclasses of sections: `python -m scripts.make_sections`.

These are the Python types with which pages are read and checked, the types of the front end, and the tables of
docs/page-format.md.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Literal, get_args, get_origin

from rl_clarity.analyses import ANALYSES
from rl_clarity.pages.files import ChunkName
from rl_clarity.pages.manifest import AgentInfo, ProvenanceGroup, RecordingInfo
from rl_clarity.pages.schema import Key, alternatives, is_object, keys
from rl_clarity.pages.sections import PANELS, Note, SectionData
from rl_clarity.viewer.manifest import EpisodesSection, ListedTrajectoriesSection
from scripts.make_options import field_texts

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHON = REPOSITORY / "rl_clarity" / "pages" / "section_types.py"
TYPESCRIPT = REPOSITORY / "svelte_src" / "data" / "sections.d.ts"
REFERENCE = REPOSITORY / "docs" / "page-format.md"
SCALARS = {bool: "boolean", str: "string", int: "number", float: "number", object: "unknown", type(None): "null"}
"""TypeScript types of scalars."""
JSON = {bool: "boolean", str: "text", int: "integer", float: "number", object: "any value", type(None): "null"}
"""Names of types in the reference."""
TABLE = re.compile(r"(<!-- keys of (\w+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)
PYTHON_HEAD = '''"""Sections of pages as JSON; scripts/make_sections.py writes this from their dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict

'''
TYPESCRIPT_HEAD = "// Sections of pages; scripts/make_sections.py writes this from their dataclasses.\n"


def main() -> None:
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")


def documents() -> dict[Path, str]:
    """Return the text of each file."""
    reference = TABLE.sub(_table, REFERENCE.read_text(encoding="utf-8"))
    return {PYTHON: python_types(), TYPESCRIPT: typescript_types(), REFERENCE: reference}


def section_classes() -> list[type[SectionData]]:
    """Return the classes of all sections that the package writes, one for each kind of section."""
    sections: dict[str, type[SectionData]] = {}
    for name in ANALYSES:
        for section in ANALYSES.get(name).Sections:
            sections.setdefault(section.kind, section)
    return [*sections.values(), EpisodesSection]


def described_classes() -> dict[str, type[SectionData]]:
    """Return the classes that the reference can describe, by name."""
    return {_name(kind): kind for kind in (*section_classes(), ListedTrajectoriesSection, *PANELS.values())}


def nested(kinds: Iterable[type]) -> list[type]:
    """Return dataclasses and the dataclasses in their fields, each after those to which it refers."""
    ordered: dict[type, None] = {}

    def visit(hint: object) -> None:
        if isinstance(hint, type) and is_object(hint):
            for key in keys(hint):
                visit(key.hint)
            ordered[hint] = None
        for part in get_args(hint):
            visit(part)

    for kind in kinds:
        visit(kind)
    return list(ordered)


def texts(kind: type) -> dict[str, str]:
    """Return the documentation of the fields of a dataclass, including inherited fields."""
    bases = [base for base in reversed(kind.__mro__) if "__dataclass_fields__" in vars(base)]
    return {name: text for base in bases for name, text in field_texts(base).items()}


def summary(kind: type) -> str:
    """Return the docstring of a class as a single line."""
    return " ".join((kind.__doc__ or "").split())


# --- Python ----------------------------------------------------------------------------------------------------------


def python_types() -> str:
    """Return a TypedDict for each dataclass."""
    sections = section_classes()
    types = "\n\n".join(_typed_dict(kind) for kind in nested(sections))
    entries = "".join(f'    "{section.kind}": {section.__name__},\n' for section in sections)
    table = f"SECTION_TYPES: Mapping[str, type] = {{\n{entries}}}\n" + '"""By kind of section."""\n'
    return f"{PYTHON_HEAD}\n{types}\n\n{table}"


def _typed_dict(kind: type) -> str:
    entries = {key.name: _python_entry(kind, key) for key in keys(kind)}
    if any(keyword.iskeyword(name) for name in entries):
        items = "".join(f'        "{name}": {hint},\n' for name, hint in entries.items())
        return f'{kind.__name__} = TypedDict(\n    "{kind.__name__}",\n    {{\n{items}    }},\n)\n'
    body = "".join(f"    {name}: {hint}\n" for name, hint in entries.items())
    return f"class {kind.__name__}(TypedDict):\n{body}"


def _python_entry(kind: type, key: Key) -> str:
    if not key.required:
        return f"NotRequired[{_python(_present(key.hint))}]"
    (field,) = (field for field in fields(kind) if field.name == key.attribute)
    may_be_missing = field.default is not MISSING or field.default_factory is not MISSING  # absent on older pages
    return f"NotRequired[{_python(key.hint)}]" if may_be_missing else _python(key.hint)


def _present(hint: object) -> object:
    """Return the type of a key that is present, without None."""
    kinds = [hint_type for hint_type in alternatives(hint) if hint_type is not type(None)]
    return kinds[0] if len(kinds) == 1 else hint


def _python(hint: object) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if len(alternatives(hint)) > 1:
        return " | ".join(map(_python, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(json.dumps, arguments))}]"
    if origin is not None:
        return f"{_name(origin)}[{', '.join(map(_python, arguments))}]"
    if isinstance(hint, type) and issubclass(hint, str):
        return "str"
    return "None" if hint is type(None) else _name(hint)


def _name(kind: object) -> str:
    return str(getattr(kind, "__name__", kind))


# --- TypeScript ------------------------------------------------------------------------------------------------------


def typescript_types() -> str:
    """Return an interface for each dataclass, and the union of all sections."""
    sections, panels = section_classes(), PANELS.values()
    kinds = nested([*sections, ListedTrajectoriesSection, *panels, AgentInfo, RecordingInfo, ProvenanceGroup, Note])
    members = [
        *(f'  | SectionOf<"{section.kind}", {section.__name__}>' for section in sections),
        '  | SectionOf<"trajectories", ListedTrajectoriesSection>',
    ]
    envelope = """/** A section of the manifest. */
export interface SectionOf<Kind extends string, Data> {
  agent: string;
  data: Data;
  kind: Kind;
  notes?: Note[];
  panel?: string;
  recording: string;
  title: string;
  version: number;
}
"""
    union = "/** The sections that the package writes. */\nexport type Section =\n" + "\n".join(members) + ";\n"
    return "\n".join([TYPESCRIPT_HEAD, *map(_interface, kinds), envelope, union])


def _interface(kind: type) -> str:
    documented = texts(kind)
    lines = [f"/** {summary(kind)} */", f"export interface {kind.__name__} {{"]
    for key in keys(kind):
        text = documented.get(key.attribute)
        if text:
            lines.append(f"  /** {text} */")
        hint = key.hint if key.required else _present(key.hint)
        lines.append(f"  {key.name}{'' if key.required else '?'}: {_typescript(hint)};")
    return "\n".join([*lines, "}\n"])


def _typescript(hint: object) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if len(alternatives(hint)) > 1:
        return " | ".join(map(_typescript, arguments))
    if origin is Literal:
        return " | ".join(map(json.dumps, arguments))
    if origin is Sequence:
        item = _typescript(arguments[0])
        return f"({item})[]" if " | " in item else f"{item}[]"
    if origin is tuple:
        return f"[{', '.join(map(_typescript, arguments))}]"
    if origin is Mapping:
        return f"Record<string, {_typescript(arguments[1])}>"
    if isinstance(hint, type) and issubclass(hint, str):
        return "string"
    return SCALARS.get(hint, _name(hint)) if isinstance(hint, type) else _name(hint)


# --- reference -------------------------------------------------------------------------------------------------------


def _table(match: re.Match[str]) -> str:
    """Return tables of the keys of a section, and of the objects in it that no earlier section describes."""
    head, name, end = match.groups()
    section = described_classes()[name]
    parts = [_rows(section, ""), *(_rows(kind, f"`{_name(kind)}`: {summary(kind)}") for kind in described(section))]
    return head + "\n" + "\n".join(parts) + "\n" + end


def described(section: type[SectionData]) -> list[type]:
    """Return the dataclasses in a section, in the order of its keys, without those that an earlier section of the
    reference describes.
    """
    before: set[type] = set()
    for _, name, _ in TABLE.findall(REFERENCE.read_text(encoding="utf-8")):
        if name == section.__name__:
            break
        before |= {*nested([described_classes()[name]])}
    return [kind for kind in reversed(nested([section])) if kind not in before and kind is not section]


def _rows(kind: type, title: str) -> str:
    documented, inherited = texts(kind), {key.name for key in keys(SectionData)}
    lines = [*([title, ""] if title else []), "| key | type | meaning |", "|---|---|---|"]
    for key in keys(kind):
        if key.name not in inherited:
            name = f"`{key.name}`" if key.required else f"`{key.name}`?"
            meaning = documented.get(key.attribute, "").replace("|", "\\|")
            hint = key.hint if key.required else _present(key.hint)
            lines.append(f"| {name} | `{_documented(hint)}` | {meaning} |")
    return "\n".join([*lines, ""])


def _documented(hint: object) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if len(alternatives(hint)) > 1:
        return " or ".join(map(_documented, arguments))
    if origin is Literal:
        return " or ".join(map(json.dumps, arguments))
    if origin in (Sequence, tuple):
        return f"[{', '.join(map(_documented, arguments))}]"
    if origin is Mapping:
        return f"{{KEY: {_documented(arguments[1])}}}"
    if isinstance(hint, type) and issubclass(hint, str) and hint is not str:
        return "CHUNK" if issubclass(hint, ChunkName) else "IMAGE"
    return JSON.get(hint, _name(hint)) if isinstance(hint, type) else _name(hint)


if __name__ == "__main__":
    main()
