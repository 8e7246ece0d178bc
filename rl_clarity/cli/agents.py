"""Commands for a single agent: training, evaluation, and checkpoints."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Annotated

import tyro

import rl_clarity
from rl_clarity.cli.command import CheckpointCommand, Command, PlayingCommand, Result, field_values
from rl_clarity.cli.option_types import DirectoryPath, FilePath, Switch
from rl_clarity.formats.included import fetched
from rl_clarity.ppo.options import TrainOptions
from rl_clarity.recordings.options import EvaluationOptions


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Train an agent by PPO. Repeat the command to resume interrupted training."""

    save_dir: DirectoryPath
    """Directory for checkpoints and logs."""
    options: Annotated[TrainOptions, tyro.conf.arg(name="")]
    force: Switch = False
    """Replace an existing agent in the directory if its training cannot be resumed."""

    def execute(self) -> Result:
        options = field_values(self.options, TrainOptions)
        summary = rl_clarity.train(self.save_dir, overwrite=self.force, **options)
        return Result(asdict(summary), f"The agent is in {self.save_dir}")


@dataclass(frozen=True, kw_only=True)
class Evaluate(PlayingCommand):
    """Estimate an agent's mean return over a fixed number of episodes, each of which is played to its end."""

    options: Annotated[EvaluationOptions, tyro.conf.arg(name="")] = field(default_factory=EvaluationOptions)

    def execute(self) -> Result:
        from rl_clarity.commands.evaluate import summary, text

        options = asdict(self.options)
        self.check_outputs()
        evaluations = rl_clarity.evaluate(self.player(), metadata=self.overrides(), **options)
        return Result({name: summary(evaluation) for name, evaluation in evaluations.items()}, text(evaluations))


@dataclass(frozen=True, kw_only=True)
class Inspect(CheckpointCommand):
    """Print the network, layers and metadata of a checkpoint, or describe a recording. No code in the file is run."""

    def execute(self) -> Result:
        from rl_clarity.cli.inspection import describe_recording, inspect_checkpoint, may_be_recording
        from rl_clarity.recordings.recording import is_recording, open_recording

        if may_be_recording(self.checkpoint) and is_recording(self.checkpoint):
            return describe_recording(open_recording(self.checkpoint))
        self.check_outputs()
        with fetched(self.checkpoint) as path:
            return inspect_checkpoint(path, self.overrides())


@dataclass(frozen=True, kw_only=True)
class Convert(CheckpointCommand):
    """Convert a checkpoint of any supported format, with its metadata, to safetensors, or its network to ONNX."""

    file: FilePath
    """File to write, such as agent.safetensors or network.onnx."""
    force: Switch = False
    """Replace an existing file."""

    def execute(self) -> Result:
        from rl_clarity.cli.inspection import convert_checkpoint

        self.check_outputs()
        with fetched(self.checkpoint) as path:
            return convert_checkpoint(path, self.file, self.overrides(), overwrite=self.force)


@dataclass(frozen=True, kw_only=True)
class Edit(CheckpointCommand):
    """Remove features or units of a layer from an agent's weights, and write the edited agent as a checkpoint."""

    file: FilePath
    """File to write, such as edited.safetensors."""
    layer: str
    """Name of the layer, such as 2b."""
    feature: tuple[int, ...] = ()
    """Numbers of the features to remove, as on the page that --page names. Without --page, features are fitted as `run`
    does by default."""
    page: str | None = None
    """Directory of a page of this agent with these features. By default, the agent plays to fit features."""
    unit: tuple[int, ...] = ()
    """Channels of the layer to remove, counted from 0. No page is needed."""
    strength: float = 1
    """Fraction of the features or units to remove, from 0 to 1."""
    everything_but: Switch = False
    """Keep the given features or units, and remove everything else."""
    force: Switch = False
    """Replace an existing file."""

    def execute(self) -> Result:
        from rl_clarity.cli.inspection import edit_checkpoint

        self.check_outputs()
        with fetched(self.checkpoint) as path:
            return edit_checkpoint(
                path,
                self.file,
                self.overrides(),
                layer=self.layer,
                features=self.feature,
                page=self.page,
                units=self.unit,
                strength=self.strength,
                everything_but=self.everything_but,
                overwrite=self.force,
            )
