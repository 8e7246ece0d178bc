"""The TensorBoard plug-in with the tab RL CLARITY, which is found by the entry point `tensorboard_plugins`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tensorboard.plugins.base_plugin import FrontendMetadata, TBContext, TBPlugin

from rl_clarity.viewer.application import MODULE, Application
from rl_clarity.viewer.page import RecordingsPage
from rl_clarity.viewer.runs import LogDirectory

PREFIX = "/data/plugin"
_ADDRESS = re.compile(r"[a-zA-Z][0-9a-zA-Z.]*://")


class RecordingsPlugin(TBPlugin):  # type: ignore[misc]
    """Shows the recordings of the log directories that TensorBoard was started with."""

    plugin_name = "rl_clarity"

    def __init__(self, context: TBContext) -> None:
        super().__init__(context)
        spec = context.flags.logdir_spec if context.flags and not context.logdir else None
        self._directories = logdir_spec(spec) if spec else [LogDirectory.at(context.logdir)] * bool(context.logdir)
        self._title = context.logdir or spec or ""

    def is_active(self) -> bool:
        return self._page.exists()

    def get_plugin_apps(self) -> Mapping[str, Any]:
        application = Application(self._page, f"{PREFIX}/{self.plugin_name}")
        return {f"/{MODULE}": application, "/*": application}

    def frontend_metadata(self) -> FrontendMetadata:
        return FrontendMetadata(es_module_path=f"/{MODULE}", tab_name="RL CLARITY", disable_reload=True)

    @cached_property
    def _page(self) -> RecordingsPage:
        return RecordingsPage(self._directories, self._title)


def logdir_spec(text: str) -> list[LogDirectory]:
    """Parse the option `--logdir_spec` as TensorBoard does: `PATH` or `NAME:PATH`, separated by commas."""
    directories = []
    for part in filter(None, text.split(",")):
        name, colon, path = part.partition(":")
        if not colon or part.startswith("/") or _ADDRESS.match(part) or os.path.splitdrive(part)[0]:
            name, path = "", part
        directories.append(LogDirectory.at(path, name))
    return directories
