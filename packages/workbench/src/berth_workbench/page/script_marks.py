"""Marks the scripts of NiceGUI's own template, so that the guard can tell them from what is smuggled into a page.

The mark goes into the template's source, before any data is put into it: whatever the scripts are and however they
begin, they have it, and a script that comes with data has not, since nobody outside this process knows the mark. The
guard puts a fresh nonce in its place in every answer.
"""

import secrets
from collections.abc import Callable

from jinja2 import BaseLoader, Environment


def new_mark() -> str:
    """A mark that cannot be guessed."""
    return secrets.token_urlsafe(16)


def mark_scripts(environment: Environment, mark: str) -> None:
    """Have every script in the environment's templates marked from now on, with this mark alone."""
    loader = environment.loader
    assert loader is not None, "NiceGUI's templates are files"
    environment.loader = _MarkingLoader(loader.own if isinstance(loader, _MarkingLoader) else loader, mark)
    if environment.cache is not None:
        environment.cache.clear()


class _MarkingLoader(BaseLoader):
    """Loads what another loader does, with marks."""

    def __init__(self, own: BaseLoader, mark: str) -> None:
        self.own = own
        self._mark = mark

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        source, file, is_current = self.own.get_source(environment, template)
        return source.replace("<script", f'<script nonce="{self._mark}"'), file, is_current
