"""Berth: a Kubernetes scheduler in Python.

For programs that embed the engine (`docs/embedding.md`): `Scheduler`, `ScheduleResult`, and the errors `ConfigError`
and `ObjectError`. For plugins: `berth.plugin`. All of it is imported when it is first used, so that `import berth`
costs nothing; `docs/tour.md` follows one pod through the package.
"""

TYPE_CHECKING = False  # `typing` would be the first import of every command, before `berth.__main__` sees to Ctrl-C
if TYPE_CHECKING:
    from typing import Any

    from berth.api.codec import ObjectError
    from berth.config.errors import ConfigError
    from berth.library.result import ScheduleResult
    from berth.library.scheduler import Scheduler

__version__ = "0.1.0"
__all__ = ["ConfigError", "ObjectError", "ScheduleResult", "Scheduler"]


def __getattr__(name: str) -> "Any":
    """Import what is asked for; every other name is looked up here once only."""
    import importlib

    homes = {
        "ConfigError": "berth.config.errors",
        "ObjectError": "berth.api.codec",
        "ScheduleResult": "berth.library.result",
        "Scheduler": "berth.library.scheduler",
    }
    if name not in homes:
        raise AttributeError(f"module 'berth' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(homes[name]), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
