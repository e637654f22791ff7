"""The transport of a scheduler's process in virtual time, with everything that can go wrong between it and the server.

`Wire` is a `berth.kube.transport.Transport`. A request takes its time to the server, has its effect there, and its
answer takes its time back, each of which is a call of the simulation: a process that is paused or killed meanwhile does
not change what the server does. `Trouble` is one thing that goes wrong, for a while, with some of the requests.
"""

import asyncio
import json
from collections import Counter, deque
from contextlib import suppress
from typing import NamedTuple

from berth.api.errors import ApiError, CalledOff, ConnectionLost
from berth.api.resources import Resource
from berth.kube.http.rate_limit import RateLimit, TokenBucket
from berth.kube.transport import always
from berth_cluster.apimachinery.resource_types import resource_type
from berth_cluster.serving.responses import encode
from tests import protobuf

TIMEOUT_S = 30.0
"""How long the HTTP transport waits for an answer; four times as long for a list."""
IDLE_S = 300.0
"""How long it waits for the next line of a watch."""
WRITES = ("create", "update", "patch", "delete", "bind")
RESET = "the connection was reset by the other side"

STATUSES = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    502: "",
    503: "ServiceUnavailable",
    504: "Timeout",
}
UNTRUE = (b"{}", b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}')
"""What is answered to a Binding that was not made."""
GARBAGE = (
    b"",
    b"<html>welcome to the captive portal</html>",
    b"{",
    b"[]",
    b'"ok"',
    b"null",
    b'{"kind":"Status"}',
    b"\xff\xfe",
)


class Trouble(NamedTuple):
    """What goes wrong with requests of these verbs and resources (all where empty) until a moment, and how often."""

    what: str
    verbs: tuple = ()
    plurals: tuple = ()
    until: float = 0.0
    chance: float = 1.0
    detail: object = None

    def concerns(self, verb, plural):
        return (not self.verbs or verb in self.verbs) and (not self.plurals or plural in self.plurals)


class Request(NamedTuple):
    """One request on its way."""

    process: object
    sender: str
    """The life of the process that sent it; it may have ended when the request arrives."""
    verb: str
    plural: str
    name: str
    body: bytes
    act: object
    """Carries it out on a transport."""

    @property
    def is_write(self):
        return self.verb in WRITES

    def names_other_than(self, uid):
        """Whether the deletion is one of another object, by its precondition, so that the server will refuse it."""
        options = json.loads(self.body or b"{}")
        return (options.get("preconditions") or {}).get("uid", uid) != uid

    def __str__(self):
        return f"{self.verb} {self.plural}/{self.name}" if self.name else f"{self.verb} {self.plural}"


