"""When pods end by their deadlines, as their documents and those of their Jobs say."""

import json

from berth_workbench.planning.ends import KnownEnds
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot


def test_deadlines_in_words():
    started = {"startTime": "2026-11-22T10:00:00Z"}
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "x"}, "spec": {"activeDeadlineSeconds": 60},
           "status": started}  # fmt: skip
    waiting = {"kind": "Pod", "metadata": {"name": "w", "namespace": "x"}, "spec": {"activeDeadlineSeconds": 60}}
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "x"}, "spec": {"activeDeadlineSeconds": 3600},
           "status": started}  # fmt: skip
    owner = {"kind": "Job", "name": "j", "controller": True}
    owned = {"kind": "Pod", "metadata": {"name": "b", "namespace": "x", "ownerReferences": [owner]}}
    elsewhere = {**owned, "metadata": {**owned["metadata"], "namespace": "y"}}
    text = json.dumps({"kind": "List", "items": [pod, waiting, job, owned, elsewhere]}).encode()
    snapshot = Snapshot(list(parse_documents(text, "a test")))
    pods = [each for each in snapshot.structs() if type(each).__name__ == "Pod"]
    assert KnownEnds(snapshot.documents).in_words(pods) == {
        "x/a": "at 2026-11-22T10:01:00+00:00 at the latest",
        "x/b": "at 2026-11-22T11:00:00+00:00 at the latest",
    }
