"""The set of informers: each settles by itself, only discovery says what is not served, and no death goes unnoticed."""

import asyncio
import random

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES, versions_of
from berth.kube.changes import Added, Synced
from berth.kube.informers import ASK_AGAIN_S, InformerSet
from packages.scheduler.tests.kube.fakes import HANG, VirtualClock
from tests.waiting import WAIT_S, settle

EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
NOT_FOUND = ApiError(404, "NotFound", "the server could not find the requested resource")
FORBIDDEN = ApiError(403, "Forbidden", "you may not")
LISTED = b'{"resources":[{"name":"%s","kind":"X","namespaced":true}]}'


class Served:
    """Lists by plural and version, discovery by path; an exception is raised, what is not there is answered with 404.

    Of a list of answers each is given once, the last for ever.
    """

    def __init__(self, lists, paths=()):
        self.lists, self.paths = lists, dict(paths)
        self.asked, self.options = [], []

    async def list(self, resource, **options):
        self.asked.append(f"{resource.plural} {resource.version}")
        self.options.append(options)
        return self._answer(self.lists, self.asked[-1])

    async def read(self, path):
        self.asked.append(path)
        return self._answer(self.paths, path)

    @staticmethod
    def _answer(answers, key):
        found = answers.get(key, NOT_FOUND)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, BaseException):
            raise found
        return found

    async def watch(self, resource, **options):
        if options["send_initial_events"]:
            self.options.append(options)
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is on")
        await asyncio.get_running_loop().create_future()
        yield HANG


