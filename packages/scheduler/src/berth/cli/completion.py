"""`berth completion SHELL`: the script with which a shell completes commands, options and names.

Click has the scripts, and answers the shell's questions when the script asks them (`_BERTH_COMPLETE`).
"""

import click

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Let the shell complete commands, options and names.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that completes berth's commands in SHELL.

    Put it where your shell reads it at its start, as below. The names of pods, nodes and zones are those of a scheduler
    of this machine, or of the one that --server names.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click has all three
    root = click.get_current_context().find_root().command
    # Not the class's own `source`, which runs bash to see whether it is of this decade.
    click.echo(ShellComplete.source(found(root, {}, "berth", "_BERTH_COMPLETE")))
