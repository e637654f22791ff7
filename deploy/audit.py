"""Asks a database of vulnerabilities about every package of the lock files, and says plainly what it did not hear of.

`make audit` runs this. pip-audit does the asking, but ends with success where packages were skipped, and its words for
a database that cannot be reached tell little. Here only an answer about each package counts:

    0   every package is in the answer, and none has a known vulnerability
    1   some have
    3   NOT AUDITED: the database could not be reached, or gave no answer about some packages
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

DATABASES: Mapping[str, str] = {
    "osv": "OSV (https://api.osv.dev), which has PyPA's and GitHub's advisories",
    "pypi": "PyPI's JSON API (https://pypi.org/pypi), which has PyPA's advisories",
}
CLEAN, VULNERABLE, NOT_AUDITED = 0, 1, 3


class Answer(NamedTuple):
    """What pip-audit said about one lock file."""

    code: int
    output: str
    errors: str


class Verdict(NamedTuple):
    """What that amounts to."""

    code: int
    lines: tuple[str, ...]


def main(arguments: Iterable[str]) -> int:
    """`audit.py DATABASE LOCK...`; print the verdict on each lock file and return the worst exit code."""
    database, *locks = arguments
    worst = CLEAN
    print(f"database: {DATABASES[database]}")
    for lock in locks:
        found = verdict(pins(Path(lock).read_text(encoding="utf-8")), ask(database, lock))
        print(*(f"{lock}: {line}" for line in found.lines), sep="\n")
        worst = max(worst, found.code)
    return worst


def ask(database: str, lock: str) -> Answer:
    """Run pip-audit on a lock file; nothing is installed or resolved for it."""
    command = [
        sys.executable, "-m", "pip_audit", "--vulnerability-service", database, "--requirement", lock,
        "--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


def pins(text: str) -> set[str]:
    """Return the names that a lock file pins, normalised."""
    return {normalised(name) for name in re.findall(r"^([A-Za-z0-9][\w.-]*)==", text, re.MULTILINE)}


def normalised(name: str) -> str:
    """Return a name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def verdict(wanted: set[str], answer: Answer) -> Verdict:
    """Return what an answer says about the wanted packages."""
    try:
        told: list[dict[str, Any]] = json.loads(answer.output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = answer.errors.strip().splitlines()[-1:] or [f"pip-audit ended with {answer.code} and no answer"]
        return Verdict(NOT_AUDITED, (f"NOT AUDITED: {reason[0]}",))
    audited = {normalised(each["name"]) for each in told if "vulns" in each}
    lines = [
        f"{each['name']} {each['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'no version'}"
        for each in told
        for found in each.get("vulns", ())
    ]
    if missing := sorted(wanted - audited):
        return Verdict(NOT_AUDITED, (*lines, f"NOT AUDITED: no answer about {', '.join(missing)}"))
    if lines:
        return Verdict(VULNERABLE, tuple(lines))
    return Verdict(CLEAN, (f"{len(wanted)} packages audited, no known vulnerability",))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
