"""Where the core currently is: which plugin, at which extension point, for which pod, and at which line of code.

Read from the frames of the working thread while it runs, and only on demand, so that the main path pays nothing. What
cannot be determined is left empty.
"""

import traceback
from collections.abc import Iterable, Mapping
from itertools import dropwhile
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple

from berth.core.intake import ObjectEvent
from berth.engine.profile import Profile
from berth.framework.blame import is_in_tree, place_among, place_in
from berth.framework.loaded import FORMS
from berth.queue.hints import Registered
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

HINT, POD_EVENT = "QueueingHint", "PodEvent"
POINT_OF_METHOD: Mapping[str, str] = MappingProxyType(
    {
        method: form.point.value[0].upper() + form.point.value[1:]
        for form in FORMS.values()
        if form.point is not None
        for method in form.methods
    }
    | dict.fromkeys((*FORMS["pod_events"].methods, *FORMS["pod_updates"].methods), POD_EVENT)
)
"""The extension point of each method of a plugin, or what stands for one."""


class WorkPosition(NamedTuple):
    """Where work is; each part may be empty."""

    plugin: str = ""
    point: str = ""
    subject: str = ""
    """The pod that it is about, or the object that is taken in."""
    place: str = ""
    """File and line."""
    stack: str = ""
    """The whole stack, the innermost call last."""
    is_in_tree: bool = False
    """Whether the plugin is one of Berth's own."""

    def describe(self) -> str:
        """Return it in words, without the stack."""
        who = f"plugin {self.plugin}" if self.plugin else "the scheduler itself"
        point = f" at {self.point}" if self.point else ""
        subject = f" for {self.subject}" if self.subject else ""
        place = f" ({self.place})" if self.place else ""
        return f"{who}{point}{subject}{place}"


def position_of(frame: FrameType, profiles: Iterable[Profile]) -> WorkPosition:
    """Return the position of the work with this innermost frame."""
    loaded_plugins = [loaded for profile in profiles for loaded in profile.plugins]
    names = {id(loaded.plugin): loaded.name for loaded in loaded_plugins}
    in_tree = {loaded.name for loaded in loaded_plugins if is_in_tree(type(loaded.plugin).__module__)}
    walk = list(dropwhile(_is_outside, list(traceback.walk_stack(frame))[::-1])) or [(frame, frame.f_lineno)]
    plugin = point = subject = ""
    for outer, _ in walk:
        seen = dict(outer.f_locals)
        if (name := names.get(id(seen.get("self")))) is not None and outer.f_code.co_name in POINT_OF_METHOD:
            plugin, point = name, POINT_OF_METHOD[outer.f_code.co_name]
        elif isinstance(registered := seen.get("registered"), Registered):
            plugin, point = registered.plugin, HINT
        subject = _subject(seen) or subject
    last, line = walk[-1]
    place = place_among(walk) or place_in(last.f_code.co_filename, str(last.f_globals.get("__name__", "")), line)
    stack = "".join(traceback.format_list(traceback.StackSummary.extract(walk)))
    return WorkPosition(plugin, point, subject, place, stack, plugin in in_tree)


def _is_outside(step: tuple[FrameType, int]) -> bool:
    """Whether a frame is outside of the scheduler: the thread's own first calls are."""
    return not str(step[0].f_globals.get("__name__", "")).startswith("berth.")


def _subject(seen: Mapping[str, Any]) -> str:
    """Return what a frame is about; frames further in know better, since an object may wake a pod, and that another."""
    pod, queued, event = seen.get("pod"), seen.get("queued"), seen.get("event")
    if isinstance(pod, PodInfo):
        return f"pod {pod.key}"
    if isinstance(queued, QueuedPod):
        return f"pod {queued.pod.key}"
    if isinstance(event, ObjectEvent):
        meta = event.obj.metadata
        return f"{event.kind} {meta.namespace}/{meta.name}" if meta.namespace else f"{event.kind} {meta.name}"
    return ""
