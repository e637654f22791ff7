"""Makes what is bounded small, so that tests need not fill it: numbers of things, and how much they say."""

import gc

import berth.engine.columns
import berth.plugins.dra.devices
import berth.plugins.preemption.ranked_pods
import berth.plugins.resources.columns
import berth.plugins.volumes.node_rows
import berth.state.label_index
import berth.state.objects
import berth.state.pod_index
import berth.state.topology
import berth.state.views
from berth.api.recent import Recent
from berth.api.shared_parts import RecentParts
from berth.cycle.decision import Trace
from berth.state.change_log import ChangeLog
from berth.state.views import VIEW_BYTES, Memory

NUMBERS = (
    (berth.engine.columns, "JOURNAL_AT_MOST"),
    (berth.plugins.dra.devices, "MAX_VERDICTS"),
    (berth.plugins.preemption.ranked_pods, "MAX_RESOURCES"),
    (berth.plugins.resources.columns, "MAX_COLUMNS"),
    (berth.state.label_index, "MAX_COLUMNS"),
    (berth.state.label_index, "SPARE_IDS"),
    (berth.state.objects, "CHANGES_KEPT"),
    (berth.state.pod_index, "SPARE_TERMS"),
    (berth.state.topology, "MAX_SUMS"),
    (berth.state.views, "YOUNG_BYTES"),
)
"""Bounds on the number of things that are themselves small, whatever objects say."""


def lower_numbers(monkeypatch, number):
    """Lower the bounds that are read each time."""
    for module, name in NUMBERS:
        monkeypatch.setattr(module, name, number)


def lower_numbers_of_parts(number):
    """Lower the bounds that parts of a core keep for themselves; to be called once it is made."""
    for part in gc.get_objects():
        if isinstance(part, Recent):
            part.at_most = number
        elif isinstance(part, ChangeLog):
            part._keep = number
        elif isinstance(part, Memory):
            part.max_bytes = number * VIEW_BYTES
            part.turn += 1000  # Python holds small numbers anyway: as they give way to larger ones, blocks would grow


def lower_sizes_of_parts():
    """Have each store keep one thing only, since each is larger than all that it may keep."""
    for part in gc.get_objects():
        if isinstance(part, Recent | RecentParts | Trace):
            part.bytes_at_most = 0
        elif isinstance(part, Memory):
            part.max_bytes = 0
