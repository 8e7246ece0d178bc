"""Registries: lookup, plug-ins, and hashes of the code behind their entries."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_clarity
from rl_clarity.base.errors import CheckpointError, OptionError
from rl_clarity.base.registry import Registry
from tests.plugins import forget, install

GROUP = "rl_clarity.test_rules"


def make_registry() -> Registry[Any]:
    return Registry(GROUP, {"sqrt": "math:sqrt", "path": "os.path"}, noun="rule")


def define(source: str) -> Any:
    """Return `rule`, defined without a file, as in a notebook."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), namespace)
    return namespace["rule"]


def source_hash(value: Any) -> str:
    entries = make_registry()
    entries.register("rule", value)
    return entries.source("rule")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Install a package with a module `outside_rules` and the entry point `outside`."""
    file = install(tmp_path / "site", monkeypatch, f"{GROUP}: outside = outside_rules:rule", "")

    def write(text: str) -> None:
        file.write_text(text)
        forget(monkeypatch, file)

    return write


class TestEntries:
    def test_built_in_entries_are_imported_when_used(self) -> None:
        entries: Registry[Any] = Registry(GROUP, {"broken": "no_such_module:x", "sqrt": "math:sqrt"})
        assert entries.names() == ("broken", "sqrt")
        assert entries.get("sqrt")(4) == 2
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            entries.get("broken")

    def test_registered_entries_override_built_in_ones(self) -> None:
        entries = make_registry()
        entries.register("sqrt", "math:exp")
        entries.register("twice", lambda x: 2 * x)
        assert entries.get("sqrt")(0) == 1
        assert entries.get("twice")(2) == 4
        assert list(entries) == ["sqrt", "path", "twice"]
        assert entries.added() == ("twice",)
        entries.unregister("sqrt")
        assert entries.get("sqrt")(4) == 2

    def test_unknown_entry_names_are_rejected(self) -> None:
        with pytest.raises(OptionError, match=r"^unknown rule 'sqr'; did you mean 'sqrt'\? available: sqrt, path$"):
            make_registry().get("sqr")
        with pytest.raises(CheckpointError, match=r"^unknown network 'x'; available: none$"):
            Registry(GROUP, {}, noun="network", error=CheckpointError).get("x")

    def test_plugins_are_imported_when_used(self, plugin: Callable[[str], None]) -> None:
        plugin("def rule():\n    return 5\n")
        entries = make_registry()
        assert entries.names() == ("sqrt", "path", "outside")
        assert "outside_rules" not in sys.modules
        assert "outside" in entries
        assert entries.get("outside")() == 5

    @pytest.mark.parametrize(
        ("source", "error"),
        [
            ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
            ("import sys; sys.exit(3)", "SystemExit: 3"),
            ("class Stopped(BaseException): pass\nraise Stopped('why')", "Stopped: why"),
            ("", "AttributeError: module 'outside_rules' has no attribute 'rule'"),
        ],
    )
    def test_plugins_that_cannot_be_imported_cause_an_error_or_a_warning(
        self, plugin: Callable[[str], None], source: str, error: str
    ) -> None:
        plugin(source)
        entries = make_registry()
        message = f"the rule 'outside' (outside_rules:rule) cannot be loaded: {error}; update"
        with pytest.raises(OptionError, match=f"^{re.escape(message)}"):
            entries.get("outside")
        with pytest.warns(RuntimeWarning, match=f"^{re.escape(message)}.*; this entry is skipped$") as warned:
            assert [entries.find("outside") for _ in range(2)] == [None, None]
        assert len(warned) == 1

    def test_interrupting_the_import_of_a_plugin_ends_the_program(self, plugin: Callable[[str], None]) -> None:
        plugin("raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt):
            make_registry().find("outside")

    def test_finding_an_entry_imports_no_other_plugins(self, plugin: Callable[[str], None]) -> None:
        plugin("raise SystemExit")
        entries = make_registry()
        assert entries.find("sqrt") is not None
        assert entries.find("cubic") is None
        assert entries.plugins() == ("outside",)
        entries.register("outside", "math:exp")
        assert entries.plugins() == ()
        assert entries.find("outside") is not None


class TestSource:
    def test_built_in_entries_have_no_source_key(self) -> None:
        entries = make_registry()
        assert entries.source("sqrt") == ""
        entries.register("sqrt", "math:exp")
        assert entries.source("sqrt") != ""
        entries.unregister("sqrt")
        assert entries.source("sqrt") == ""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("def rule(n): return n + 1", "def rule(n): return n + 2"),
            ("def rule(n): return min(n)", "def rule(n): return max(n)"),
            ("def rule(n, k=1): return n", "def rule(n, k=2): return n"),
            ("def rule(n): return [i + 1 for i in n]", "def rule(n): return [i + 2 for i in n]"),
            ("K = 1\ndef rule(n): return n + K", "K = 2\ndef rule(n): return n + K"),
            ("def f(): return 1\ndef rule(n): return f()", "def f(): return 2\ndef rule(n): return f()"),
            ("def f(k): return lambda n: n + k\nrule = f(1)", "def f(k): return lambda n: n + k\nrule = f(2)"),
            ("class rule:\n  def f(self): return 1", "class rule:\n  def f(self): return 2"),
            ("class rule:\n  k = 1", "class rule:\n  k = 2"),
            ("class A:\n  k = 1\nclass rule(A): pass", "class A:\n  k = 2\nclass rule(A): pass"),
            ("class A:\n  def f(self): return 1\nrule = A()", "class A:\n  def f(self): return 2\nrule = A()"),
            ("class A: pass\nrule = A()\nrule.k = 1", "class A: pass\nrule = A()\nrule.k = 2"),
        ],
    )
    def test_redefining_a_function_changes_its_source_key(self, before: str, after: str) -> None:
        assert source_hash(define(before)) == source_hash(define(before))
        assert source_hash(define(before)) != source_hash(define(after))

    def test_different_values_have_different_source_keys(self) -> None:
        assert source_hash(np.zeros(3)) != source_hash(np.ones(3))
        assert source_hash(functools.partial(pow, 2)) != source_hash(functools.partial(pow, 3))

    def test_editing_a_module_changes_the_source_key(self, plugin: Callable[[str], None]) -> None:
        text = "K = 1\ndef rule():\n    return K\n"
        sources = []
        for version in (text, text, text.replace("1", "2")):
            plugin(version)
            sources.append(make_registry().source("outside"))
        assert sources[0] == sources[1] != sources[2]

    def test_source_keys_of_recursive_functions_are_computed(self) -> None:
        rule = define("def rule(n): return rule(n - 1)")
        assert source_hash(rule) == source_hash(rule)

    def test_source_keys_are_the_same_in_every_process(self) -> None:
        program = (
            "from rl_clarity.base.registry import Registry; r = Registry('g', {})\n"
            'exec(\'def rule(n): return n in {"a", "b", "c"}\')\n'
            "class A:\n  rule = rule\n  k = frozenset('abc')\n"
            "r.register('a', A()); print(r.source('a'))"
        )
        folder = Path(rl_clarity.__file__).parent.parent
        runs = {
            subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, check=True).stdout
            for _ in range(3)
        }
        assert len(runs) == 1
