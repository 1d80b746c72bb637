"""Engines generate answers: prompt token ids in, token ids and their log-probabilities out."""

from __future__ import annotations

from graphwrap.agents.engines.base import Engine as Engine
from graphwrap.agents.engines.base import Generation as Generation
from graphwrap.agents.engines.base import Sampling as Sampling
