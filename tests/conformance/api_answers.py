"""Plays recorded requests on an empty API server in process, and says where its answers are not those of the record.

PYTHONPATH=. python -m tests.conformance.api_answers            # what differs, by group
PYTHONPATH=. python -m tests.conformance.api_answers 'Pod up'   # and how, in the groups whose name begins so
"""

import asyncio
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from berth_cluster.apimachinery.releases import release
from berth_cluster.serving.access import ClusterAuthenticator
from berth_cluster.serving.app import Application
from packages.cluster.tests.objects import make_store

RECORDS = Path(__file__).parent / "api" / "v1.36.jsonl.gz"
TOKEN = "secret"
# What no two servers have in common, at any depth.
DROPPED = frozenset({"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "lastTransitionTime",
                     "managedFields", "selfLink", "remainingItemCount"})  # fmt: skip
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

Json = Any


class Answer(NamedTuple):
    """What the server answered to one request, normalised."""

    status: int
    body: Json
    warnings: list[str]


class Outcome(NamedTuple):
    """One record, and where the answer differs from it: path, recorded, answered."""

    record: dict[str, Any]
    answer: Answer
    differences: list[tuple[str, Json, Json]]


def records(path: Path = RECORDS) -> list[dict[str, Any]]:
    """The recorded requests in their order, with what was answered."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def normalised(value: Json) -> Json:
    """A value without what no two servers have in common."""
    if isinstance(value, dict):
        return {key: normalised(part) for key, part in value.items() if key not in DROPPED}
    if isinstance(value, list):
        return [normalised(part) for part in value]
    return TIME.sub("TIME", UUID.sub("UID", value)) if isinstance(value, str) else value


def differing(wanted: Json, found: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Where two values differ; a part that is not there is None."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            if key not in wanted or key not in found:
                yield f"{path}.{key}", wanted.get(key), found.get(key)
            else:
                yield from differing(wanted[key], found[key], f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, pair in enumerate(zip(wanted, found, strict=True)):
            yield from differing(*pair, f"{path}[{number}]")
    elif wanted != found or isinstance(wanted, bool) is not isinstance(found, bool):
        yield path, wanted, found


async def _ask(app: Application, record: dict[str, Any]) -> Answer:
    headers = CIMultiDict({"Authorization": f"Bearer {TOKEN}", "User-Agent": "Python-urllib/3.12"})
    for key, header in (("contentType", "Content-Type"), ("accept", "Accept")):
        if record.get(key):
            headers[header] = record[key]
    payload = StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**16)
    if record.get("body") is not None:
        body = record["body"]
        payload.feed_data((body if isinstance(body, str) else json.dumps(body)).encode())
    payload.feed_eof()
    request = make_mocked_request(record["method"], record["path"], headers, payload=payload)
    response = await app(request)
    body = json.loads(response.body)  # type: ignore[attr-defined]
    return Answer(response.status, normalised(body), response.headers.getall("Warning", []))


async def play(asked: Iterable[dict[str, Any]]) -> list[Outcome]:
    """Put the recorded requests to an empty server, one after another."""
    app = Application(make_store(uid_factory=None), ClusterAuthenticator(TOKEN, {}), release(), lambda _request: True)
    outcomes = []
    for record in asked:
        answer = await _ask(app, record)
        found = [] if record["status"] == answer.status else [("status", record["status"], answer.status)]
        if not record.get("unstable"):
            found += differing(record["answer"], answer.body)
            if record.get("warnings", []) != answer.warnings:
                found.append(("warnings", record.get("warnings"), answer.warnings))
        outcomes.append(Outcome(record, answer, found))
    return outcomes


def shares(outcomes: list[Outcome]) -> tuple[float, float]:
    """Which part of the statuses, and of the whole answers, are those of the record."""
    statuses = sum(one.record["status"] == one.answer.status for one in outcomes)
    return statuses / len(outcomes), sum(not one.differences for one in outcomes) / len(outcomes)


def main(group: str = "") -> None:
    """Print the shares, what differs by group, and of some groups how."""
    outcomes = asyncio.run(play(records()))
    for one in outcomes:
        if group and one.differences and one.record["group"].startswith(group):
            record = one.record
            print(f"{record['group']}: {record['method']} {record['path']} {json.dumps(record.get('body'))}")
            for path, wanted, found in one.differences:
                print(f"    {path}: {json.dumps(wanted)[:500]} | {json.dumps(found)[:500]}")
    wrong = Counter(one.record["group"] for one in outcomes if one.differences)
    for name, number in wrong.most_common():
        print(f"{number:4} {name}")
    print("statuses {:.1%}, whole answers {:.1%}".format(*shares(outcomes)))


if __name__ == "__main__":
    main(*sys.argv[1:])
