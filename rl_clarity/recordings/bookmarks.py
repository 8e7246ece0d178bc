"""Old name of `advantages.find_bookmarks`."""

from typing import Any, NamedTuple

from rl_clarity.recordings.advantages import find_bookmarks


class Bookmarks(NamedTuple):
    high: Any
    low: Any


def bookmarks(*arguments: Any) -> Bookmarks:
    return Bookmarks(*find_bookmarks(*arguments))
