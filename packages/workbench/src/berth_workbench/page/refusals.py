"""What may go wrong while an answer is worked out for the page: what to tell people, and what is a mistake of ours."""

from typing import Final

from berth.api.codec import ObjectError
from berth.api.user_error import UserError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth_workbench.page.jobs import JobsBusy
from berth_workbench.sources.source import SourceError

REFUSALS: Final = (UserError, ValueError, ConfigError, ObjectError, PluginBrokenError, SourceError, JobsBusy)
"""Their messages say what is wrong with what was typed, or with the cluster; anything else is a mistake of ours."""


def mistake_in_words(bug: Exception) -> str:
    """Say that something failed because of a mistake of ours."""
    return f"a mistake in Berth ({type(bug).__name__}: {bug}); the log has more"
