"""Pages that tests do as they say: the files on them, the commands that are typed, and the sentences about both."""

import re


def files(page):
    """The files on a page by their names, which are their first lines, in a comment."""
    blocks = re.findall(r"```(?:yaml|python)\n(.*?)```", page, re.DOTALL)
    return {re.fullmatch(r"# ([\w.]+)", text.partition("\n")[0])[1]: text for text in blocks}


def commands(page):
    """What is typed, in order."""
    return [line.removeprefix("$ ") for line in printed(page) if line.startswith("$ ")]


def printed(page):
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def sentences(page):
    """The prose: sentences of paragraphs, and rows of tables; headings, pictures and files are left out."""
    for paragraph in re.split(r"\n\n+", re.sub(r"```.*?```", "", page, flags=re.DOTALL)):
        if paragraph.startswith("|"):
            yield from paragraph.splitlines()[2:]
        elif paragraph.strip() and not paragraph.strip().startswith(("#", "![")):
            yield from re.split(r"(?<=[.?!:)])\s+(?=[A-Z`(])", " ".join(paragraph.split()))
