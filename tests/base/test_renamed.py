"""Old names of public functions, attributes and options work, with a DeprecationWarning that names the new one."""

from __future__ import annotations

import warnings

import pytest

import rl_clarity
from rl_clarity.analyses.memory.windows import WindowOptions
from rl_clarity.base.errors import OptionError
from rl_clarity.base.parsing import parse
from rl_clarity.base.renamed import RENAMED_OPTIONS, RenamedAttribute, renamed_arguments
from rl_clarity.cli.arguments import parse_arguments
from rl_clarity.recordings.episode import Episode
from rl_clarity.world_models.options import FitOptions


class Renamed:
    new = 3
    old = RenamedAttribute("new")


@renamed_arguments(old="new")
def doubled(**values: int) -> int:
    return 2 * values["new"]


@pytest.mark.parametrize(("old", "new"), [("analyse_states", "analyze_states"), ("maximise", "maximize")])
def test_a_deprecated_function_name_returns_the_new_function(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"rl_clarity.{old} is deprecated; use rl_clarity.{new}") as caught:
        function = getattr(rl_clarity, old)
    assert function is getattr(rl_clarity, new)
    assert caught[0].filename == __file__
    assert old not in rl_clarity.__all__


def test_a_deprecated_attribute_reads_the_new_attribute() -> None:
    with pytest.warns(DeprecationWarning, match=r"Renamed\.old is deprecated; use Renamed\.new") as caught:
        assert Renamed().old == 3
    assert caught[0].filename == __file__


def test_a_deprecated_argument_is_passed_under_its_new_name() -> None:
    with pytest.warns(DeprecationWarning, match=r"doubled\(old=\.\.\.\) is deprecated; use new="):
        assert doubled(old=4) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doubled(new=4) == 8


def test_deprecated_options_set_the_new_options() -> None:
    with pytest.warns(DeprecationWarning, match="option 'film_interval' is deprecated; use 'clip_interval'"):
        assert parse(FitOptions, {"film_interval": 7}) == FitOptions(clip_interval=7)
    known = {*FitOptions.__dataclass_fields__}
    assert known.isdisjoint(RENAMED_OPTIONS)
    assert known.issuperset(RENAMED_OPTIONS.values())


def test_deprecated_option_names_are_not_accepted_by_other_classes() -> None:
    with pytest.raises(OptionError, match="unknown option 'film_interval'"):
        parse(WindowOptions, {"film_interval": 7})


def test_commands_accept_options_by_their_deprecated_names() -> None:
    words = ["simulate", "agent.jd", "recording", "out"]
    assert parse_arguments([*words, "--film-interval", "7"]) == parse_arguments([*words, "--clip-interval", "7"])


def test_episodes_keep_the_deprecated_name_of_behavior_logits() -> None:
    episode = Episode({"steps": 0}, {})
    with pytest.warns(DeprecationWarning, match="use Episode.behavior_logits"):
        assert episode.behaviour_logits is None
