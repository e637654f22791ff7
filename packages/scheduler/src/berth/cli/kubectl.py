"""`kubectl berth`: Berth's commands as a plugin of kubectl, with kubectl's own flags, namespace and completion.

kubectl runs the program `kubectl-berth` with what was typed behind `kubectl berth`, and asks `kubectl_complete-berth`
what could come next. What is typed before the command's name holds for the command, as with kubectl: `--kubeconfig`,
`--context`, `-n`. Without `-n` the namespace is the context's, where that names one.
"""

import sys
from collections.abc import Sequence

import click

from berth.cli import CONTEXT_SETTINGS, LazyGroup

PROGRAM = "kubectl berth"
NO_FILES = 4
"""To kubectl's shells: complete no names of files beside what was said (Cobra's `ShellCompDirectiveNoFileComp`)."""
ANY_FILES = 0


class _Plugin(LazyGroup):
    """The commands; what chooses the context is known before any of them is parsed, wherever it was typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual, and look for the flags behind the command's name first."""
        ctx.obj = {name: _last_of(f"--{name}", args) for name in ("kubeconfig", "context")}
        return super().parse_args(ctx, args)


def _last_of(flag: str, words: Sequence[str]) -> str:
    """Return what was typed last for a flag; empty where nothing was."""
    found = ""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word == flag or word.startswith(f"{flag}="):
            found = following if word == flag else word.partition("=")[2]
    return found


@click.command(cls=_Plugin, name="berth", context_settings=CONTEXT_SETTINGS)
@click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig to use, as with kubectl.")
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@click.option("-n", "--namespace", default="", help="The namespace. [default: that of the context]")
@click.pass_context
def plugin(ctx: click.Context, kubeconfig: str, context: str, namespace: str) -> None:
    """Ask the scheduler of the cluster that kubectl talks to: why pods are where they are, what would help, what if.

    No scheduler of Berth's need run there: the cluster is read once, and nothing is changed.
    """
    given = {"kubeconfig": kubeconfig, "context": context, "namespace": namespace or namespace_in_use(ctx)}
    typed = {name: text for name, text in given.items() if text}
    ctx.default_map = dict.fromkeys(plugin.list_commands(ctx), typed)  # where Click looks for what was not typed


def namespace_in_use(ctx: click.Context) -> str:
    """Return the namespace of the context that the flags of kubectl choose; empty where it names none."""
    from berth.kube.credentials.access import context_namespace

    return context_namespace(ctx.find_root().obj["kubeconfig"], context=ctx.find_root().obj["context"])


def typed_for(ctx: click.Context, name: str) -> str:
    """Return what was typed for a flag of kubectl, behind the command or before it; empty where nothing was."""
    return str(ctx.params.get(name) or ctx.find_root().params.get(name) or "")


def run() -> None:
    """Run the command that was typed behind `kubectl berth`."""
    plugin(prog_name=PROGRAM)


def is_plugin(ctx: click.Context) -> bool:
    """Say whether a command is run, or completed, by kubectl."""
    return ctx.find_root().info_name == PROGRAM


def complete() -> None:
    """Print what the last word that was typed could become, as kubectl's completion reads it: Cobra's `__complete`.

    Source: kubernetes.io, "Extend kubectl with plugins", and Cobra's shell completions.
    """
    from click.shell_completion import ShellComplete

    *before, begun = sys.argv[1:] or [""]
    asked = ShellComplete(plugin, {}, PROGRAM, "_KUBECTL_BERTH_COMPLETE")
    directive = NO_FILES
    for each in asked.get_completions(before, begun):
        if each.type in ("file", "dir"):
            directive = ANY_FILES
            continue
        said = (each.help or "").partition("\n")[0]
        click.echo(f"{each.value}\t{said}" if said else each.value)
    sys.stdout.write(f":{directive}\n")
