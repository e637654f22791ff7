"""Follows one resource of the API server: lists it, then watches it until cancelled, through every failure.

Pages and watch lines come from a transport. Batches of changes (`berth.kube.changes`) go to one `sink`, which is called
on the event loop with everything that was at hand. `berth.kube.informers` runs reflectors.

Why nothing is lost: the resourceVersion to resume from advances only past a line that was read in full and taken into
the mirror. Whatever breaks, the watch starts again from there. If the server no longer remembers that version (410
Gone), or if watches break again and again before they bring anything, a new list is compared with the mirror, so that
deletions in the meantime are handed on as well. If no watch ever works, lists alone keep the mirror up to date.

A watch may also be open but dead, which looks like a cluster in which nothing happens. So a silent one is reopened now
and then, and soon if a writer has said that there must be news (`expect_news`).
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from berth.api.conversion import Reader, struct_of
from berth.api.errors import ApiError, ConnectionLost, TransportError, api_error_from_body
from berth.api.resources import Resource
from berth.kube.backoff import Backoff
from berth.kube.changes import Change, Synced
from berth.kube.mirror import Key, Mirror
from berth.kube.transport import Transport
from berth.kube.trouble import InformerTrouble, Report, log_trouble
from berth.kube.wire import INITIAL_EVENTS_END, Identified, ListPage, MalformedError, WatchLine, WireReader, excerpt

Sink = Callable[[list[Change]], None]

# Pages keep a list of a hundred thousand pods from being one answer, and from stopping the loop for seconds.
PAGE_SIZE = 500
# client-go asks for a watch of five to ten minutes, so that a restarted server's watches spread out.
MIN_WATCH_TIMEOUT_S = 300.0
# A server that has not ended a watch this long after the time asked for is not going to end it.
WATCH_GRACE_S = 30.0
# kube-apiserver sends a bookmark about every minute. A watch that is silent for longer is opened again where it was,
# which costs as little as a bookmark; it may be dead without anybody being told.
SILENCE_S = 90.0
# So long after a write of ours a watch may say nothing at all; twice as long after each time that this was in vain.
NEWS_WITHIN_S = 5.0
# At most this many lines are taken in before everything else on the event loop has its turn: a server that sends as
# fast as we read would keep the loop for as long as it has something to send. They take some five milliseconds.
LINES_AT_ONCE = 200
# A watch that broke so often at the same resourceVersion will break there again: list instead.
MAX_BREAKS_AT_ONE_PLACE = 3
# A watch that ends sooner, and without an event, did not work even though it ended without an error.
SHORT_WATCH_S = 1.0
# So many watches in a row that were sent off and brought nothing: something on the way breaks watches, so list instead.
# client-go lists after the first; but one broken connection is routine, and a list of a large cluster is not.
MAX_FRUITLESS_WATCHES = 2
# A server that refuses a watch with 429 or 5xx has mostly too much to do already, and a list is more work than a watch.
MAX_REFUSED_WATCHES = 5
# A streaming list in which nothing comes for so long is given up for a plain one: old servers know no end of it.
STREAM_SILENCE_S = 30.0
KNOWN_TYPES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
# Refusals of a streaming list that a plain list would get as well; after any other a plain one is tried at once.
NO_REASON_TO_LIST = (401, 403, 404, 429)
# Where only lists work, they are made this often at most, and take at most one part in LIST_SHARE of the time.
LIST_PERIOD_S = 5.0
LIST_SHARE = 10


class NotServedError(Exception):
    """The server answered 404, which the informer has to look into: only discovery says whether it serves this."""

    def __init__(self, refusal: ApiError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Reflector:
    """Follows one resource until cancelled; only a bug, here or in the sink, and a 404 make `run` raise."""

    __slots__ = (
        "_backoff", "_breaks", "_bug", "_clock", "_current_at", "_expirations", "_field_selector", "_flush_due",
        "_fruitless", "_heard_at", "_is_quiet", "_is_silent", "_is_watching", "_keep_raw", "_label_selector",
        "_list_took_s", "_listed_at", "_listener", "_may_stream", "_namespace", "_news_since", "_news_within_s",
        "_page_size", "_patience", "_pending", "_random", "_reader", "_refusals", "_report", "_resource_version",
        "_sink", "_sleep", "_streamed", "_synced", "_task", "_transport", "_wants_list", "comparisons", "lists",
        "mirror", "problem", "repairs", "resource",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        sink: Sink,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        keep_raw: bool = False,
        may_stream: bool = True,
        read: Reader | None = None,
        report: Report = log_trouble,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.resource = resource
        self._keep_raw = keep_raw
        self._reader = self._reader_for(resource)
        self.mirror = Mirror(resource, self._reader, keep_raw=keep_raw, read=read)
        self.problem = ""
        """What went wrong last; empty once something has gone right again."""
        self._transport = transport
        self._sink = sink
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._page_size = page_size
        self._report = report
        self._random = rng or random.Random()
        self._clock = clock
        self._sleep = sleep
        self._backoff = Backoff(self._random, clock=clock)
        self._synced = asyncio.Event()
        self._resource_version = ""
        self._wants_list = True
        self._may_stream = may_stream
        self._streamed: set[Key] | None = None
        """What the first part of a streaming list has shown so far; None while there is no such list."""
        self._patience: asyncio.Timeout | None = None
        self._listed_at = 0.0
        self._breaks = 0
        self._expirations = 0
        self._fruitless = 0
        self._refusals = 0
        self._is_watching = False
        self._is_quiet = False
        self._list_took_s = 0.0
        self._current_at: float | None = None
        self._heard_at = 0.0
        """When the watch under way last brought anything, or was opened."""
        self._news_since: float | None = None
        """Since when there is something that the watch has to bring, and nothing has come."""
        self._news_within_s = NEWS_WITHIN_S
        self._listener: asyncio.TimerHandle | None = None
        self._is_silent = False
        """Whether the watch under way is given up since nothing comes."""
        self.lists = 0
        """How many lists were read in full."""
        self.comparisons = 0
        """How often the mirror was compared with the server (`berth.kube.watch_check`)."""
        self.repairs = 0
        """How often that found that the watch had lost something."""
        self._pending: list[Change] = []
        self._flush_due = False
        self._bug: Exception | None = None
        self._task: asyncio.Task[Any] | None = None

    @property
    def is_synced(self) -> bool:
        """Whether the first list has been handed on in full."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version to resume the watch from; empty where nothing was listed yet."""
        return self._resource_version

    @property
    def stale_s(self) -> float | None:
        """Seconds since the mirror was last known to be the server's state; None before the first list.

        A list, an event, a bookmark or the regular end of a watch show that.
        """
        return None if self._current_at is None else max(0.0, self._clock() - self._current_at)

    async def wait_synced(self) -> None:
        """Return once the first list has been handed on in full."""
        await self._synced.wait()

    def _reader_for(self, resource: Resource) -> WireReader:
        """Objects whose JSON is kept, and those of another shape than their struct has, are read one by one."""
        return WireReader(None if self._keep_raw else struct_of(resource))

    def now_s(self) -> float:
        """The present time on the reflector's clock."""
        return self._clock()

    async def metadata_page(self, token: str) -> ListPage[Identified]:
        """Return a page of the metadata of what is followed, as the server has it now."""
        body = await self._transport.list(
            self.resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=self._page_size,
            continue_token=token,
            metadata_only=True,
        )
        return self._reader.metadata(body)

    def confirm(self, at_s: float) -> None:
        """Take in that the mirror was found to be up to date at a time."""
        self._current_at = max(at_s, self._current_at or at_s)

    def expect_news(self) -> None:
        """Take in that something has just changed, so that a watch which works brings something soon."""
        if self._news_since is None:
            self._news_since = self._clock()
            self._listen_within(self._news_within_s)

    def repair(self, why: str) -> None:
        """List again, now, because what is known is wrong."""
        self.repairs += 1
        self._report(InformerTrouble(self.resource.plural, f"{why}; listing again"))
        self._wants_list = True
        # The watch under way ends as if its time were up.
        self._be_patient(0.0)

    def switch(self, resource: Resource) -> None:
        """Follow the same kind in another version from now on; not to be called while `run` is at work.

        What is known stays, and the list that comes first says what has changed.
        """
        self.resource = resource
        self._reader = self._reader_for(resource)
        self.mirror.switch(resource, self._reader)
        self._resource_version, self._wants_list = "", True

    async def run(self) -> None:
        """List and watch until cancelled; raises `NotServedError`."""
        self._task = asyncio.current_task()
        try:
            while True:
                await self._round()
        except asyncio.CancelledError:
            if self._bug is not None:
                raise self._bug from None
            raise
        finally:
            self._flush()

    async def _round(self) -> None:
        """List if a watch would not do, then watch; report a failure and wait before the next round."""
        try:
            if self._wants_list:
                self._listed_at = self._clock()
                if self._may_stream and await self._stream():
                    return
                await self._list_all()
            self._is_watching = self._is_quiet = True
            await self._watch_once()
        except ApiError as error:
            await self._refused(error)
        except TransportError as error:
            if self._is_quiet and error.outcome_unknown:  # else there was no connection, and a list gets none either
                self._count_fruitless()
            await self._failed(str(error), is_shared=error.is_of_all_requests)
        except MalformedError as error:
            await self._broke_off(str(error))
        finally:
            self._is_watching = self._is_quiet = False

    async def _refused(self, error: ApiError) -> None:
        if error.is_ahead_of_server:
            # A server restored from a backup may take days to reach our version, and then it means something else.
            message = f"{error}; it was restored or replaced, so listing again"
            self._report(InformerTrouble(self.resource.plural, message, is_shared=True))
        if error.is_expired or error.is_ahead_of_server:
            # Routine after a long disconnect, so it is not reported. Only if it happens again before any event has come
            # through do we wait: a server that forgets faster than we can list would be asked without a pause.
            self._wants_list = True
            self._expirations += 1
            await self._sleep(0 if self._expirations == 1 else self._backoff.next_delay_s())
            return
        if error.is_not_found:
            self.problem = str(error)
            self._wants_list = True
            raise NotServedError(error)
        if not error.is_retryable:
            self._wants_list = True
        elif self._is_watching:
            self._refusals += 1
            self._wants_list = self._refusals >= MAX_REFUSED_WATCHES
        hint = _REMEDIES.get(error.status, "").format(plural=self.resource.plural)
        await self._failed(f"{error}{hint}", is_shared=error.is_of_all_requests)

    async def _broke_off(self, message: str) -> None:
        """Resume from the last good version; if it breaks there again and again, list instead."""
        self._breaks += 1
        if self._breaks >= MAX_BREAKS_AT_ONE_PLACE:
            message = f"{message}; the same place failed {self._breaks} times, so listing again"
            self._wants_list = True
            self._breaks = 0
        await self._failed(message)

    def _count_fruitless(self) -> None:
        """Count a watch that broke before it brought anything; after some of them, list before the next."""
        self._fruitless += 1
        self._wants_list = self._fruitless >= MAX_FRUITLESS_WATCHES

    async def _failed(self, message: str, *, is_shared: bool = False) -> None:
        self.problem = message
        delay_s = self._backoff.next_delay_s()
        if self._is_watching and self._wants_list:
            # Lists are all that keeps the mirror going, so we list about as often as that is cheap.
            delay_s = min(delay_s, max(LIST_PERIOD_S, LIST_SHARE * self._list_took_s))
            message = f"{message}; watches do not work, so listing instead"
        told = f"{message}; trying again in {delay_s:.1f} s"
        self._report(InformerTrouble(self.resource.plural, told, is_shared))
        await self._sleep(delay_s)

    # -- streaming list ------------------------------------------------------------------------------------

    async def _stream(self) -> bool:
        """List by a watch that begins with everything there is and goes on as any watch; say whether that worked.

        If not, a plain list is next, and from then on. Not all servers have streams, and what breaks in the first part
        of one may break every time.
        """
        self._streamed, is_begun = set(), False
        try:
            await self._watch_once()
            is_begun = self._streamed is None
        except ApiError as error:
            if self._streamed is None or error.status in NO_REASON_TO_LIST:
                raise
        except (TransportError, MalformedError) as error:
            if self._streamed is None or not getattr(error, "outcome_unknown", True):
                raise
        finally:
            self._streamed = None
        self._may_stream = is_begun
        return is_begun

    def _take_initial(self, event: WatchLine[Any]) -> None:
        """Take in one event of the first part; its end alone is a version to resume from, and says what is gone."""
        seen, kind = self._streamed, event.type
        assert seen is not None
        if kind == "ADDED" or kind == "MODIFIED":
            key, _, changes = self.mirror.upsert(event.object)
            seen.add(key)
        elif kind == "DELETED":
            key, _, changes = self.mirror.remove(event.object)
            seen.discard(key)
        else:
            identity = self._reader.identity(event.object)
            if not (identity.annotations or {}).get(INITIAL_EVENTS_END):
                return
            self._pending += self.mirror.retain(seen)
            self._flush()
            self._streamed = None
            # From here on it is a watch like any other, and has the time of one.
            self._be_patient(2 * MIN_WATCH_TIMEOUT_S + WATCH_GRACE_S)
            self._listen()
            self._is_watching = self._is_quiet = True
            self._listed(identity.resource_version)
            return
        if changes:
            self._tell(changes)

    # -- list ----------------------------------------------------------------------------------------------

    async def _list_all(self) -> None:
        """Bring the mirror to the server's state, and hand on every difference."""
        # Should the list fail, the next round tries to resume the watch: it may be lists that do not work now.
        self._wants_list = not self._resource_version
        try:
            version = await self._list_pages(self._page_size)
        except ApiError as error:
            if not error.is_expired:
                raise
            # Fetching the pages took longer than the server keeps history. One answer with everything cannot expire.
            version = await self._list_pages(0)
        # Only now is there a version to resume from: a list that broke off halfway has set none, and is made again.
        self._listed(version)

    def _listed(self, version: str) -> None:
        """Take in that everything that there was at a version has been handed on."""
        self._resource_version = version
        self._wants_list = False
        self._list_took_s = self._clock() - self._listed_at
        # The list shows a moment between the request and the answer; the earlier end is true in any case.
        self._current_at = self._listed_at
        self._news_since = None
        self.lists += 1
        self.problem = ""
        if not self._synced.is_set():
            self._pending.append(Synced(self.resource))
            self._flush()
            self._synced.set()

    async def _list_pages(self, page_size: int) -> str:
        """List in pages of this size (0: everything at once); return the version that they show the cluster at."""
        seen: set[Key] = set()
        token = ""
        while True:
            page = await self._list_page(page_size, token)
            for raw in page.items or ():
                seen.add(self._take(raw))
            self._flush()
            token = page.metadata.continue_token or ""
            if not token:
                break
        # All pages are of one version. Only after the last is it known which objects are gone: those that the mirror
        # has and no page showed.
        self._pending += self.mirror.retain(seen)
        self._flush()
        return page.metadata.resource_version

    async def _list_page(self, page_size: int, token: str) -> ListPage[Any]:
        body = await self._transport.list(
            self.resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=page_size,
            continue_token=token,
            protobuf=self._reader.reads_protobuf,
        )
        return self._reader.list(body)

    def _take(self, raw: Any) -> Key:
        sighting = self.mirror.upsert(raw)
        self._pending += sighting.changes
        return sighting.key

    # -- watch ---------------------------------------------------------------------------------------------

    async def _watch_once(self) -> None:
        """Watch once, until the server ends it or something breaks."""
        timeout_s = MIN_WATCH_TIMEOUT_S * (1 + self._random.random())
        started_s, started_at, is_stream = self._clock(), self._resource_version, self._streamed is not None
        lines = self._transport.watch(
            self.resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version="" if is_stream else self._resource_version,
            send_initial_events=is_stream,
            protobuf=self._reader.reads_protobuf,
            timeout_s=timeout_s,
        )
        try:
            async with asyncio.timeout(STREAM_SILENCE_S if is_stream else timeout_s + WATCH_GRACE_S) as self._patience:
                if not is_stream:
                    self._listen()
                async with _closing(lines):
                    at_once = 0
                    async for line in lines:
                        self._handle_line(line)
                        at_once += 1
                        if at_once == LINES_AT_ONCE:
                            at_once = 0
                            await asyncio.sleep(0)
        except TimeoutError as error:
            if (self._wants_list or self._is_silent) and self._streamed is None:
                return  # `repair` has asked for this, or nothing comes
            raise ConnectionLost(f"the server did not end a watch of {timeout_s:.0f} s") from error
        finally:
            self._patience = None
            self._stop_listening()
            self._flush()
        if self._streamed is not None:
            return
        if self._resource_version != started_at or self._clock() - started_s >= SHORT_WATCH_S:
            self._current_at = self._clock()
            self._fruitless = self._refusals = 0
            return
        self._count_fruitless()
        await self._failed("the server ended the watch at once, without an event")

    def _handle_line(self, line: bytes) -> None:
        """Take one event in."""
        event = self._reader.event(line)
        kind = event.type
        if self._streamed is not None and kind in KNOWN_TYPES:
            self._take_initial(event)
            return
        if kind == "ADDED" or kind == "MODIFIED":
            _, version, changes = self.mirror.upsert(event.object)
        elif kind == "DELETED":
            _, version, changes = self.mirror.remove(event.object)
        elif kind == "BOOKMARK":
            version, changes = self._reader.identity(event.object).resource_version, []
        elif kind == "ERROR":
            raise api_error_from_body(500, bytes(event.object))
        else:
            raise MalformedError(f"a watch line has the unknown type {kind!r}: {excerpt(line)}")
        # Last, when nothing can fail any more: what breaks before is sent again by the watch that resumes.
        if version:
            self._resource_version = version
        self._current_at = self._heard_at = self._clock()
        self._news_since = None
        self._is_quiet = False
        if self._is_troubled:
            self._recovered()
        if changes:
            self._tell(changes)

    @property
    def _is_troubled(self) -> bool:
        return bool(self._breaks or self._expirations or self._fruitless or self._refusals or self.problem)

    def _recovered(self) -> None:
        """Start counting failures anew: an event came through. A list alone would not prove that the watch works."""
        self._breaks = self._expirations = self._fruitless = self._refusals = 0
        self.problem = ""
        self._news_within_s = NEWS_WITHIN_S
        self._backoff.reset()

    # -- silence -------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Begin to look for silence in the watch that is opened now."""
        self._heard_at, self._is_silent = self._clock(), False
        self._listen_within(SILENCE_S if self._news_since is None else self._news_within_s)

    def _listen_within(self, delay_s: float) -> None:
        """Look for silence after a while, if that is not sooner done anyway."""
        loop, listener = asyncio.get_running_loop(), self._listener
        if self._patience is None or (listener is not None and listener.when() <= loop.time() + delay_s):
            return
        self._stop_listening()
        self._listener = loop.call_later(delay_s, self._look_for_silence)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None

    def _look_for_silence(self) -> None:
        """Give up the current watch if it is silent; otherwise look again once it could have been silent for long."""
        self._listener = None
        now, since = self._clock(), self._news_since
        silence_left_s = self._heard_at + SILENCE_S - now
        news_left_s = silence_left_s if since is None else max(since, self._heard_at) + self._news_within_s - now
        if min(silence_left_s, news_left_s) > 0.001:
            self._listen_within(min(silence_left_s, news_left_s))
            return
        self._is_silent = True
        if since is not None and news_left_s <= 0.001:
            message = f"the watch says nothing of what was written {now - since:.0f} s ago; opening it again"
            self._report(InformerTrouble(self.resource.plural, message))
            self._news_within_s = min(2 * self._news_within_s, SILENCE_S)
            self._count_fruitless()
        # It ends as if its time were up.
        self._be_patient(0.0)

    # -- handing on ----------------------------------------------------------------------------------------

    def _tell(self, changes: list[Change]) -> None:
        """Hand the changes on once the lines at hand are used up."""
        self._pending += changes
        if not self._flush_due:
            self._flush_due = True
            # A transport does not yield to the event loop between lines that it has at hand (see `Transport.watch`), so
            # this runs when the next line would have to be waited for, or enough were taken in: a burst of events
            # becomes a few batches.
            asyncio.get_running_loop().call_soon(self._flush_later)

    def _flush_later(self) -> None:
        try:
            self._flush()
        except Exception as bug:  # the event loop would only log it: let `run` raise it instead
            self._bug = bug
            if self._task is not None:
                self._task.cancel()

    def _be_patient(self, more_s: float) -> None:
        """Give the current stream so much more time."""
        patience = self._patience
        if patience is not None and not patience.expired():
            patience.reschedule(asyncio.get_running_loop().time() + more_s)

    def _flush(self) -> None:
        self._flush_due = False
        if self._pending:
            # Taken first: a sink that breaks must not be handed the same batch again at the end of `run`.
            batch, self._pending = self._pending, []
            self._sink(batch)
            if self._streamed is not None:
                self._be_patient(STREAM_SILENCE_S)


@asynccontextmanager
async def _closing(lines: AsyncIterator[bytes]) -> AsyncIterator[None]:
    """Give a watch's connection back, however the watch ends; iterators without a connection have no `aclose`."""
    try:
        yield
    finally:
        aclose = getattr(lines, "aclose", None)
        if aclose is not None:
            await aclose()


_REMEDIES = {
    401: "; the credentials are not accepted: check the user in the kubeconfig",
    403: "; the RBAC role of this user needs list and watch on {plural}",
}
