"""Changed code of plugins is loaded afresh, with all that belongs to it and nothing else; and it can be put back.

Expectations are those of docs/living-with-plugins.md.
"""

import os
import sys

import pytest

from berth.config.errors import ConfigError
from berth.framework.loader import plugins_named
from berth.framework.plugin_code import PluginCode

PLUGIN = """
{imports}
class {name}:
    name = "{name}"
    says = {says}
    def __init__(self, args, handle):
        pass
    def filter(self, state, pod, node):
        return None
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory for plugins; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write(path, name="Racks", says=1, imports=""):
    path.parent.mkdir(exist_ok=True)
    path.write_text(PLUGIN.format(name=name, says=says, imports=imports))


def code_of(*names):
    def load():
        return plugins_named(names)

    return PluginCode(load(), load)


def says(code, name="Racks"):
    return code.registry.factory(name).says


def reload(code, *names):
    loaded = code.load(names)
    loaded.keep()
    return loaded


@pytest.mark.parametrize("named", ["racks:Racks", "{}/racks.py:Racks"])
def test_what_has_changed_is_loaded_and_the_old_class_lives_on(place, named):
    write(place / "racks.py")
    code = code_of(named.format(place))
    old = code.registry.factory("Racks")
    assert not code.has_changed(["Racks"])
    write(place / "racks.py", says=2)
    assert code.has_changed(["Racks"])
    assert says(code) == 1
    assert reload(code, "Racks").changed == ("racks",)
    assert (says(code), old.says) == (2, 1)
    assert sys.modules["racks"].Racks is code.registry.factory("Racks")
    assert not code.has_changed(["Racks"])


def test_a_change_of_the_same_length_within_the_same_second_is_seen(place):
    file = place / "racks.py"
    write(file)
    os.utime(file, (1_000_000_000, 1_000_000_000))
    code = code_of("racks:Racks")
    for number in (2, 3, 4):
        write(file, says=number)
        os.utime(file, (1_000_000_000, 1_000_000_000))
        reload(code, "Racks")
        assert says(code) == number


def test_what_has_not_changed_stays_the_same_object(place):
    write(place / "racks.py")
    write(place / "seats.py", name="Seats")
    code = code_of("racks:Racks", "seats:Seats")
    seats = code.registry.factory("Seats")
    write(place / "racks.py", says=2)
    reload(code, "Racks", "Seats")
    assert says(code) == 2
    assert code.registry.factory("Seats") is seats


def test_code_of_plugins_that_are_not_enabled_is_left_alone(place):
    write(place / "racks.py")
    code = code_of("racks:Racks")
    old = code.registry.factory("Racks")
    write(place / "racks.py", says=2)
    assert not code.has_changed([])
    assert reload(code).changed == ()
    assert code.registry.factory("Racks") is old
    reload(code, "Racks")
    assert says(code) == 2, "the change is not forgotten, either"


def test_a_package_is_loaded_as_a_whole(place):
    write(place / "racking" / "plugin.py", imports="from racking.rules import LIMIT", says="LIMIT")
    (place / "racking" / "__init__.py").write_text("from racking.plugin import Racks\n")
    (place / "racking" / "rules.py").write_text("LIMIT = 1\n")
    code = code_of("racking:Racks")
    assert says(code) == 1
    (place / "racking" / "rules.py").write_text("LIMIT = 2\n")
    assert reload(code, "Racks").changed == ("racking", "racking.plugin", "racking.rules")
    assert says(code) == 2


def test_a_module_beside_a_file_belongs_to_it_and_nothing_else_does(place):
    (place / "rules.py").write_text("import json\nLIMIT = 1\n")
    write(place / "racks.py", imports="import json\nimport berth.plugin\nimport rules", says="rules.LIMIT")
    code = code_of(f"{place}/racks.py:Racks")
    plain, ours = sys.modules["json"], sys.modules["berth.plugin"]
    (place / "rules.py").write_text("import json\nLIMIT = 2\n")
    assert reload(code, "Racks").changed == ("racks", "rules")
    assert says(code) == 2
    assert (sys.modules["json"], sys.modules["berth.plugin"]) == (plain, ours)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("class Racks(:\n", "SyntaxError in line 1"),
        ("raise RuntimeError('not today')\n", "RuntimeError: not today"),
        ("", "has no class Racks"),
        ("class Racks:\n    name = 'Racks'\n    async def filter(self, state, pod, node): ...\n", "async def"),
    ],
)
def test_code_that_cannot_be_used_leaves_everything_as_it_was(place, text, complaint):
    (place / "rules.py").write_text("LIMIT = 1\n")
    write(place / "racks.py", imports="import rules", says="rules.LIMIT")
    code = code_of("racks:Racks")
    old, modules = code.registry, {name: sys.modules[name] for name in ("racks", "rules")}
    (place / "racks.py").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        code.load(["Racks"])
    assert code.registry is old
    assert {name: sys.modules[name] for name in modules} == modules
    write(place / "racks.py", imports="import rules", says=3)
    reload(code, "Racks")
    assert says(code) == 3


def test_what_was_kept_can_be_undone_and_tried_again(place):
    write(place / "racking" / "plugin.py")
    (place / "racking" / "__init__.py").write_text("from racking.plugin import Racks\n")
    code = code_of("racking:Racks")
    old = code.registry.factory("Racks")
    write(place / "racking" / "plugin.py", imports="import racking.more", says=2)
    (place / "racking" / "more.py").write_text("")
    loaded = reload(code, "Racks")
    assert "racking.more" in sys.modules
    loaded.undo()
    assert code.registry.factory("Racks") is old is sys.modules["racking"].Racks is sys.modules["racking.plugin"].Racks
    assert sys.modules["racking"].plugin is sys.modules["racking.plugin"]
    assert "racking.more" not in sys.modules
    assert code.has_changed(["Racks"]), "somebody may say so again"
    reload(code, "Racks")
    assert says(code) == 2