class Wire:
    """One process's way to the server; `harm` counts what went wrong."""

    def __init__(self, sim, server, process, rng, harm):
        self.sim, self.server, self.process, self.rng, self.harm = sim, server, process, rng, harm
        self.is_cut = False
        """Nothing gets out or in any more: the process is being killed."""
        self.base_s = rng.uniform(0.0005, 0.01)
        self.has_streaming_lists = rng.random() < 0.5
        self.speaks_protobuf = rng.random() < 0.5
        limit = RateLimit(qps=process.history.plan.qps or -1, burst=4)
        self._turns, self._turns_of_events = (TokenBucket(limit, clock=lambda: sim.now) for _ in range(2))
        self._guard = None
        self.is_called_off = False
        self.requests = 0
        self.under_way, self.most_under_way = Counter(), Counter()
        """Requests that are not answered yet, by verb, and how many there have been at most."""
        self.streams = {}
        """The watches that this process has open."""

    def cut(self):
        """Let nothing out or in any more, as when the process dies."""
        self.is_cut = True
        for stream in tuple(self.streams):
            stream.close()

    def guarded(self, guard):
        """Ask this before each write is sent; a process has one lease here, and so one guard."""
        self._guard = guard
        return self

    def call_off(self):
        """Send no more writes but events and leases, as `HttpTransport`."""
        self.is_called_off = True
        self._turns.open()
        self._turns_of_events.open()

    async def _take_turn(self, verb, resource):
        """Wait, as a client with a rate limit does, for a write's turn; leases are never late."""
        if verb not in WRITES or resource.plural == "leases":
            return
        is_event = resource.plural == "events"
        await (self._turns_of_events if is_event else self._turns).acquire()
        if self.is_called_off and not is_event:
            raise CalledOff("not sent")
        if self._guard is not None:
            self._guard.check()

    # -- the protocol --------------------------------------------------------------------------------------------

    async def list(self, resource, **options):
        body = await self._call("list", resource, "", b"", lambda to: to.list(resource, **options))
        return self._as_asked(body, protobuf.pod_list, **options)

    async def get(self, resource, namespace, name):
        return await self._call("get", resource, name, b"", lambda to: to.get(resource, namespace, name))

    async def read(self, path):
        group, version = [*path.split("/")[2:], ""][:2] if path.startswith("/apis/") else ("", path.split("/")[2])
        asked = Resource(group, version, "", "", namespaced=False)
        return await self._call("read", asked, path, b"", lambda to: to.read(path))

    async def create(self, resource, namespace, body, *, name="", subresource=""):
        verb = "bind" if subresource == "binding" else "create"
        return await self._call(
            verb, resource, name, body,
            lambda to: to.create(resource, namespace, body, name=name, subresource=subresource),
        )  # fmt: skip

    async def update(self, resource, namespace, name, body, *, subresource=""):
        return await self._call(
            "update", resource, name, body,
            lambda to: to.update(resource, namespace, name, body, subresource=subresource),
        )  # fmt: skip

    async def patch(self, resource, namespace, name, body, content_type, *, subresource=""):
        return await self._call(
            "patch", resource, name, body,
            lambda to: to.patch(resource, namespace, name, body, content_type, subresource=subresource),
        )  # fmt: skip

    async def delete(self, resource, namespace, name, body=b""):
        return await self._call("delete", resource, name, body, lambda to: to.delete(resource, namespace, name, body))

    async def bind(self, namespace, name, body, *, wanted=always):
        from tests.faults.server import POD

        return await self._call("bind", POD, name, body, lambda to: to.bind(namespace, name, body), wanted)

    async def close(self):
        pass

    def lag_s(self, plural):
        """How late the watch of a resource is."""
        return self.process.history.plan.lag_s if plural == "pods" else 0.0

    # -- one request ---------------------------------------------------------------------------------------------

    async def _call(self, verb, resource, name, body, act, wanted=always):
        await self._take_turn(verb, resource)
        if not wanted():
            raise CalledOff("not sent")
        request = Request(self.process, self.process.identity, verb, resource.plural, name, body, act)
        self.requests += 1
        self.process.is_about_to_send(request)
        future = asyncio.get_running_loop().create_future()
        if not self.is_cut:
            self._send(request, future)
        self.under_way[verb] += 1
        self.most_under_way[verb] = max(self.most_under_way[verb], self.under_way[verb])
        try:
            return await future
        finally:
            self.under_way[verb] -= 1

    def _send(self, request, future):
        trouble = self._trouble(request.verb, request.plural)
        what = "" if trouble is None else trouble.what
        there_s, back_s = self._delay_s(), self._delay_s()
        if what == "slow":
            longest_s = trouble.detail if isinstance(trouble.detail, float) else 8.0
            there_s, back_s = there_s + self.rng.uniform(0, longest_s), back_s + self.rng.uniform(0, longest_s)
        limit_s = TIMEOUT_S * (4 if request.verb == "list" else 1)
        if what == "request stalled":
            self.sim.after(limit_s, self._give, future, ConnectionLost(f"no answer within {limit_s:g} s"))
        elif what == "refused":
            self.sim.after(there_s, self._give, future, ConnectionLost("cannot connect", sent=False))
        elif what == "request lost":
            self.sim.after(there_s, self._give, future, ConnectionLost(RESET))
        elif what == "error":
            self.sim.after(there_s + back_s, self._give, future, refusal(trouble.detail, self.rng))
        elif what == "untrue":
            self.sim.after(there_s + back_s, self._give, future, self.rng.choice(UNTRUE))
        else:
            self.sim.after(there_s, self._arrive, request, future, trouble, back_s)

    def _arrive(self, request, future, trouble, back_s):
        """The request reaches the server, which carries it out; what it answers may still not come back."""
        what = "" if trouble is None else trouble.what
        try:
            answer = self.server.serve(request)
            if what == "repeated":
                answer = self.server.serve(request)
        except (ApiError, ConnectionLost) as error:
            answer = error
        if request.is_write and request.plural not in ("events", "leases"):
            self.sim.tell("server", "%s from %s: %s", request, request.sender, shown(answer))
        if what == "answer lost":
            answer = ConnectionLost(RESET)
        elif what == "answer stalled":
            answer, back_s = ConnectionLost(f"no answer within {TIMEOUT_S:g} s"), TIMEOUT_S
        elif what == "error after":
            answer = refusal(trouble.detail, self.rng)
        elif what == "garbled" and not isinstance(answer, Exception):
            answer = self.rng.choice((*GARBAGE, (answer or b"")[: len(answer or b"") // 2]))
        self.process.is_after_effect(request)
        self.sim.after(back_s, self._give, future, answer)

    def _give(self, future, answer):
        """The answer, or what the connection's end looks like, reaches the process, if it is still there."""
        if self.is_cut or future.done():
            return
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def _trouble(self, verb, plural):
        for trouble in self.process.troubles:
            if self.sim.now < trouble.until and trouble.concerns(verb, plural) and self.rng.random() < trouble.chance:
                self.harm[trouble.what] += 1
                self.sim.tell("network", "%s %s of %s: %s", verb, plural, self.process.identity, trouble.what)
                return trouble
        return None

    def _delay_s(self):
        return self.base_s * (0.5 + self.rng.random())

    def _as_asked(self, body, write, **asked):
        """An answer in protobuf where that is asked for; what was cut, or is not as its type says, stays as it is."""
        if self.speaks_protobuf and asked.get("protobuf"):
            with suppress(AttributeError, LookupError, TypeError, ValueError):
                return write(body)
        return body

    # -- watches -------------------------------------------------------------------------------------------------

    async def watch(self, resource, *, namespace="", label_selector="", field_selector="", resource_version,
                    allow_bookmarks=True, send_initial_events=False, timeout_s, **asked):  # fmt: skip
        options = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector,
                   "resource_version": resource_version}  # fmt: skip
        self.requests += 1
        if send_initial_events and not self.has_streaming_lists:
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is on")
        stream = Stream(self, resource, options, timeout_s, allow_bookmarks, send_initial_events)
        if not self.is_cut:
            stream.send()
        try:
            while True:
                while stream.lines:
                    yield self._as_asked(stream.lines.popleft(), protobuf.event, **asked)
                if stream.error is not None:
                    raise stream.error
                if stream.has_ended:
                    return
                stream.wake.clear()
                await stream.wake.wait()
        finally:
            stream.close()


class Stream:
    """One watch: what has arrived of it, and how it ends."""

    def __init__(self, wire, resource, options, timeout_s, allow_bookmarks, is_list):
        self.wire, self.resource, self.options, self.timeout_s = wire, resource, options, timeout_s
        self.allow_bookmarks = allow_bookmarks
        self.is_list = is_list
        """Whether the end of what there was at first is still to be told."""
        self.lines = deque()
        self.error = None
        self.has_ended = False
        self.wake = asyncio.Event()
        self._watch = None
        self._is_coming = False
        self._is_closed = self._is_silent = False

    def send(self):
        self.wire.streams[self] = None
        self._later(self.wire._delay_s(), self._open)

    def _later(self, delay_s, act, *args):
        self.wire.sim.after(delay_s, self._unless_over, act, args)

    def _unless_over(self, act, args):
        if not (self._is_closed or self.wire.is_cut or self.error is not None or self.has_ended):
            act(*args)

    def _open(self):
        trouble = self.wire._trouble("watch", self.resource.plural)
        what = "" if trouble is None else trouble.what
        if what == "error":
            self.break_off(refusal(trouble.detail, self.wire.rng))
        elif what in ("refused", "request lost"):
            self.break_off(ConnectionLost("cannot connect"))
        elif what == "request stalled":
            self._later(IDLE_S, self.break_off, ConnectionLost("nothing was heard for too long"))
        elif what == "gone":
            self.break_off(ApiError(410, "Expired", "too old resource version"))
        else:
            try:
                self._watch = self.wire.server.open_watch(resource_type(self.resource), self.options)
            except (ApiError, ConnectionLost) as error:
                self.break_off(error)
                return
            self.wire.server.streams[self] = None
            self._watch.wake = self._has_something
            self._later(self.timeout_s, self._time_out)
            if self._watch._queue or self.is_list:
                self._has_something()
            if what == "watch reset":
                self._later(self.wire._delay_s(), self.break_off, ConnectionLost(RESET))

    def _has_something(self):
        """The store has changes: they arrive together, a little later."""
        if not self._is_coming:
            self._is_coming = True
            self._later(self.wire._delay_s() + self._lags_s(), self._deliver)

    def _lags_s(self):
        """How much longer the next change is held back: each comes so much later than it happened."""
        queue, lag_s = self._watch._queue, self.wire.lag_s(self.resource.plural)
        if not lag_s or self.is_list or not queue:
            return 0.0
        happened_at = self.wire.server.happened_at.get(queue[0].entry.revision, self.wire.sim.now)
        return max(0.0, happened_at + lag_s - self.wire.sim.now)

    def _events(self):
        """What has come through by now; what was there when a watch began that lists is never late."""
        found = self._watch.initial_events()
        while self._watch._queue and not self._lags_s():
            found += self._watch.events(1)
        return found

    def _deliver(self):
        trouble = self.wire._trouble("lines", self.resource.plural)
        what = "" if trouble is None else trouble.what
        if what == "lines silent":  # from now on the watch is open, and says nothing any more
            self._later(IDLE_S, self.break_off, ConnectionLost("nothing was heard for too long"))
            self._is_silent = True
        if self._is_silent:
            return
        if what in ("slow", "lines stalled"):
            self._later(self.wire.rng.uniform(0.1, 200.0 if what == "lines stalled" else 8.0), self._deliver)
            return
        self._is_coming = False
        lines = [event.line for event in self._events()]
        is_list, self.is_list = self.is_list, False
        if is_list:
            lines.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
        if self._watch._queue:
            self._has_something()
        if not lines:
            return
        at = self.wire.rng.randrange(len(lines))
        if what == "lines repeated":
            lines.insert(at, lines[at])
        elif what == "lines lost":
            lost = json.loads(lines.pop(at))
            if is_list:  # a list without an object says that it is gone
                self.wire.process.told_gone.add(lost["object"]["metadata"].get("uid"))
        elif what == "lines swapped" and len(lines) > 1:
            at = min(at, len(lines) - 2)
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        elif what in ("lines cut", "lines garbled", "lines expired"):
            del lines[at + 1 :]
            lines[at] = {
                "lines cut": lines[at][: self.wire.rng.randrange(len(lines[at]))],
                "lines garbled": self.wire.rng.choice(GARBAGE),
                "lines expired": encode({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired",
                                                                     "message": "too old resource version"}}),
            }[what]  # fmt: skip
        self.lines += [line for line in lines if line]
        self.wake.set()
        if what in ("lines cut", "lines garbled", "lines expired"):
            self.break_off(ConnectionLost(RESET))
        elif what == "watch ended" or self._watch.overflowed:
            self._end()

    def _time_out(self):
        if self._is_silent:
            return
        if self.allow_bookmarks:
            for event in self._events():
                self.lines.append(event.line)
            if not self._watch._queue:
                self.lines.append(self._bookmark())
        self._end()

    def _bookmark(self, annotations=None):
        meta = {"resourceVersion": str(self.wire.server.store.revision), "annotations": annotations or {}}
        bookmark = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": bookmark})

    def _end(self):
        self.has_ended = True
        self.wake.set()
        self._let_go()

    def break_off(self, error):
        """The stream ends with an error, after what has arrived already."""
        if not self._is_closed and not self.has_ended:
            self.error = error
            self.wake.set()
        self._let_go()

    def close(self):
        self._is_closed = True
        self._let_go()

    def _let_go(self):
        if self._watch is not None:
            self._watch.close()
        self.wire.server.streams.pop(self, None)
        self.wire.streams.pop(self, None)


def refusal(status, rng):
    """What the transport raises where a server, or a proxy before it, answers with this status."""
    retry_after_s = rng.choice((None, 1.0, 7.0)) if status in (429, 503) else None
    return ApiError(status, STATUSES[status], "as the history wants it", retry_after_s)


def shown(answer):
    if isinstance(answer, Exception):
        return str(answer)
    return "done"
