"""Error messages for files that cannot be read as data, with scripts that convert them."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rl_clarity.base.errors import CheckpointError
from rl_clarity.formats.checkpoint import CheckpointFile
from rl_clarity.formats.safe_files import ZIP_MAGIC
from rl_clarity.formats.safe_joblib import is_joblib
from rl_clarity.formats.torch_file import is_torch_stream

HDF5 = b"\x89HDF"
ORBAX_FILES = ("_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt")
RLLIB_FILES = ("rllib_checkpoint.json", "algorithm_state.pkl", "policy_state.pkl", "algorithm_state.msgpck")

MODULE_SCRIPT = """
    import torch
    import rl_clarity
    from {module} import {name}{comment}

    module = torch.load({path!r}, weights_only=False)          # or an item of it; runs its code: only if you trust it
    torch.save(module.state_dict(), "state_dict.pt")           # of CleanRL, train-procgen-pytorch: rl-clarity reads it
    # Any other network; input_divisor=1 if it divides by 255 itself, and
    # forward=lambda module, x, state: (logits, values) if it is not called as module(x):
    agent = rl_clarity.TorchAgent(module, (64, 64, 3))         # shape (H, W, C) of one observation
    rl_clarity.generate(agent, *rl_clarity.collect(agent, env), "out")   # env: any Gymnasium environment"""

RLLIB_SCRIPT = """
    import rl_clarity
    from ray.rllib.core.rl_module.rl_module import RLModule

    # Runs code in it: only if you trust it. Before Ray 2.40: Algorithm.from_checkpoint({path!r}).get_policy().model
    module = RLModule.from_checkpoint({path!r} + "/learner_group/learner/rl_module/default_policy")
    def forward(module, x, state):                             # x: (B, C, H, W) in 0..1
        batch = {{"obs": x.permute(0, 2, 3, 1) * 255}}           # as RLlib gets it from your environment
        return module.forward_train(batch)["action_dist_inputs"], module.compute_values(batch)
        # before Ray 2.40: logits, _ = module(batch); return logits, module.value_function()
    agent = rl_clarity.TorchAgent(module, (84, 84, 4), forward=forward)  # shape (H, W, C) of one observation
    rl_clarity.generate(agent, *rl_clarity.collect(agent, env), "out")"""

GUIDE = "    # docs/guides/libraries.md has the lines for"
NETWORK_SCRIPT = f"""
    import torch
    import rl_clarity
    from my_program import Network                             # the class whose tensors these are

    module = Network()
    module.load_state_dict(torch.load({{path!r}}, weights_only=True))   # or an item of it
    # input_divisor=1 if it divides by 255 itself, forward=... if it is not called as module(x):
    agent = rl_clarity.TorchAgent(module, (64, 64, 3))         # shape (H, W, C) of one observation
    rl_clarity.generate(agent, *rl_clarity.collect(agent, env), "out")   # env: any Gymnasium environment
{GUIDE} {{library}}"""

JAX_SCRIPT = f"""
    import rl_clarity
    {{library}}
    from my_program import network                             # the module whose parameters these are

    parameters = {{load}}
    agent = rl_clarity.JaxAgent(network.apply, parameters, (64, 64, 3))  # shape (H, W, C) of one observation
    rl_clarity.generate(agent, *rl_clarity.collect(agent, env), "out")   # env: any Gymnasium environment
{GUIDE} Flax, Equinox, PureJaxRL"""

LIBRARIES = {
    "Sample Factory": "action_parameterization.",
    "rl_games": "a2c_network.",
    "RLlib": "encoder.encoder.",
    "tianshou": "preprocess.",
    "PufferLib": "value_fn.",
    "TorchRL": "module.0.module.",
    "Stable-Baselines3": "mlp_extractor.",
}
"""Libraries, each with a string that occurs in the names of its tensors."""

PICKLE_SCRIPT = """
    import joblib, numpy
    import my_program                                          # the modules that define the classes in the file

    content = joblib.load({path!r})                            # or pickle.load: runs code in it, only if you trust it
    params = {{name: numpy.asarray(array) for name, array in content["params"].items()}}
    args = {{"env_name": "NAME", "cnn": "clear"}}             # plain numbers and strings
    joblib.dump({{"params": params, "args": args}}, "plain.jd")"""


