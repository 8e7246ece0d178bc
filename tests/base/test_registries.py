"""All registries: broken plug-ins harm none of them, and are not imported before they are needed."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rl_clarity
from rl_clarity.analyses import ANALYSES
from rl_clarity.analyses.attribution.quadrature import RULES
from rl_clarity.analyses.saliency import METHODS
from rl_clarity.base.errors import ClarityError
from rl_clarity.base.registry import Registry
from rl_clarity.environments import KINDS
from rl_clarity.formats import FORMATS
from rl_clarity.formats.architectures import ARCHITECTURES
from rl_clarity.pages.kinds import PAGE_KINDS
from rl_clarity.reduction import REDUCTIONS
from tests.plugins import install

REGISTRIES: dict[str, Registry[Any]] = {
    one.group: one for one in (ANALYSES, ARCHITECTURES, FORMATS, KINDS, METHODS, PAGE_KINDS, REDUCTIONS, RULES)
}


@pytest.fixture(params=REGISTRIES)
def registry(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Registry[Any]]:
    """A registry for which a package is installed that cannot be imported."""
    entries = REGISTRIES[request.param]
    monkeypatch.setattr(entries, "_registered", {})  # without entries of other tests
    install(tmp_path / "site", monkeypatch, f"{entries.group}: broken = broken_package:entry", "raise SystemExit(3)")
    yield entries
    entries.unregister("broken")


def test_this_test_covers_every_registry_of_the_package() -> None:
    sources = (path.read_text() for path in Path(rl_clarity.__file__).parent.rglob("*.py"))
    groups = re.findall(r"\b[A-Z_]+: Registry\[.*\] = Registry\(\s*\"([\w.]+)\"", "\n".join(sources))
    assert sorted(groups) == sorted(REGISTRIES)


def test_built_in_entries_are_looked_up_without_importing_plugins(registry: Registry[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in registry:
            if name != "broken":
                assert registry.get(name) is registry.find(name) is registry[name]
                assert registry.source(name) == ""
        registry.check("option", registry)
    assert "broken" in registry
    assert "broken_package" not in sys.modules


def test_a_broken_plugin_is_skipped_with_one_warning(registry: Registry[Any]) -> None:
    message = (
        rf"^the {registry.noun} 'broken' \(broken_package:entry\) cannot be loaded: SystemExit: 3; update or uninst"
    )
    with pytest.warns(RuntimeWarning, match=message) as warned:
        working = [[name for name in registry if registry.find(name) is not None] for _ in range(2)]
    assert len(warned) == 1
    assert "this entry is skipped" in str(warned[0].message)
    assert working[0] == working[1] == [name for name in registry.names() if name != "broken"]


def test_requesting_a_broken_plugin_raises_clarity_error(registry: Registry[Any]) -> None:
    with pytest.raises(ClarityError, match=rf"the {registry.noun} 'broken' .* cannot be loaded"):
        registry.get("broken")
    with pytest.raises(ClarityError, match=r"option='brokem' is not one of .*broken"):
        registry.check("option", ["broken", "brokem"])
