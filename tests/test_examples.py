"""The examples run, and what they print is so."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def printed(name, capsys):
    """What an example prints, line by line."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_embedded(capsys):
    lines = printed("embedded.py", capsys)
    assert any(line.startswith("default/web goes to large") for line in lines), "the emptier node is preferred"
    assert any(line.startswith("default/database goes to small") for line in lines), "only that one has the label"
    assert "    large: NodeAffinity: node(s) didn't match Pod's node affinity/selector" in lines
    assert lines[-1] == "{'default/web': 'large', 'default/database': 'small', 'default/too-large': None}"


def test_capacity(capsys):
    """A node of 8 CPUs takes 4 replicas; a zone may have 4 more than the one with fewest.

    Zone c is full with 4, so the others take 8 each: 20. With a second node in c they are 8, 8 (zone b is full) and 12.
    """
    lines = printed("capacity.py", capsys)
    assert lines[0].startswith("20 replicas fit: ")
    assert "node(s) didn't match pod topology spread constraints" in lines[1]
    assert lines[2:] == [
        "one more node in zone a: 0 more replicas",
        "one more node in zone b: 0 more replicas",
        "one more node in zone c: 8 more replicas",
    ]
