"""Makes a release and tries it out: versions, wheels and sdists, the chart, the list of parts, images, signatures.

`make release-check` runs all that needs no registry; `.github/workflows/release.yml` runs the same and then publishes.
What is published is a list of commands here, so that `--dry-run` can show them without a registry.

    release.py versions [--tag vX.Y.Z]      every place that names the version names the same one
    release.py build DIR                    wheel and sdist of each house under packages/, the same bytes each time
    release.py try DIR [--here]             install them in an empty environment, and run what is installed
    release.py chart DIR [--strict]         pack the chart, where Helm is
    release.py krew DIR                     the plugin manifest for krew and its archive, by krew's rules
    release.py parts SBOM                   the list of parts is valid CycloneDX and names all that ships
    release.py sums DIR                     SHA256SUMS of the files
    release.py notes [--tag vX.Y.Z]         what CHANGELOG.md says about the version
    release.py publish DIR REGISTRY [--dry-run]   images, chart, signatures

Exit code 0 is success; 1 says on the last line what is wrong.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy/helm/berth"
PLATFORMS = "linux/amd64,linux/arm64"
IMAGES: Mapping[str, str] = {"berth-scheduler": "requirements.lock", "berth-scheduler-page": "requirements-page.lock"}
"""The images, and the lock file of each."""
DISTRIBUTIONS: Mapping[str, str] = {
    "berth_scheduler": "packages/scheduler",
    "berth_workloads": "packages/workloads",
    "berth_workbench": "packages/workbench",
    "berth_cluster": "packages/cluster",
    "berth_kueue": "packages/kueue",
    "berth_scheduler_plugins": "packages/plugins",
}
"""The Python distributions, and where their `pyproject.toml` is; the guests come last."""
GUESTS = "berth_scheduler_plugins"


class Wrong(Exception):  # noqa: N818 - said to people, as the last line
    """Why there can be no release."""


def main(words: Sequence[str]) -> int:
    """Run one step; return the exit code."""
    parser = argparse.ArgumentParser(prog="release.py")
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("versions", "notes"):
        steps.add_parser(name).add_argument("--tag", default="")
    steps.add_parser("build").add_argument("directory", type=Path)
    trying = steps.add_parser("try")
    trying.add_argument("directory", type=Path)
    trying.add_argument("--here", action="store_true", help="take the dependencies from this Python, not from an index")
    packing = steps.add_parser("chart")
    packing.add_argument("directory", type=Path)
    packing.add_argument("--strict", action="store_true", help="fail where Helm is missing")
    steps.add_parser("krew").add_argument("directory", type=Path)
    steps.add_parser("parts").add_argument("sbom", type=Path)
    steps.add_parser("sums").add_argument("directory", type=Path)
    publishing = steps.add_parser("publish")
    publishing.add_argument("directory", type=Path)
    publishing.add_argument("registry")
    publishing.add_argument("--dry-run", action="store_true", help="print the commands, and run none")
    given = parser.parse_args(words)
    try:
        run_step(given)
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


def run_step(given: argparse.Namespace) -> None:
    """Raises `Wrong`."""
    if given.step == "versions":
        check_versions(given.tag)
    elif given.step == "notes":
        print(notes(given.tag))
    elif given.step == "build":
        build(given.directory)
    elif given.step == "try":
        try_out(given.directory, is_offline=given.here)
    elif given.step == "chart":
        pack_chart(given.directory, is_strict=given.strict)
    elif given.step == "krew":
        write_krew(given.directory)
    elif given.step == "parts":
        check_parts(json.loads(given.sbom.read_text()))
    elif given.step == "sums":
        write_sums(given.directory)
    else:
        publish(given.directory, given.registry, is_dry=given.dry_run)


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return what it printed. Raises `Wrong` with its words."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Wrong(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


# -- versions ---------------------------------------------------------------------------------------------------------


def version() -> str:
    """The version of the scheduler."""
    return str(project("packages/scheduler")["version"])


def project(directory: str) -> dict[str, Any]:
    """The table `project` of a `pyproject.toml`."""
    found: dict[str, Any] = tomllib.loads((ROOT / directory / "pyproject.toml").read_text())["project"]
    return found


PLACES: Sequence[tuple[str, str]] = (
    ("packages/scheduler/src/berth/__init__.py", r'^__version__ = "(.+)"$'),
    ("deploy/helm/berth/Chart.yaml", r"^(?:version|appVersion): (.+)$"),
    ("deploy/kustomize/base/kustomization.yaml", r"newTag: (.+)$"),
    ("deploy/kustomize/components/page/kustomization.yaml", r"newTag: (.+)$"),
    ("deploy/kubeadm/kube-scheduler.yaml", r"image: berth-scheduler:(.+)$"),
    ("deploy/plugins/Dockerfile", r"^ARG BERTH_IMAGE=\S+:(\S+)$"),
    ("docs/operations.md", r"docker build [^\n`]*--tag \S+:([\w.]+)"),
    ("docs/plugins-in-production.md", r"docker build [^\n`]*--tag \S+:([\w.]+)"),
)
"""Where else the version stands, and the words around it."""


def named_versions() -> Iterator[tuple[str, str]]:
    """Yield each place and the version that it names."""
    for directory in DISTRIBUTIONS.values():
        path = f"{directory}/pyproject.toml"
        yield path, project(directory)["version"]
        # A house names the others in its own version.
        yield from (
            (path, each) for each in re.findall(r'"berth-[a-z]+(?:\[\w+\])?==(.+?)"', (ROOT / path).read_text())
        )
    for path, words in PLACES:
        found = re.findall(words, (ROOT / path).read_text(), re.MULTILINE)
        if not found:
            raise Wrong(f"{path} names no version any more")
        yield from ((path, each) for each in found)


def check_versions(tag: str) -> None:
    """Raise `Wrong` where two places differ, or where a tag is not that of the version."""
    wanted = version()
    if others := sorted({f"{path} says {named}" for path, named in named_versions() if named != wanted}):
        raise Wrong(f"packages/scheduler/pyproject.toml says {wanted}, but {', '.join(others)}")
    if tag and tag != f"v{wanted}":
        raise Wrong(f"the tag is {tag}, and the version {wanted}")
    if tag:
        notes(tag)
    print(f"version {wanted}, everywhere the same")


def notes(tag: str = "") -> str:
    """The section of CHANGELOG.md about a version, by default the one that comes next. Raises `Wrong`."""
    wanted = tag.removeprefix("v") or version()
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## \[{re.escape(wanted)}\].*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise Wrong(f"CHANGELOG.md says nothing about {wanted}")
    return found[1].strip()


# -- Python -----------------------------------------------------------------------------------------------------------


def build(directory: Path) -> None:
    """Write wheels and sdists, twice, and compare them. Raises `Wrong`."""
    directory = directory.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as again:
        for target in (directory, Path(again)):
            for source in DISTRIBUTIONS.values():
                build_wheel(ROOT / source, target)
                run(sys.executable, "-c", BUILD_SDIST, target, cwd=ROOT / source)
        for path in sorted(directory.iterdir()):
            if path.read_bytes() != (Path(again) / path.name).read_bytes():
                raise Wrong(f"{path.name} is not the same when it is built again")
            print(path.name)


BUILD_SDIST = "import sys; from flit_core.buildapi import build_sdist; build_sdist(sys.argv[1])"


def build_wheel(source: Path, directory: Path) -> None:
    """Write the wheel of the house in `source`. Raises `Wrong`."""
    run(sys.executable, "-m", "flit_core.wheel", "--outdir", directory, source)


def built(directory: Path, name: str, ending: str) -> Path:
    """The file of a distribution in this version. Raises `Wrong`."""
    found = list(directory.resolve().glob(f"{name}-[0-9]*{ending}"))
    if [path.name.startswith(f"{name}-{version()}") for path in found] != [True]:
        raise Wrong(f"{directory} holds {[path.name for path in found]}, and not one {name}-{version()}…{ending}")
    return found[0]


class Environment:
    """An environment with nothing but what is installed into it, without pip of its own."""

    def __init__(self, place: Path) -> None:
        """Make it."""
        self.directory = place
        self.python = place / "bin/python"
        run(sys.executable, "-m", "venv", "--without-pip", place)

    def install(self, *words: object) -> None:
        """Install as the images do."""
        run(sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", *words)

    def borrow(self) -> None:
        """Let it import what this Python has installed, where no index can be reached."""
        (site,) = (self.directory / "lib").glob("python*/site-packages")
        paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(paths)))

    def berth(self, *words: str) -> str:
        """Run the installed command, far from the sources."""
        return run(self.directory / "bin/berth", *words, cwd=self.directory, PYTHONPATH="", NO_COLOR="1")


def try_out(directory: Path, *, is_offline: bool) -> None:
    """Install the wheels in an empty environment and run them. Raises `Wrong`."""
    with tempfile.TemporaryDirectory() as place:
        environment = Environment(Path(place) / "environment")
        if is_offline:
            environment.borrow()
        else:
            environment.install(
                "--require-hashes", "--only-binary", ":all:", "--requirement", ROOT / "requirements.lock"
            )
        # What is borrowed is somebody else's: it is neither taken for what is to be installed, nor removed.
        without_index = ("--no-index", "--no-deps", "--ignore-installed")
        environment.install(*without_index, *houses(directory))
        said = environment.berth("--version")
        expect(said.startswith(f"berth {version()} "), f"berth --version says {said}")
        expect("demo" in environment.berth("demo", "--help"), "berth demo --help says nothing")
        where = run(environment.python, "-c", "import berth; print(berth.__file__)", cwd=Path(place), PYTHONPATH="")
        expect(where.startswith(str(environment.directory)), f"berth is taken from {where}")
        environment.install(*without_index, built(directory, GUESTS, ".whl"))
        check_plugins(json.loads(environment.berth("plugins", "-o", "json")))
    for name in DISTRIBUTIONS:
        check_sdist(directory, name)
    print("the wheels install, and run")


def houses(directory: Path) -> list[Path]:
    """The wheels of all that an image has: of every house but the guests'."""
    return [built(directory, name, ".whl") for name in DISTRIBUTIONS if name != GUESTS]


