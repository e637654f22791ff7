"""A release: versions agree, wheels install and run, and the workflows pin what they use and only call what is tried.

The list of parts is made and looked at by `tests/soak/test_shipping.py`, which needs the network.
"""

import hashlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import zipfile

import pytest
import yaml

from tests.deploy.chart import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "deploy/release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def projects(release):
    """The path of the `pyproject.toml` of each distribution."""
    return [f"{directory}/pyproject.toml" for directory in release.DISTRIBUTIONS.values()]


@pytest.fixture
def tree(release, tmp_path, monkeypatch):
    """A copy of every file that names the version; the release is asked about it."""
    for path in ["CHANGELOG.md", *projects(release), *(path for path, _ in release.PLACES)]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text())
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return tmp_path


# -- versions -------------------------------------------------------------------------------------------------------


def test_every_place_names_the_same_version(release):
    assert release.main(["versions"]) == 0


@pytest.mark.parametrize("place", range(8))
def test_a_place_that_was_forgotten_is_named(release, tree, capsys, place):
    path, words = release.PLACES[place]
    text = (tree / path).read_text()
    found = re.search(words, text, re.MULTILINE)
    (tree / path).write_text(text[: found.start(1)] + "7.7.7" + text[found.end(1) :])
    assert release.main(["versions"]) == 1
    assert f"{path} says 7.7.7" in capsys.readouterr().err


@pytest.mark.parametrize("house", ["workloads", "workbench", "cluster", "kueue", "plugins"])
def test_all_distributions_have_the_same_version(release, tree, capsys, house):
    path = tree / f"packages/{house}/pyproject.toml"
    path.write_text(re.sub(r'^version = ".*"', 'version = "7.7.7"', path.read_text(), flags=re.MULTILINE))
    assert release.main(["versions"]) == 1
    assert f"packages/{house}/pyproject.toml says 7.7.7" in capsys.readouterr().err


def test_a_house_that_names_another_version_of_a_house_below_it_is_told(release, tree, capsys):
    path = tree / "packages/cluster/pyproject.toml"
    path.write_text(path.read_text().replace("berth-workbench==", "berth-workbench==7."))
    assert release.main(["versions"]) == 1
    assert f"packages/cluster/pyproject.toml says 7.{release.version()}" in capsys.readouterr().err


def test_all_places_are_looked_at(release):
    assert len(release.PLACES) == 8


def test_a_tag_is_that_of_the_version_and_the_changelog_tells_of_it(release, tree, capsys):
    version = release.version()
    assert release.main(["versions", "--tag", "v7.7.7"]) == 1
    assert "the tag is v7.7.7" in capsys.readouterr().err
    changelog = tree / "CHANGELOG.md"
    changelog.write_text("## [0.0.1] - 2020-01-01\n\nOld.\n")
    assert release.main(["versions", "--tag", f"v{version}"]) == 1
    assert "CHANGELOG.md says nothing" in capsys.readouterr().err
    changelog.write_text(f"## [{version}] - 2026-12-01\n\nThis.\n\n## [0.0.1]\n\nOld.\n")
    assert release.main(["versions", "--tag", f"v{version}"]) == 0
    assert release.notes(f"v{version}") == "This." == release.notes()


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(release, tmp_path_factory):
    """What `make release-check` makes, where no index can be reached."""
    directory = tmp_path_factory.mktemp("release")
    assert release.main(["build", str(directory)]) == 0
    return directory


@pytest.mark.long
def test_wheels_and_sdists_are_made_twice_alike(made):
    houses = [
        "berth_cluster",
        "berth_kueue",
        "berth_scheduler",
        "berth_scheduler_plugins",
        "berth_workbench",
        "berth_workloads",
    ]
    names = [path.name.split("-")[0] for path in made.iterdir()]
    assert sorted(names) == sorted(2 * houses)


@pytest.mark.long
def test_the_wheels_install_in_an_empty_environment_and_run(release, made, capsys):
    """`berth --version`, `berth demo --help`, and `berth plugins` with every plugin of the guests."""
    assert release.main(["try", str(made), "--here"]) == 0, capsys.readouterr().err


@pytest.mark.long
def test_the_wheels_hold_the_licence_and_no_tests(made):
    for wheel in made.glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        assert any(name.endswith("/licenses/LICENSE") for name in names), wheel.name
        assert not [name for name in names if "tests/" in name or name.endswith(".pyc")]


def test_all_distributions_have_the_same_licence(release):
    """A link would lead nowhere in their sdist."""
    for directory in release.DISTRIBUTIONS.values():
        copy = ROOT / directory / "LICENSE"
        assert copy.read_bytes() == (ROOT / "LICENSE").read_bytes() and not copy.is_symlink()


