"""Find or install Chromium for the browser tests: `python scripts/chromium.py` prints its path.

Searched in this order: RL_CLARITY_CHROMIUM, the PATH, a Mac's applications, Playwright's build. If none of these
starts, Chromium is installed: from the system's packages if this needs no password, otherwise as Playwright's build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC_APPLICATIONS = ("Chromium.app/Contents/MacOS/Chromium", "Google Chrome.app/Contents/MacOS/Google Chrome")
FLAGS = (
    "--no-sandbox",  # root in a container cannot use the sandbox; tests open only their own pages
    "--disable-gpu",
    "--process-per-site",  # keep the process, which has compiled the page's script, for the next page: a quarter faster
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Arguments of Chromium. Playwright adds those for running without a window."""


def find_chromium() -> Path | None:
    """Return the path of Chromium: the value of RL_CLARITY_CHROMIUM if it is set (None if it is empty), otherwise the
    first Chromium that is found.

    Raises FileNotFoundError if RL_CLARITY_CHROMIUM is not the path of a file.
    """
    path = os.environ.get("RL_CLARITY_CHROMIUM")
    if path is None:
        return next(_candidates(), None)
    if path and not Path(path).is_file():
        raise FileNotFoundError(f"RL_CLARITY_CHROMIUM={path} is not a file")
    return Path(path) if path else None


def starts(program: Path) -> bool:
    """Return whether the program can open a page from a file. Confined programs (snaps) may not be allowed to."""
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "page.html"
        page.write_text("<p id='shown'></p>")
        own = ["--headless=new", f"--user-data-dir={directory}/profile", "--dump-dom"]
        command = [str(program), *FLAGS, *own, page.as_uri()]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return False
    return "shown" in result.stdout


def find_or_install() -> Path | None:
    """Return the path of a Chromium that starts, after installing it if necessary."""
    for install in (None, _install_system_package, _install_playwright_build):
        if install is not None:
            install()
        for program in _candidates():
            if starts(program):
                return program
    return None


def _candidates() -> Iterator[Path]:
    for command in COMMANDS:
        if path := shutil.which(command):
            yield Path(path)
    for root in (Path("/Applications"), Path.home() / "Applications"):
        yield from (root / name for name in MAC_APPLICATIONS if (root / name).is_file())
    if build := _playwright_build():
        yield build


def _playwright_build() -> Path | None:
    """Return the path of Playwright's build, if it has been downloaded."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.is_file() else None


def _install_system_package() -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        _run(["apt-get", "-q", *command], environment)


def _install_playwright_build() -> None:
    system_libraries = ["--with-deps"] if sys.platform == "linux" and os.geteuid() == 0 else []
    _run([sys.executable, "-m", "playwright", "install", *system_libraries, "chromium"], dict(os.environ))


def _run(command: list[str], environment: dict[str, str]) -> None:
    """Run a command that may fail, with its output on standard error."""
    print("+", *command, file=sys.stderr, flush=True)
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)


def main() -> int:
    program = find_chromium() if os.environ.get("RL_CLARITY_CHROMIUM") else find_or_install()
    if program is None:
        print("No Chromium was found or installed: the browser tests will be skipped.", file=sys.stderr)
    else:
        print(program)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
