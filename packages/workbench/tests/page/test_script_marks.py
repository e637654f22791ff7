"""Scripts of templates are marked, whatever they are; those that come with data are not."""

import re

import pytest
from jinja2 import DictLoader, Environment

from berth_workbench.page.script_marks import mark_scripts, new_mark


def test_a_script_of_the_template_is_marked_and_one_of_the_data_is_not():
    environment = Environment(loader=DictLoader({"page": "<script type='x'>1</script>{{ data | safe }}"}))
    assert "nonce" not in environment.get_template("page").render()  # is kept in a cache
    for mark in ("first", "second"):
        mark_scripts(environment, mark)
        shown = environment.get_template("page").render(data="<script>smuggled()</script>")
        assert shown == f"<script nonce=\"{mark}\" type='x'>1</script><script>smuggled()</script>"


def test_every_script_of_niceguis_own_template_is_marked():
    templates = pytest.importorskip("nicegui.client").templates
    mark = new_mark()
    mark_scripts(templates.env, mark)
    source = templates.env.loader.get_source(templates.env, "index.html")[0]
    tags = re.findall(r"<script[^>]*>", source)
    assert len(tags) > 3 and all(f'nonce="{mark}"' in tag for tag in tags)