@pytest.mark.long
def test_the_example_of_an_image_with_plugins_installs_them(release, made, tmp_path):
    """The RUN of deploy/plugins/Dockerfile, in an environment that has Berth's wheel; only the index is missing."""
    text = (ROOT / "deploy/plugins/Dockerfile").read_text()
    (line,) = re.findall(r"^RUN --mount=type=bind,target=/package pip (.*)$", text, re.MULTILINE)
    environment = release.Environment(tmp_path / "environment")
    environment.borrow()
    environment.install("--no-index", "--no-deps", "--ignore-installed", *release.houses(made))
    there = {"/opt/berth/bin/python": environment.python, "/package": ROOT / "packages/plugins"}
    words = [str(there.get(word, word)) for word in shlex.split(line)]
    assert str(environment.python) in words and "install" in words
    # What builds the wheel would come from an index; here it is borrowed, as everything else is.
    release.run(sys.executable, "-m", "pip", *words, "--no-index", "--no-build-isolation", "--ignore-installed")
    release.check_plugins(json.loads(environment.berth("plugins", "-o", "json")))


def test_the_example_of_an_image_with_plugins_ends_without_root():
    lines = [line for line in (ROOT / "deploy/plugins/Dockerfile").read_text().splitlines() if not line.startswith("#")]
    users = [line for line in lines if line.startswith("USER")]
    final = re.findall(r"^USER .*$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[-1]
    assert users == ["USER 0", final] and lines[-1] == final


def test_a_plugin_that_is_missing_or_ill_is_an_error(release):
    names = release.project("packages/plugins")["entry-points"]["berth.plugins"]
    told = [{"name": name, "healthy": True, "problems": []} for name in names]
    release.check_plugins(told)
    with pytest.raises(release.Wrong, match="does not list"):
        release.check_plugins(told[1:])
    with pytest.raises(release.Wrong, match="no such module"):
        release.check_plugins([{**told[0], "healthy": False, "problems": ["no such module"]}, *told[1:]])


def test_sums_are_those_that_sha256sum_reads(release, tmp_path, capsys):
    """SHA-256 of "abc", from FIPS 180-4's examples."""
    (tmp_path / "abc").write_text("abc")
    assert release.main(["sums", str(tmp_path)]) == 0
    wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (tmp_path / "SHA256SUMS").read_text() == f"{wanted}  abc\n"


def test_without_helm_the_chart_is_not_packed_and_that_is_said(release, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(release, "helm", lambda: None)
    assert release.main(["chart", str(tmp_path)]) == 0
    assert "NOT PACKED" in capsys.readouterr().out
    assert release.main(["chart", str(tmp_path), "--strict"]) == 1


def parts(release, **changed):
    text = (ROOT / "requirements.lock").read_text()
    components = [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    ]
    about = {"type": "application", "name": "berth-scheduler", "version": release.version()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {"component": about},
        "components": components,
        **changed,
    }


def test_a_list_of_parts_that_lacks_something_is_refused(release):
    whole = parts(release)
    release.check_parts(whole)
    for changed, said in (
        ({"components": whole["components"][1:]}, "does not name"),
        ({"bomFormat": "SPDX"}, "no CycloneDX"),
        ({"metadata": {"component": {"name": "other", "version": "1"}}}, "about other"),
    ):
        with pytest.raises(release.Wrong, match=said):
            release.check_parts(parts(release, **changed))


# -- publishing -----------------------------------------------------------------------------------------------------


def test_what_would_be_published_is_shown(release, tmp_path, capsys):
    for name in ("a.whl", "sbom.cdx.json", "SHA256SUMS"):
        (tmp_path / name).write_text("")
    assert release.main(["publish", str(tmp_path), "registry.example.com/berth", "--dry-run"]) == 0
    commands = [shlex.split(line.removeprefix("$ ")) for line in capsys.readouterr().out.splitlines()]
    images = [command for command in commands if command[:3] == ["docker", "buildx", "build"]]
    assert len(images) == 2
    for command in images:
        assert command[command.index("--platform") + 1] == "linux/amd64,linux/arm64"
        assert {"--provenance", "--sbom", "--push"} <= {*command}
    locks = [word.removeprefix("LOCK=") for command in images for word in command if word.startswith("LOCK=")]
    assert all((ROOT / lock).exists() for lock in locks) and len({*locks}) == 2
    pushed = [command for command in commands if "push" in command]
    assert pushed[0][-1] == "oci://registry.example.com/berth/charts"
    signed = {command[-1].rpartition("@")[0] for command in commands if command[:2] == ["cosign", "sign"]}
    assert signed == {f"registry.example.com/berth/{name}" for name in (*release.IMAGES, "charts/berth")}
    blobs = {command[-1] for command in commands if command[:2] == ["cosign", "sign-blob"]}
    assert blobs == {str(path) for path in tmp_path.iterdir()}


def test_the_digest_of_the_chart_is_what_helm_tells(release):
    """What Helm 3.8 and later print: "Pushed: …" and "Digest: …"."""
    digest = "sha256:" + 64 * "a"
    assert release.pushed_digest(f"Pushed: ghcr.io/x/charts/berth:0.1.0\nDigest: {digest}\n") == digest
    with pytest.raises(release.Wrong):
        release.pushed_digest("Error: denied")


# -- workflows ------------------------------------------------------------------------------------------------------


def steps(path):
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        yield from job.get("steps", ())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_named_by_version(path):
    used = [line for line in path.read_text().splitlines() if "uses:" in line and "./.github" not in line]
    assert used
    for line in used:
        assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_write_nothing_unless_a_job_says_so(path):
    document = yaml.safe_load(path.read_text())
    assert document["permissions"] == {"contents": "read"}
    writing = [name for name, job in document["jobs"].items() if "permissions" in job]
    assert writing == (["publish"] if path.name == "release.yml" else [])
    # Nothing of an event is put into a command by the template: it comes as a variable, which the shell quotes.
    for step in steps(path):
        assert "${{" not in step.get("run", "")


def test_what_the_workflows_run_is_there():
    """Each command is a target of the Makefile, a script of the tree, or one that logs in or makes the release."""
    makefile = (ROOT / "Makefile").read_text()
    for path in WORKFLOWS:
        for line in (line for step in steps(path) for line in step.get("run", "").splitlines()):
            first, *words = line.split()
            if first == "make":
                assert re.search(rf"^{re.escape(words[0])}:", makefile, re.MULTILINE), line
            elif first.startswith(".ci/"):
                assert (ROOT / first).stat().st_mode & 0o100, line
            elif first == "python3":
                assert (ROOT / words[0]).exists(), line
            else:
                assert first in ("printenv", "gh"), line


def test_nothing_is_published_before_all_is_tested():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    assert jobs["publish"]["needs"] == "make" and jobs["make"]["needs"] == "test"
    assert jobs["test"]["uses"] == "./.github/workflows/ci.yml"
    runs = [step.get("run", "") for step in jobs["make"]["steps"]]
    assert any("release-check" in run and "--strict" in run and "TAG=" in run for run in runs)


# -- krew -------------------------------------------------------------------------------------------------------------


def test_krew_takes_the_plugin_and_its_archive_runs_what_is_installed(release, tmp_path):
    """The rules are krew's own, `ValidatePlugin`; krew unpacks the archive and links `bin`."""
    assert release.main(["krew", str(tmp_path)]) == 0
    document = yaml.safe_load((tmp_path / "berth.yaml").read_text())
    packed = tmp_path / "kubectl-berth.tar.gz"
    (digest,) = {each["sha256"] for each in document["spec"]["platforms"]}
    assert digest == hashlib.sha256(packed.read_bytes()).hexdigest()
    subprocess.run(["tar", "-xzf", packed, "-C", tmp_path], check=True)
    there = {each["from"] for platform in document["spec"]["platforms"] for each in platform["files"]}
    assert there <= {path.name for path in tmp_path.iterdir()}
    for name in ("berth", "kubectl-berth"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    launcher = [tmp_path / document["spec"]["platforms"][0]["bin"], "explain", "web 1"]
    ran = subprocess.run(
        launcher, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "kubectl-berth explain web 1\n"
    lost = subprocess.run(launcher, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert (lost.returncode, "says how to install it" in lost.stderr) == (1, True)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("metadata", "name"), "other", "should be named 'berth'"),
        (("spec", "version"), "0.1.0", "version"),
        (("spec", "shortDescription"), "a\nb", "one line"),
        (("spec", "platforms"), [], "a platform"),
        (("spec", "platforms", 0, "sha256"), "abc", "64 hexadecimal"),
        (("spec", "platforms", 0, "selector"), {"matchLabels": {"libc": "musl"}}, "os and arch"),
        (("spec", "platforms", 0, "files"), [], "files"),
    ],
)
def test_what_krew_refuses_is_noticed(release, tmp_path, path, value, said):
    assert release.main(["krew", str(tmp_path)]) == 0
    import krew

    document = yaml.safe_load((tmp_path / "berth.yaml").read_text())
    assert list(krew.problems("berth", document)) == []
    at = document
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    assert any(said in each for each in krew.problems("berth", document))
