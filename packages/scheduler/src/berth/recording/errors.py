"""What can be wrong with a recording, in words for the user who asked for it to be read."""

from berth.api.user_error import UserError


class RecordingError(UserError, ValueError):
    """A recording that cannot be used; the message says which file, what is wrong with it, and what to do."""
