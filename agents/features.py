"""A Stable-Baselines3 features extractor for grids of a few cells, which NatureCNN cannot take."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

try:
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import nn
except ImportError as error:
    raise ImportError(
        "GridExtractor needs torch and Stable-Baselines3: pip install 'graphwrap[sb3]'"
    ) from error


class GridExtractor(BaseFeaturesExtractor):
    """Two 3x3 convolutions and a linear layer over one-hot planes, such as ``SokobanEnv(obs="grid")``.

    The first convolution has no padding: its outputs are the cells inside the border, which in Sokoban is all
    wall, and every cell of the grid is seen. The second keeps the size.

    Use: ``PPO("MlpPolicy", env, policy_kwargs={"features_extractor_class": GridExtractor})``.

    Args:
        observation_space: Box of floats, shape (planes, H, W) with H, W >= 3.
        features_dim: length of the output; forward maps float32 (B, planes, H, W) to (B, features_dim).
        channels: output channels of the two convolutions.

    Raises:
        ValueError: the space is not of this kind.
    """

    def __init__(
        self, observation_space: spaces.Space, features_dim: int = 128, channels: tuple[int, int] = (32, 32)
    ):
        if (
            not isinstance(observation_space, spaces.Box)
            or not np.issubdtype(observation_space.dtype, np.floating)
            or len(observation_space.shape) != 3
            or min(observation_space.shape[1:]) < 3
        ):
            raise ValueError(
                f"GridExtractor takes a float Box of shape (planes, H, W) with H, W >= 3, got {observation_space}. "
                f"For Sokoban use obs='grid'; for other observations leave out features_extractor_class."
            )
        super().__init__(observation_space, features_dim)
        planes, height, width = observation_space.shape
        first, second = channels
        self.layers = nn.Sequential(
            nn.Conv2d(planes, first, kernel_size=3),
            nn.ReLU(),
            nn.Conv2d(first, second, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * (height - 2) * (width - 2), features_dim),
            nn.ReLU(),
        )

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Features of a batch: float32 (B, planes, H, W) to (B, features_dim)."""
        return self.layers(observations)
