"""Command line: `python -m svelte3 compile|html|lint|format|test|install`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from svelte3.compiler import check_types, compile_html, compile_js, lint
from svelte3.errors import Svelte3Error
from svelte3.toolchain import install, run_tests


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except Svelte3Error as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m svelte3", description="Compile, lint and test Svelte 3 components."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("compile", "compile a component to a script"), ("html", "compile a component to a page")):
        command = commands.add_parser(name, help=text)
        command.add_argument("input", type=Path)
        command.add_argument("output", type=Path, nargs="?")
        command.add_argument("--name", help="name of the global variable that holds the component")
        command.add_argument("--force", action="store_true", help="replace a file that svelte3 did not write")
    for name, text in (("lint", "report problems"), ("format", "fix problems"), ("test", "run *.test.js")):
        commands.add_parser(name, help=text).add_argument("paths", type=Path, nargs="+")
    commands.add_parser("install", help="install the pinned packages and print their directory")
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.command == "install":
        print(install())
    elif options.command == "compile":
        print(compile_js(options.input, options.output, js_name=options.name, overwrite=options.force))
    elif options.command == "html":
        print(compile_html(options.input, options.output, js_name=options.name, overwrite=options.force))
    elif options.command == "test":
        tests = sorted(
            str(test) for path in options.paths for test in path.rglob("*.test.js") if "node_modules" not in test.parts
        )
        return run_tests(tests)
    else:
        problems = lint(options.paths, style=True, fix=options.command == "format")
        problems += check_types(options.paths) if options.command == "lint" else []
        for problem in problems:
            print(f"{problem['file']}:{problem['line']}:{problem['column']}: {problem['message']} ({problem['rule']})")
        return int(any(problem["error"] for problem in problems))
    return 0


if __name__ == "__main__":
    sys.exit(main())
