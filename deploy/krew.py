"""The plugin manifest for krew, kubectl's plugin manager, and the archive that it names.

The archive holds a launcher for the Python package, since krew installs programs and no packages. `problems` are the
rules by which krew's index takes a manifest. Source: `ValidatePlugin` of kubernetes-sigs/krew.
"""

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

NAME = "berth"
ARCHIVE = "kubectl-berth.tar.gz"
HOME = "https://github.com/berth-scheduler/berth"
_FILES = ("deploy/krew/kubectl-berth", "LICENSE")
_SYSTEMS = ("linux", "darwin")


def manifest(version: str, archive: bytes) -> dict[str, Any]:
    """Return the manifest of a version."""
    uri = f"{HOME}/releases/download/v{version}/{ARCHIVE}"
    digest = hashlib.sha256(archive).hexdigest()
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{version}",
            "homepage": HOME,
            "shortDescription": "Why pods are where they are, what would help, what if",
            "description": "Asks the scheduler of a cluster, in memory: why pods are pending and what would help,\n"
            "what happens if a node is drained or a zone is lost, whether a pull request fits.\n",
            "caveats": f"The Python package berth-scheduler has to be installed: {HOME}\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system}},
                    "uri": uri,
                    "sha256": digest,
                    "bin": "./kubectl-berth",
                    "files": [{"from": Path(name).name, "to": "."} for name in _FILES],
                }
                for system in _SYSTEMS
            ],
        },
    }


def archive(root: Path) -> bytes:
    """Return the archive, the same bytes each time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as files:
        for name in _FILES:
            content = (root / name).read_bytes()
            entry = tarfile.TarInfo(Path(name).name)
            entry.size, entry.mode = len(content), 0o755 if name.startswith("deploy/") else 0o644
            files.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def problems(name: str, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what krew would say against a manifest in a file of this name."""
    spec = document.get("spec") or {}
    if document.get("apiVersion") != "krew.googlecontainertools.github.com/v1alpha2":
        yield "apiVersion is not that of krew"
    if document.get("kind") != "Plugin":
        yield "kind is not Plugin"
    if re.fullmatch(r"[A-Za-z0-9_-]+", name) is None:
        yield f"the name {name!r} is not allowed"
    if (document.get("metadata") or {}).get("name") != name:
        yield f"the plugin should be named {name!r}, as its file"
    short = spec.get("shortDescription") or ""
    if not short or set(short) & {"\r", "\n"}:
        yield "shortDescription is one line, and has to be there"
    if re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", spec.get("version") or "") is None:
        yield "version is not v and a semantic version"
    if not spec.get("platforms"):
        yield "there should be a platform"
    for number, platform in enumerate(spec.get("platforms") or ()):
        yield from (f"platforms[{number}]: {said}" for said in _problems_of(platform))


def _problems_of(platform: Mapping[str, Any]) -> Iterator[str]:
    for field in ("uri", "sha256", "bin"):
        if not platform.get(field):
            yield f"{field} has to be set"
    if re.fullmatch(r"[a-f0-9]{64}", platform.get("sha256") or "") is None:
        yield "sha256 is not 64 hexadecimal digits"
    files = platform.get("files")
    if files is not None and not (files and all(each.get("from") and each.get("to") for each in files)):
        yield "files has to be left out, or to say from and to of each"
    selector = platform.get("selector") or {}
    keys = [*(selector.get("matchLabels") or {}), *(each["key"] for each in selector.get("matchExpressions") or ())]
    if not keys or set(keys) - {"os", "arch"}:
        yield "selector has to choose by os and arch"