def check_file(path: Path) -> None:
    """Raise CheckpointError for a folder, a file of an RLlib checkpoint, or a special file, which could block its
    reader.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode), "a device")
        raise CheckpointError(f"is {kind}, which cannot be read as a checkpoint; copy its content to a file")
    folder = path if stat.S_ISDIR(mode) else path.parent
    if folder == path or path.name in RLLIB_FILES:
        if any((folder / name).exists() for name in RLLIB_FILES):
            raise CheckpointError(*rllib(folder))
        if any((folder / name).exists() for name in ORBAX_FILES):
            message = "contains parameters of a network (orbax) without its code. This script wraps the network:"
            load = f"orbax.checkpoint.StandardCheckpointer().restore({str(folder.resolve())!r})"
            raise CheckpointError(message, _jax_script("import orbax.checkpoint", load))
        names = ", ".join(sorted(p.name for p in path.iterdir())[:8])
        raise CheckpointError(f"is a folder; give the path of a file in it: {names}" if names else "is an empty folder")


def rllib(path: Path) -> tuple[str, str]:
    """Return the error message and the conversion script for an RLlib checkpoint."""
    message = (
        "is an RLlib checkpoint, which consists of pickled objects that cannot be read without running code. In the "
        "Python environment in which it was trained, this script wraps the network:"
    )
    return message, "\n" + RLLIB_SCRIPT.format(path=str(path))


def pickled_object(path: Path, name: str) -> tuple[str, str]:
    """Return the error message for a pickle that refers to a class or function, and a conversion script ("" if none
    applies).
    """
    with path.open("rb") as file:
        head = file.read(16)
    is_torch = head.startswith(ZIP_MAGIC) or is_torch_stream(head)
    refused = f"contains a pickled {name}, which is not data (no code was run); only numbers and strings are read"
    module = name.split(".")[0]
    if module == "ray":
        return rllib(path)
    if module == "numpy" and is_torch:  # such as a mean reward beside the tensors
        return f"{refused}. This script wraps the network:", own_network(path)
    if module != "__main__" and module in (*sys.stdlib_module_names, "__builtin__", "numpy", "joblib"):
        return refused, ""  # it is not an agent's module, so do not suggest to import it
    if not all(part.isidentifier() for part in name.split(".")):
        return refused, ""  # never put this into a script
    package, _, attribute = name.rpartition(".")
    in_script = package == "__main__"
    comment = " " * 24 + "# where it is defined; the file looks for it in __main__" if in_script else ""
    script = (MODULE_SCRIPT if is_torch else PICKLE_SCRIPT).format(
        path=str(path), module="my_script" if in_script else package, name=attribute, comment=comment
    )
    return f"{refused}. In the Python environment in which it was written, this script converts it:", "\n" + script


def own_network(path: Path) -> str:
    """Return a script that wraps the network whose tensors are in a PyTorch file or a pickle, or "" for other files."""
    file = CheckpointFile(path)
    if is_joblib(file.head) and not file.is_torch:
        return _jax_script("import joblib", f"joblib.load({str(path)!r})   # or an item of it: only if you trust it")
    try:
        names = file.tensor_shapes if file.is_torch else None
    except CheckpointError:
        names = {}
    if names is None:
        return ""
    library = _library(names) or "TorchRL, tianshou, Sample Factory, PufferLib, RLlib, rl_games"
    return "\n" + NETWORK_SCRIPT.format(path=str(path), library=library)


def _library(names: Iterable[str]) -> str | None:
    return next((library for library, part in LIBRARIES.items() if any(part in name for name in names)), None)


def _jax_script(imported: str, load: str) -> str:
    return "\n" + JAX_SCRIPT.format(library=imported, load=load)


def _is_msgpack(head: bytes) -> bool:
    """Return whether a file begins like a dict or list of arrays that Flax serialized with msgpack."""
    begins = head[:1] in (b"\xde", b"\xdf", b"\xdc", b"\xdd") or (
        head[:1] != b"\x80" and b"\x80" <= head[:1] <= b"\x9f"
    )
    return begins and any(word in head for word in (b"float32", b"float16", b"params"))


def unknown(file: CheckpointFile, descriptions: Sequence[str]) -> tuple[str, str]:
    """Return the error message for a file that no format recognizes, and a script that reads the file ("" if none
    applies).
    """
    formats = "; ".join(descriptions)
    if file.head.startswith(HDF5):
        return "is an HDF5 file of an older Keras; save the model again with Keras 3: model.save('agent.keras')", ""
    if file.tensor_shapes:
        tensors = ", ".join(f"{name} {shape}" for name, shape in list(file.tensor_shapes.items())[:6])
        library = _library(file.tensor_shapes)
        program = f"{library}, whose networks are explained in memory" if library else "an unsupported program"
        message = (
            f"is a PyTorch state dict of {program} (supported: {formats}). Its tensors: {tensors}, ... "
            "This script wraps the network's own class, as a TorchAgent:"
        )
        return message, own_network(file.path)
    if _is_msgpack(file.head):
        message = "contains parameters of Flax (msgpack), without the network's code. This script wraps the network:"
        load = f"flax.serialization.msgpack_restore(open({str(file.path)!r}, 'rb').read())"
        return message, _jax_script("import flax.serialization", load)
    if not file.head:
        return "is an empty file", ""
    return f"is of an unknown format (it begins with {file.head[:8]!r}); supported formats: {formats}", ""
