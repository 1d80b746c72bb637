"""Graph credit for unmodified Stable-Baselines3 learners."""

try:
    import stable_baselines3  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError("graphwrap.sb3 needs Stable-Baselines3: pip install 'graphwrap[sb3]'") from error

from graphwrap.sb3.callback import CreditCallback
from graphwrap.sb3.vector_adapter import as_vec_env

__all__ = ["CreditCallback", "as_vec_env"]
