"""The image's recipe, as far as it can be read; `tests/soak/test_shipping.py` follows its steps."""

import fnmatch
import re
import shlex
import stat

import pytest

from tests.deploy.chart import ROOT

LOCKS = ("requirements.lock", "requirements-page.lock", "requirements-dev.lock")


def instructions():
    """`[(instruction, rest)]` of the Dockerfile."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def copied():
    """The paths that the image takes from the repository."""
    for instruction, rest in instructions():
        words = [word for word in shlex.split(rest) if not word.startswith("--chmod")]
        if instruction == "COPY" and not words[0].startswith("--from"):
            yield from words[:-1]


def pins(lock):
    """`{name: (version, marker)}` of a lock file; a name may come twice, for different Pythons."""
    text = (ROOT / lock).read_text()
    return set(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def test_what_is_copied_is_there_and_not_ignored():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()
    paths = list(copied())
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path
        assert any(path == each or path.startswith(each + "/") for each in allowed), f"{path} is left out of the build"


def test_the_last_stage_has_no_root_and_no_build_tools():
    steps = instructions()
    last = [index for index, (instruction, _) in enumerate(steps) if instruction == "FROM"][-1]
    final = steps[last:]
    assert not any(instruction == "RUN" for instruction, _ in final)
    assert ("USER", "65532:65532") in final
    assert ("ENTRYPOINT", '["berth"]') in final
    assert all("--from=build" in rest for instruction, rest in final if instruction == "COPY")


def test_the_base_is_pinned_by_tag():
    (default,) = [rest for instruction, rest in instructions() if rest.startswith("PYTHON_IMAGE=")]
    assert fnmatch.fnmatch(default, "PYTHON_IMAGE=python:3.*-slim-*")
    assert {rest.split()[0] for instruction, rest in instructions() if instruction == "FROM"} == {"${PYTHON_IMAGE}"}


def test_without_an_argument_the_image_has_what_the_scheduler_needs():
    assert ("ARG", "LOCK=requirements.lock") in instructions()
    (installing,) = [rest for _, rest in instructions() if "${LOCK}" in rest]
    assert "--require-hashes" in installing


def test_the_pages_image_has_the_page_and_the_same_of_everything_else():
    page, scheduler = pins("requirements-page.lock"), pins("requirements.lock")
    assert scheduler < page <= pins("requirements-dev.lock")
    assert "nicegui" in {name for name, _ in page} and "nicegui" not in {name for name, _ in scheduler}


def test_nothing_is_installed_without_its_hash():
    for rest in (rest for instruction, rest in instructions() if instruction == "RUN" and " install " in rest):
        assert "--require-hashes" in rest or ("--no-index" in rest and "--no-deps" in rest), rest


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes(lock):
    blocks = re.split(r"^(?=[\w.-]+==)", (ROOT / lock).read_text(), flags=re.MULTILINE)[1:]
    assert blocks and all("--hash=sha256:" in block for block in blocks)
    assert "://" not in re.sub(r"#.*", "", "".join(blocks))  # no index of somebody's machine


def test_what_is_tested_is_what_is_shipped():
    assert pins("requirements.lock") <= pins("requirements-dev.lock")


def test_nothing_of_development_is_shipped_but_what_builds():
    shipped = {name for name, _ in pins("requirements.lock")}
    assert shipped & {"pytest", "mypy", "ruff", "hypothesis", "kubernetes", "pip-audit"} == set()
    assert {"aiohttp", "uvloop", "opentelemetry-sdk"} <= shipped


def test_the_image_answers_to_kube_schedulers_name():
    script = ROOT / "deploy/image/kube-scheduler"
    assert script.stat().st_mode & stat.S_IXUSR
    assert 'exec berth run "$@"' in script.read_text()
    assert any(
        rest.endswith("/opt/berth/bin/kube-scheduler") for instruction, rest in instructions() if instruction == "COPY"
    )
    assert ("ENV", "PATH=/opt/berth/bin:$PATH PYTHONDONTWRITEBYTECODE=1") in instructions()
