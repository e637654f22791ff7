"""Each plugin inherits the Protocols of its points and forms: the type checker holds it to them.

That is no use where it inherits too few; so they are held against the methods that it has.
"""

import pytest

from berth.framework.loaded import FORMS
from berth.framework.registry import fills
from berth.plugins.legacy.registry import with_legacy_plugins
from berth.plugins.registry import in_tree_registry


def registered():
    todays = in_tree_registry()
    registries = (todays, with_legacy_plugins(todays))
    return list(dict.fromkeys(registry.factory(name) for registry in registries for name in registry.names))


@pytest.mark.parametrize("kind", registered(), ids=lambda kind: kind.__name__)
def test_a_plugin_inherits_the_protocol_of_every_point_and_form_that_it_has(kind):
    held = {form.protocol for form in FORMS.values() if form.protocol in kind.__mro__}
    assert held == {form.protocol for form in FORMS.values() if any(fills(kind, each) for each in form.methods)}