def check_plugins(told: list[dict[str, Any]]) -> None:
    """Raise `Wrong` unless every plugin of the guests is listed, and works."""
    listed = {each["name"]: each for each in told}
    for name in project(DISTRIBUTIONS[GUESTS])["entry-points"]["berth.plugins"]:
        expect(name in listed, f"berth plugins does not list {name}")
        expect(listed[name]["healthy"], f"{name}: {listed[name]['problems']}")


def check_sdist(directory: Path, name: str) -> None:
    """Raise `Wrong` unless the wheel made from the sdist is the wheel beside it."""
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(built(directory, name, ".tar.gz")) as packed:
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.2 has it not
            packed.extractall(place, **safely)
        (source,) = Path(place).iterdir()
        build_wheel(source, Path(place))
        wheel = built(directory, name, ".whl")
        expect((Path(place) / wheel.name).read_bytes() == wheel.read_bytes(), f"{name}: sdist and wheel differ")


def expect(is_so: object, otherwise: str) -> None:
    """Raise `Wrong`."""
    if not is_so:
        raise Wrong(otherwise)


# -- chart, parts, sums -----------------------------------------------------------------------------------------------


def helm() -> str | None:
    """Where Helm is: `$HELM`, or on the path."""
    return os.environ.get("HELM") or shutil.which("helm")


