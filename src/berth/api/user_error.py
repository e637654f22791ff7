"""The base of errors whose message is for people: what is wrong, where, and what to do.

Modules of every package derive theirs from it, and none of them is caught on its way for its words alone. The command
line (`berth.cli`) ends with the message and exit code 1; whatever else is raised is a bug, and ends in a traceback.
"""


class UserError(Exception):
    """Something that the user can put right; the message tells how."""
