"""The toolchain, installed once; tests that need it are skipped where it cannot be installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from svelte3.errors import ToolchainError
from svelte3.toolchain import install

COMPONENT = """<script>
  import { onMount } from "svelte";
  import { double } from "./double.js";
  export let name = "nobody";
  export let numbers = [];
  let shown = false;
  onMount(() => (shown = true));
</script>

<h1>Hello {name}</h1>
<p data-shown={shown}>{numbers.map(double).join(" ")}</p>

<style>
  h1 {
    color: rgb(1, 2, 3);
  }
</style>
"""


@pytest.fixture(scope="session")
def toolchain() -> Path:
    try:
        return install()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture
def component(tmp_path: Path, toolchain: Path) -> Path:
    """A component of two files, in a directory whose name needs quoting."""
    directory = tmp_path / "a b&c"
    directory.mkdir()
    (directory / "double.js").write_text("export const double = (x) => 2 * x;\n")
    path = directory / "hello-world.svelte"
    path.write_text(COMPONENT)
    return path