def pack_chart(directory: Path, *, is_strict: bool) -> None:
    """Pack the chart and read the package. Raises `Wrong`."""
    program = helm()
    if program is None:
        if is_strict:
            raise Wrong("Helm is missing: the chart is not packed")
        print("NOT PACKED: Helm is missing")
        return
    directory.mkdir(parents=True, exist_ok=True)
    run(program, "lint", "--strict", CHART)
    run(program, "package", CHART, "--destination", directory)
    packed = directory / f"berth-{version()}.tgz"
    monitored = run(program, "template", "berth", packed, "--set", "monitoring.dashboard=true,ui.enabled=true")
    expect("berth.json" in monitored and "berth-page-viewer" in monitored, "the packed chart lacks something")
    print(packed.name)


def write_krew(directory: Path) -> None:
    """Write krew's manifest of the plugin and the archive that it names. Raises `Wrong`."""
    import yaml

    sys.path.insert(0, str(Path(__file__).parent))
    import krew

    packed = krew.archive(ROOT)
    document = krew.manifest(version(), packed)
    wrong = list(krew.problems(krew.NAME, document))
    expect(not wrong, f"krew would not take the plugin: {'; '.join(wrong)}")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / krew.ARCHIVE).write_bytes(packed)
    (directory / f"{krew.NAME}.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    print(f"{krew.NAME}.yaml and {krew.ARCHIVE}")


def check_parts(document: Mapping[str, Any]) -> None:
    """Raise `Wrong` unless this is CycloneDX that names Berth and every package of the lock, by package URL.

    Where cyclonedx-python-lib is installed, as it is for `make sbom`, its schema has to hold, too.
    """
    about = document["metadata"]["component"]
    expect(document.get("bomFormat") == "CycloneDX", "this is no CycloneDX document")
    expect((about["name"], about["version"]) == ("berth-scheduler", version()), f"it is about {about['name']}")
    text = (ROOT / "requirements.lock").read_text()
    locked = {(normalised(name), pinned) for name, pinned in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}
    listed = {(normalised(each["name"]), each["version"]) for each in document["components"]}
    # A name may be locked in two versions, for different Pythons.
    missing = {name for name, _ in locked} - {name for name, _ in listed & locked}
    expect(not missing, f"it does not name {', '.join(sorted(missing))} as locked")
    for each in document["components"]:
        expect(each.get("purl", "").startswith("pkg:pypi/"), f"{each['name']} has no package URL")
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError:
        print("the schema is not looked at: cyclonedx-python-lib is missing")
    else:
        told = JsonStrictValidator(SchemaVersion.from_version(document["specVersion"])).validate_str(
            json.dumps(document)
        )
        expect(told is None, f"the schema does not hold: {told}")
    print(f"{len(listed)} parts")


def normalised(name: str) -> str:
    """Return a name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def write_sums(directory: Path) -> None:
    """Write SHA256SUMS as `sha256sum --check` reads it."""
    files = sorted(path for path in directory.iterdir() if path.name != "SHA256SUMS" and path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (directory / "SHA256SUMS").write_text("".join(lines))
    print(f"SHA256SUMS of {len(lines)} files")


# -- publishing -------------------------------------------------------------------------------------------------------


def publish(directory: Path, registry: str, *, is_dry: bool) -> None:
    """Push images and chart, and sign them and the files. Raises `Wrong`.

    Logging in, and the identity that signs, are the caller's: `docker login`, `helm registry login`, OpenID Connect.
    What was pushed is written to `published.json` by name and digest, for what attests to it.
    """
    digests = {}
    for name in IMAGES:
        metadata = directory / f"{name}.metadata.json"
        command = image_command(name, registry, metadata)
        carry_out(command, is_dry=is_dry)
        digest = "sha256:…" if is_dry else json.loads(metadata.read_text())["containerimage.digest"]
        metadata.unlink(missing_ok=True)
        digests[f"{registry}/{name}"] = digest
    chart = directory / f"berth-{version()}.tgz"
    said = carry_out([helm() or "helm", "push", str(chart), f"oci://{registry}/charts"], is_dry=is_dry)
    digests[f"{registry}/charts/berth"] = "sha256:…" if is_dry else pushed_digest(said)
    for name, digest in digests.items():
        carry_out(["cosign", "sign", "--yes", f"{name}@{digest}"], is_dry=is_dry)
    for name in IMAGES:
        place = f"{registry}/{name}"
        if IMAGES[name] == "requirements.lock":
            parts = ["--type", "cyclonedx", "--predicate", str(directory / "sbom.cdx.json")]
            carry_out(["cosign", "attest", "--yes", *parts, f"{place}@{digests[place]}"], is_dry=is_dry)
    for path in sorted(each for each in directory.glob("*") if each.suffix != ".sigstore"):
        bundle = f"{path}.sigstore"
        carry_out(["cosign", "sign-blob", "--yes", "--bundle", bundle, str(path)], is_dry=is_dry)
    if not is_dry:
        (directory / "published.json").write_text(json.dumps(digests, indent=1) + "\n")


def image_command(name: str, registry: str, metadata: Path) -> list[str]:
    """Build one image for all platforms and push it, with provenance and a list of parts in the registry."""
    tag = f"{registry}/{name}:{version()}"
    return [
        "docker", "buildx", "build", "--platform", PLATFORMS, "--build-arg", f"LOCK={IMAGES[name]}",
        "--provenance", "mode=max", "--sbom", "true", "--metadata-file", str(metadata),
        "--tag", tag, "--push", str(ROOT),
    ]  # fmt: skip


def pushed_digest(said: str) -> str:
    """The digest that `helm push` tells. Raises `Wrong`."""
    found = re.search(r"^Digest: (sha256:[0-9a-f]{64})$", said, re.MULTILINE)
    if found is None:
        raise Wrong(f"helm push told no digest:\n{said}")
    return found[1]


def carry_out(command: Sequence[str], *, is_dry: bool) -> str:
    """Print a command, and run it unless this is for show."""
    print("$", *command, flush=True)
    return "" if is_dry else run(*command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
