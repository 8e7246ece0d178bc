"""What metadata that a user gives may be called, so that a slip of the pen is told."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rl_clarity.errors import OptionError

NAMES = (
    *("env_kind", "env_name", "env_id", "gamma", "lambda", "library", "cnn", "stack_channels", "emb_size", "use_lstm"),
    *("observation_shape", "num_actions", "action_combos", "heads", "input_divisor"),
    *("frame_stack", "frame_stack_padding", "epsilon_greedy", "reward_scale"),
    *("num_levels", "start_level", "distribution_mode", "use_sequential_levels"),
    *("use_backgrounds", "restrict_themes", "use_monochrome_assets", "use_generated_assets", "center_agent"),
    *("paint_vel_info", "debug_mode", "use_sticky_actions", "episodic_life", "frame_skip", "frame_pooling", "noop_max"),
    *("fire_reset", "max_frames", "full_action_space", "preprocessing", "make_kwargs", "channels_first", "value_range"),
    *("extra_actions", "set_seed", "high_difficulty", "use_data_augmentation", "use_random_hps", "num_trials"),
)
"""Those that this package asks for. Environments of a user's own may ask for others."""
ALIKE = 0.8


def check_names(given: Iterable[str], said: Iterable[str]) -> None:
    """Raise OptionError for a name that is nearly, but not quite, one of ours or one that the file has."""
    known = {*NAMES, *said}
    for name in given:
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=ALIKE)
        if near and name not in known:
            raise OptionError(f"metadata {name!r} is not known; did you mean {near[0]!r}?")
