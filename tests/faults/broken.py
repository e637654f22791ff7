"""An extender and a plugin that break when a history tells them to."""

import asyncio

import aiohttp
import msgspec

from berth.extender.client import ExtenderClient
from berth.framework.effects import ExtenderAnswer
from berth.framework.events import NODE_ADD, ClusterEventWithHint, QueueingHint
from berth.framework.status import unschedulable
from tests.waiting import pass_time

GARBAGE = (b"", b"<html>", b"[]", b"null", b'{"NodeNames": 7}', b'{"Error": "no"}', b'{"NodeNames": ["nowhere"]}')


class BrokenExtender(ExtenderClient):
    """Lets every pod go everywhere, in its own good time; it may be told to bind as well."""

    def __init__(self, history, process):
        super().__init__(history.config.extenders)
        self._history, self._process = history, process

    async def _post(self, call, url, where):
        history = self._history
        what, until, chance = history.extender_trouble
        if not (history.sim.now < until and history.rng.random() < chance):
            what = ""
        if what:
            history.harm[f"extender {what}"] += 1
            history.sim.tell("extender", "%s: %s", call.verb, what)
        await pass_time(history.rng.uniform(0.001, 0.05))
        if what == "hang":
            await asyncio.get_running_loop().create_future()
        if what == "error":
            return ExtenderAnswer(error=f"{where}, code 500", is_unknown=True)
        if what == "unreachable":
            return ExtenderAnswer(error=f"{where}: cannot connect")
        if what == "garbage":
            return ExtenderAnswer(history.rng.choice(GARBAGE))
        if what == "slow":
            await pass_time(history.rng.uniform(0.0, 6.0))
        answer = self.answer(call)
        if what == "answer lost":
            raise aiohttp.ServerDisconnectedError
        return ExtenderAnswer(msgspec.json.encode(answer))

    def answer(self, call):
        """What it says when nothing is wrong."""
        asked = msgspec.json.decode(call.body)
        if call.verb == "filter":
            return {"NodeNames": asked["NodeNames"]}
        if call.verb == "prioritize":
            return [{"Host": name, "Score": sum(name.encode()) % 11} for name in asked["NodeNames"]]
        return {"Error": "" if self._process is None else self._history.server.bind_for(self._process, asked)}


def broken_plugin(history):
    """A plugin class that does nothing at each extension point, or raises while it is told to."""

    def at(point, answer=None):
        def method(self, *args):
            until, chance = history.raising.get(point, (0.0, 0.0))
            if history.sim.now < until and history.rng.random() < chance:
                history.harm[f"raised in {point}"] += 1
                raise RuntimeError(f"planned: {point} raises")
            return answer

        return method

    hint = at("hint", QueueingHint.QUEUE)

    class Broken:
        """See above."""

        name = "Broken"

        def __init__(self, args, handle):
            self.book, self.mistold = {}, []

        def pod_added(self, pod):
            if pod.uid in self.book:
                self.mistold.append(f"{pod.key} was added twice")
            self.book[pod.uid] = pod
            _pod_added(self)

        def pod_updated(self, old, new):
            if self.book.get(new.uid) is not old:
                self.mistold.append(f"{new.key} was something else before")
            self.book[new.uid] = new
            _pod_updated(self)

        def pod_removed(self, pod):
            if self.book.pop(pod.uid, None) is not pod:
                self.mistold.append(f"{pod.key} was removed, and had not been there")
            _pod_removed(self)

        def events_to_register(self):
            return (ClusterEventWithHint(NODE_ADD, lambda *args: hint(self, *args)),)

        def pre_enqueue(self, pod):
            return _pre_enqueue(self, pod)

        def pre_filter(self, state, pod):
            return _pre_filter(self, state, pod)

        def filter(self, state, pod, node):
            return _filter(self, state, pod, node)

        def post_filter(self, state, pod, diagnosis):
            return _post_filter(self, state, pod)

        def pre_score(self, state, pod, nodes):
            return _pre_score(self, state, pod)

        def score(self, state, pod, node):
            return _score(self, state, pod)

        def normalize_score(self, state, pod, scores):
            _normalize(self)
            return scores

        def reserve(self, state, pod, node_name):
            return _reserve(self)

        def unreserve(self, state, pod, node_name):
            _unreserve(self)

        def permit(self, state, pod, node_name):
            return _permit(self)

        def pre_bind_pre_flight(self, state, pod, node_name):
            return _pre_flight(self)

        def pre_bind(self, state, pod, node_name):
            return _pre_bind(self)

        def post_bind(self, state, pod, node_name):
            _post_bind(self)

    _pre_enqueue, _pre_filter, _filter = at("pre_enqueue"), at("pre_filter"), at("filter")
    _post_filter, _pre_score, _score = at("post_filter", (None, unschedulable())), at("pre_score"), at("score", 0)
    _normalize, _reserve, _unreserve = at("normalize_score"), at("reserve"), at("unreserve")
    _permit, _pre_flight, _pre_bind = at("permit", (None, 0.0)), at("pre_bind_pre_flight"), at("pre_bind")
    _post_bind = at("post_bind")
    _pod_added, _pod_updated, _pod_removed = at("pod_added"), at("pod_updated"), at("pod_removed")
    return Broken
