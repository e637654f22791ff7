"""The base of errors whose message is for people: what is wrong, where, and what to do.

Modules of every package derive theirs from it, and none of them is caught on its way for its words alone. The command
line (`berth.cli`) ends with the message and the error's exit code; whatever else is raised is a bug, and ends in a
traceback.
"""

from typing import ClassVar


class UserError(Exception):
    """Something that the user can put right; the message tells how."""

    exit_code: ClassVar[int] = 1
    """What a command ends with: 1 where something failed, 2 for wrong usage or configuration."""
