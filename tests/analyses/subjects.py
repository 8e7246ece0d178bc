"""Subjects of analyses without a page: a small agent and a few samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_clarity.analyses import Subject
from rl_clarity.analyses.analysis import describe_agent
from rl_clarity.jobs.forecast import CountingDirectory
from rl_clarity.pages.files import PageFiles
from rl_clarity.recordings.samples import Observations, Trajectories
from tests.fakes import TinyAgent
from tests.page_options import page_options


def make_subject(agent: TinyAgent | None = None, metadata: dict[str, Any] | None = None, **options: Any) -> Subject:
    agent = agent or TinyAgent()
    shape = (1, 2, *agent.observation_shape)
    scores = np.zeros((1, 2, agent.num_actions), np.float32)
    heads: dict[str, Any] = {name: scores[..., 0] if name == "values" else scores for name in agent.heads}
    observations = np.zeros(shape, np.uint8)
    zeros = np.zeros((1, 2))
    trajectories = Trajectories(observations, zeros, zeros, zeros.astype(bool), **heads)
    parsed = page_options(**options)
    return Subject(
        agent=agent,
        info=describe_agent(agent, trajectories, metadata or {}, parsed),
        trajectories=trajectories,
        observations=Observations(observations[0]),
        metadata=metadata or {},
        options=parsed,
        files=PageFiles(CountingDirectory()),
    )
