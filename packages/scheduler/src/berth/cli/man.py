"""`berth man [COMMAND]...`: a command's manual page in roff, made of the command itself, so that it is never stale.

Everything comes from click: usage, description, options, and examples from the epilog. Only macros of man(7) are used,
which groff and mandoc both read.
"""

import re
from collections.abc import Iterator

import click

SECTION = 1
EXIT_STATUS = (
    ("0", "Success."),
    ("1", "What was asked for failed."),
    ("2", "Wrong usage, or a configuration that cannot be used."),
)
_SPACE = re.compile(r"\s+")


@click.command("man", short_help="The manual page of a command.")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, names: tuple[str, ...]) -> None:
    """Print the manual page of COMMAND, or of berth itself, as `man -l -` reads it."""
    root = context.find_root()
    inner = click.Context(root.command, info_name="berth", **root.command.context_settings)
    for name in names:
        group = inner.command
        found = group.get_command(inner, name) if isinstance(group, click.Group) else None
        if found is None:
            there_are = ", ".join(group.list_commands(inner)) if isinstance(group, click.Group) else ""
            raise click.UsageError(
                f"{inner.command_path} has no command {name!r}" + (f"; there are {there_are}" if there_are else "")
            )
        inner = click.Context(found, info_name=name, parent=inner, **found.context_settings)
    from berth import __version__

    click.echo("\n".join(page(inner, __version__)))


def page(context: click.Context, version: str) -> Iterator[str]:
    """Yield the lines of a page."""
    found = context.command
    name = context.command_path.replace(" ", "-")
    yield f'.TH "{_text(name.upper())}" "{SECTION}" "" "berth {_text(version)}" "Berth"'
    yield ".SH NAME"
    yield f"{_text(name)} \\- {_text(_in_short(found))}"
    yield ".SH SYNOPSIS"
    yield f"\\fB{_text(context.command_path)}\\fR {_text(' '.join(found.collect_usage_pieces(context)))}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(found.help or "")
    if isinstance(found, click.Group):
        yield ".SH COMMANDS"
        for inner in found.list_commands(context):
            one = found.get_command(context, inner)
            if one is not None:
                yield from _entry(inner, _in_short(one))
    yield ".SH OPTIONS"
    for parameter in found.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1]:
            yield from _entry(*record)
    if found.epilog:
        yield from _examples(found.epilog)
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_STATUS:
        yield from _entry(code, meaning)
    if context.parent is not None:
        yield ".SH SEE ALSO"
        yield f"\\fB{_text(context.parent.command_path.replace(' ', '-'))}\\fR({SECTION})"


def _in_short(found: click.Command) -> str:
    return (found.short_help or found.get_short_help_str(200)).rstrip(".")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs; those that click does not wrap are not filled here either."""
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *(_line(line) for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield _line(_SPACE.sub(" ", paragraph).strip())


def _examples(epilog: str) -> Iterator[str]:
    yield ".SH EXAMPLES"
    for line in epilog.splitlines()[2:]:  # after the mark that click does not wrap it, and the heading
        purpose = line.strip().removeprefix("# ")
        if purpose != line.strip():
            yield from (".TP", _line(purpose))
        else:
            yield f"\\fB{_text(purpose)}\\fR"


def _entry(term: str, says: str) -> Iterator[str]:
    yield from (".TP", f"\\fB{_text(term)}\\fR", _line(_SPACE.sub(" ", says)))


def _text(text: str) -> str:
    """Return text of which nothing is an escape; a hyphen stays one, so that options can be copied."""
    plain = text.replace("\\", "\\(rs").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in plain)


def _line(text: str) -> str:
    """Return text as a line that is no request, whatever it begins with."""
    return f"\\&{_text(text)}" if text[:1] in (".", "'") else _text(text)
