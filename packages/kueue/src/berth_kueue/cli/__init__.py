"""`berth kueue`: which commands it has. A table names their modules, so that help costs no more than reading it."""

from berth.cli.commands import CommandTable

COMMANDS = CommandTable("Ask about Kueue's queues", {})
"""What `berth` finds by the entry point: the group, once it has a command."""
INNER = CommandTable("Commands", {})
"""The commands of the group."""