class Case:
    def __init__(self, lists, paths=()):
        self.clock = VirtualClock()
        self.transport = Served(lists, paths)
        self.troubles, self.changes = [], []
        self.informers = InformerSet(
            self.transport,
            report=self.troubles.append,
            rng=random.Random(1),
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    def add(self, kind, **options):
        return self.informers.add(*versions_of(kind), sink=self.changes.extend, **options)

    async def start(self):
        self.task = asyncio.create_task(self.informers.run())
        await settle(60)

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def reports(self):
        return [str(trouble) for trouble in self.troubles]

    @property
    def synced(self):
        return [f"{change.resource.plural} {change.resource.version}" for change in self.changes
                if isinstance(change, Synced)]  # fmt: skip


async def test_pods_that_have_finished_are_not_asked_for():
    case = Case({"pods v1": EMPTY})
    case.add("Pod")
    await case.start()
    asked = [options["field_selector"] for options in case.transport.options]
    assert asked == ["status.phase!=Succeeded,status.phase!=Failed"] * 2, "as a stream, and as a list"
    await case.stop()


async def test_one_that_cannot_be_read_holds_up_no_other():
    case = Case({"nodes v1": EMPTY, "pods v1": [ConnectionLost("no route to host"), EMPTY]})
    case.add("Node")
    case.add("Pod")
    await case.start()
    assert case.synced == ["nodes v1"]
    assert case.informers.unsettled() == {"Pod": "no route to host"}
    await case.clock.advance(5)
    await asyncio.wait_for(case.informers.wait_until_settled(["Node", "Pod"]), WAIT_S)
    assert case.informers.unsettled() == {}
    await case.stop()


@pytest.mark.parametrize("refusal", [FORBIDDEN, ApiError(500, "InternalError", "oops"), ConnectionLost("lost")],
                         ids=["403", "500", "lost"])  # fmt: skip
async def test_a_refusal_is_not_taken_for_not_being_served(refusal):
    case = Case({"storageclasses v1": [refusal, refusal, EMPTY]})
    informer = case.add("StorageClass")
    await case.start()
    assert not informer.is_settled and not informer.is_missing
    assert str(refusal) in case.informers.unsettled()["StorageClass"]
    await case.clock.advance(10)
    assert case.synced == ["storageclasses v1"], "a refusal is tried again in seconds, not in minutes"
    assert len(case.reports) == 2
    await case.stop()


async def test_missing_permission_is_named():
    case = Case({"storageclasses v1": FORBIDDEN})
    case.add("StorageClass")
    await case.start()
    assert "the RBAC role of this user needs list and watch on storageclasses" in case.reports[0]
    await case.stop()


async def test_what_discovery_does_not_list_is_missing_and_asked_for_again():
    case = Case(
        {}, {"/apis/storage.k8s.io": b'{"versions":[{"version":"v1"}]}', "/apis/storage.k8s.io/v1": LISTED % b"x"}
    )
    informer = case.add("StorageClass")
    await case.start()
    assert informer.is_settled and informer.is_missing and len(case.reports) == 1
    await case.clock.advance(ASK_AGAIN_S - 1)
    case.transport.lists["storageclasses v1"] = EMPTY
    case.transport.paths["/apis/storage.k8s.io/v1"] = LISTED % b"storageclasses"
    assert case.synced == []
    await case.clock.advance(2)
    assert case.synced == ["storageclasses v1"] and not informer.is_missing
    assert len(case.reports) == 1
    await case.stop()


async def test_a_404_of_what_discovery_lists_is_a_fault():
    case = Case(
        {"storageclasses v1": [NOT_FOUND, NOT_FOUND, EMPTY]},
        {
            "/apis/storage.k8s.io": b'{"versions":[{"version":"v1"}]}',
            "/apis/storage.k8s.io/v1": LISTED % b"storageclasses",
        },
    )
    informer = case.add("StorageClass")
    await case.start()
    assert not informer.is_settled and "although it is among what the server says that it serves" in case.reports[0]
    await case.clock.advance(10)
    assert case.synced == ["storageclasses v1"]
    await case.stop()


async def test_what_is_required_is_never_missing():
    case = Case({}, {"/api/v1": LISTED % b"pods"})
    informer = case.add("Node", is_required=True)
    await case.start()
    assert not informer.is_settled and "does not serve them" in case.informers.unsettled()["Node"]
    case.transport.lists["nodes v1"] = EMPTY
    case.transport.paths["/api/v1"] = LISTED % b"nodes"
    await case.clock.advance(5)
    assert case.synced == ["nodes v1"]
    await case.stop()


async def test_only_what_has_never_been_there_and_need_not_be_is_told_as_missing():
    case = Case(
        {"storageclasses v1": EMPTY},
        {
            "/apis/storage.k8s.io": b'{"versions":[{"version":"v1"}]}',
            "/apis/storage.k8s.io/v1": LISTED % b"storageclasses",
            "/api/v1": LISTED % b"pods",
        },
    )
    ended = asyncio.Event()

    async def watch(resource, **options):
        if options["send_initial_events"]:
            raise ApiError(422, "Invalid", "no streams here")
        await ended.wait()
        raise NOT_FOUND
        yield b""

    case.transport.watch = watch
    for kind, is_required in (("StorageClass", False), ("CSIDriver", False), ("Node", True)):
        case.add(kind, is_required=is_required)
    await case.start()
    case.transport.paths["/apis/storage.k8s.io/v1"] = LISTED % b"x"
    ended.set()
    await settle(60)
    told = {trouble.plural: trouble.is_missing for trouble in case.troubles}
    assert told == {"csidrivers": True, "nodes": False, "storageclasses": False}
    await case.stop()


CLAIMS = {
    "/apis/resource.k8s.io/v1beta1": LISTED % b"resourceclaims",
    "/apis/resource.k8s.io/v1": LISTED % b"resourceclaims",
}


async def test_the_newest_version_that_is_served_is_followed():
    versions = b'{"versions":[{"version":"v1beta1"},{"version":"v1"}]}'
    case = Case({"resourceclaims v1": EMPTY}, {"/apis/resource.k8s.io": versions, **CLAIMS})
    case.add("ResourceClaim")
    await case.start()
    assert case.synced == ["resourceclaims v1"]
    await case.stop()


async def test_a_version_without_the_resource_is_passed_over():
    versions = b'{"versions":[{"version":"v1"},{"version":"v1beta1"}]}'
    paths = {"/apis/resource.k8s.io": versions, **CLAIMS, "/apis/resource.k8s.io/v1": LISTED % b"deviceclasses"}
    case = Case({"resourceclaims v1beta1": EMPTY}, paths)
    case.add("ResourceClaim")
    await case.start()
    assert case.synced == ["resourceclaims v1beta1"]
    await case.stop()


async def test_a_server_that_is_upgraded_is_followed_in_its_new_version():
    versions = b'{"versions":[{"version":"v1beta1"}]}'
    claim = b'{"metadata":{"name":"c","namespace":"n","uid":"u","resourceVersion":"5"}}'
    page = b'{"metadata":{"resourceVersion":"9"},"items":[' + claim + b"]}"
    case = Case({"resourceclaims v1beta1": page}, {"/apis/resource.k8s.io": versions, **CLAIMS})
    informer = case.add("ResourceClaim")
    ended = asyncio.Event()

    async def watch(resource, **options):
        if options["send_initial_events"]:
            raise ApiError(422, "Invalid", "no streams here")
        await ended.wait()
        if resource.version == "v1beta1":
            raise NOT_FOUND
        await asyncio.get_running_loop().create_future()
        yield b""

    case.transport.watch = watch
    await case.start()
    case.transport.lists = {"resourceclaims v1": page}
    case.transport.paths["/apis/resource.k8s.io"] = b'{"versions":[{"version":"v1"}]}'
    ended.set()
    await settle(60)
    assert informer.reflector.resource.version == "v1" and informer.reflector.lists == 2
    assert sum(isinstance(change, Added) for change in case.changes) == 1, "what is known is not told again"
    await case.stop()


async def test_where_discovery_is_forbidden_the_lists_say_what_is_served():
    case = Case({"resourceclaims v1beta1": EMPTY}, {"/apis/resource.k8s.io": FORBIDDEN})
    case.add("ResourceClaim")
    await case.start()
    assert case.synced == ["resourceclaims v1beta1"]
    await case.stop()
    case = Case({}, {"/apis/resource.k8s.io": FORBIDDEN})
    informer = case.add("ResourceClaim")
    await case.start()
    await case.clock.advance(5)
    assert informer.is_missing
    await case.stop()


async def test_discovery_that_fails_is_asked_again():
    versions = b'{"versions":[{"version":"v1"}]}'
    busy = ApiError(503, "ServiceUnavailable", "starting")
    case = Case({"resourceclaims v1": EMPTY}, {"/apis/resource.k8s.io": [busy, b"<html>", versions], **CLAIMS})
    informer = case.add("ResourceClaim")
    await case.start()
    assert not informer.is_settled and "cannot ask the server in which version" in case.reports[0]
    await case.clock.advance(10)
    assert case.synced == ["resourceclaims v1"] and len(case.reports) == 2
    await case.stop()


async def test_a_bug_ends_the_set_and_whoever_waits_for_it():
    def broken(_batch):
        raise ZeroDivisionError("a bug")

    case = Case({"nodes v1": EMPTY, "pods v1": EMPTY})
    case.informers.add(RESOURCES["Node"], sink=broken)
    case.add("Pod")
    case.task = asyncio.create_task(case.informers.run())
    waiting = asyncio.create_task(case.informers.wait_until_settled(["Node", "Pod"]))
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(case.task, WAIT_S)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(waiting, WAIT_S)


async def test_cancelled_before_it_is_settled_is_not_silence():
    case = Case({"nodes v1": ConnectionLost("down")})
    case.add("Node")
    await case.start()
    waiting = asyncio.create_task(case.informers.wait_until_settled(["Node"]))
    await settle()
    await case.stop()
    with pytest.raises(RuntimeError, match="stopped before"):
        await waiting


async def test_one_informer_a_resource():
    case = Case({})
    case.add("Node")
    with pytest.raises(ValueError, match="nodes are followed already"):
        case.add("Node")


async def test_nothing_to_follow_is_a_mistake():
    with pytest.raises(ValueError, match="nothing to follow"):
        await Case({}).informers.run()
