"""Scenarios: changes of a cluster to try one after the other, in a file, or typed one a line (`typed_steps`).

    apiVersion: berth.dev/v1
    kind: Scenario
    steps:
      - addNodes: {like: node-1, count: 3}
      - apply: web.yaml
      - drain: node-7

Each step has one key, one of `berth_workbench.simulation.changes.CHANGES` or `apply`, whose files are looked for beside
the scenario. Anything unknown is an error that says where it is.
"""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

import yaml

from berth.api.yaml_census import PARSER, UnreasonableYAML, refuse_bombs, yaml_problem
from berth_workbench.simulation.changes import CHANGES, ChangeError, parse_flag, read_step
from berth_workbench.simulation.steps import Manifests, Step
from berth_workbench.snapshot.documents import read_manifests
from berth_workbench.snapshot.text import SnapshotError

API_VERSION: Final = "berth.dev/v1"
KIND: Final = "Scenario"
APPLY: Final = "apply"
MAX_STEPS = 1000
CHANGES_HINT: Final = (
    "One a line, carried out in this order: drain NODE, cordon NODE, add-nodes N=LIKE-NODE, lose-zone ZONE, "
    "scale KIND/NAME=N, evict POD, upgrade NODE and so on, as the flags of berth whatif. NODE is a name, a pattern "
    "(gpu-*) or a label (pool=gpu)."
)
_EXPECTED: Final = "an object with apiVersion, kind and steps"


def read_scenario(path: str | Path) -> list[Step]:
    """Return the steps of a scenario file. Raises `ChangeError`."""
    try:
        content = Path(path).read_bytes()
        refuse_bombs(content)
        documents = [each for each in yaml.load_all(content, Loader=PARSER) if each is not None]
    except OSError as error:
        raise ChangeError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnreasonableYAML, UnicodeDecodeError, ValueError) as error:
        raise ChangeError(f"{path}: not readable as YAML: {yaml_problem(error)}") from None
    try:
        if len(documents) > 1:
            raise ChangeError("there are several documents in it; a scenario is one")
        if not documents:
            raise ChangeError(f"there is nothing in it; {_EXPECTED} is expected")
        return _steps_of(documents[0], Path(path).absolute().parent)
    except ChangeError as error:
        raise ChangeError(f"{path}: {error}") from None


def _steps_of(value: Any, directory: Path) -> list[Step]:
    if not isinstance(value, Mapping):
        raise ChangeError(f"{_EXPECTED} is expected, not {_in_words(value)}")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if value.get(key) != expected:
            raise ChangeError(f"{key}: {expected!r} is expected, not {value.get(key)!r}")
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "steps"):
            raise ChangeError(f"{key}: no such field; there are apiVersion, kind, metadata and steps")
    steps = value.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ChangeError("steps: a list of at least one step is expected")
    if len(steps) > MAX_STEPS:
        raise ChangeError(f"steps: there are {len(steps)}; at most {MAX_STEPS} are carried out")
    return [_step_of(step, f"steps[{number}]", directory) for number, step in enumerate(steps)]


def _in_words(value: Any) -> str:
    """Describe a value read from YAML for people."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int | float):
        return "a number"
    return "a date" if isinstance(value, date) else "a text"


def _step_of(step: Any, path: str, directory: Path) -> Step:
    if not isinstance(step, Mapping) or len(step) != 1:
        raise ChangeError(f"{path}: a step has exactly one key, one of {', '.join((*CHANGES, APPLY))}")
    ((name, value),) = step.items()
    if name != APPLY:
        return read_step(str(name), value, path)
    files = value if isinstance(value, list) else [value]
    if not files or not all(isinstance(each, str) and each for each in files):
        raise ChangeError(f"{path}.{APPLY}: the name of a file is expected, or a list of them")
    try:
        return Manifests(read_manifests([directory / each for each in files]), f"apply {', '.join(files)}")
    except SnapshotError as error:
        raise ChangeError(f"{path}.{APPLY}: {error}") from None


def typed_steps(changes: str) -> list[Step]:
    """Read changes that were typed, one a line. Raises `ChangeError`."""
    lines = [line.strip() for line in changes.splitlines()]
    steps: list[Step] = [_change(number, line) for number, line in enumerate(lines, 1) if line and line[0] != "#"]
    if len(steps) > MAX_STEPS:
        raise ChangeError(f"there are {len(steps)} changes; at most {MAX_STEPS} are carried out")
    return steps


def _change(number: int, line: str) -> Step:
    word, _, text = line.removeprefix("--").replace("\t", " ").partition(" ")
    step = re.sub(r"-(.)", lambda letter: letter[1].upper(), word)
    if step not in CHANGES:
        known = ", ".join(re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", each) for each in CHANGES)
        raise ChangeError(f"changes, line {number}: no change is called {word!r}; there are {known}")
    try:
        return parse_flag(step, text.strip())
    except ChangeError as error:
        raise ChangeError(f"changes, line {number}: {error}") from None
