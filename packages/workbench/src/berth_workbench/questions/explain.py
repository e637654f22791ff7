"""`berth explain --what-would-help`, and of claims: why pods are pending, and what would help."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import msgspec

from berth.api.pod import Pod
from berth.api.typed_names import CLAIM, whole_named
from berth.decisions.named_in_vain import in_sentences
from berth_workbench.planning.dynamic_admission import unasked_about
from berth_workbench.planning.ends import KnownEnds
from berth_workbench.planning.help.asked import AskedPods
from berth_workbench.planning.help.claims import ClaimHelp, explain_claim, sentences
from berth_workbench.planning.help.result import HeldAtPermit, Help
from berth_workbench.planning.help.search import stay_pending, what_would_help
from berth_workbench.planning.help.words import in_short, whether_ever, whom
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked
from berth_workbench.showing.sections import Section, Sentence, VerdictSection
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.processes import spread
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import StoppedError, WorkWatch
from berth_workbench.snapshot.documents import Document

Permit = Callable[[SimulatedCluster, Sequence[str]], HeldAtPermit | None]
"""Says who of some pods waits at Permit of a live cluster's scheduler; None where nobody does."""
DOING = "looking for what would help"


class HelpRequest(msgspec.Struct, frozen=True):
    """Which pods or claims to explain. Raises ValueError where they cannot be asked about together."""

    pods: Annotated[
        tuple[str, ...],
        HowAsked(
            "Pods as POD or NAMESPACE/POD, workloads as deploy/NAME, sts/NAME, job/NAME and the like, podgroup/NAME, "
            "workload/NAME, or claims as claim/NAME. Without any, all that is pending, of each workload once.",
            flag="POD",
        ),
    ] = ()
    namespace: Annotated[
        str, HowAsked("That of names and manifests which do not say; without names, only what is pending there.")
    ] = ""
    manifests: tuple[Document, ...] = ()
    """Of pods and workloads that are asked about instead."""

    def __post_init__(self) -> None:
        if self.pods and self.manifests:
            raise ValueError("name pods, or give manifests: both at once cannot be asked about")
        if 0 < len(self.claims) < len(self.pods):
            raise ValueError("a claim has an answer of its own: ask about pods and groups by themselves")

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that are asked about, as `namespace/name`."""
        wholes = (whole_named(each, self.namespace) for each in self.pods)
        return tuple(each.key for each in wholes if each is not None and each.kind == CLAIM)


class Explained(msgspec.Struct, frozen=True, rename="camel"):
    """An answer for each pod, workload, group or claim that was asked about."""

    answers: tuple[Help | ClaimHelp, ...]
    notes: tuple[str, ...] = ()
    is_complete: bool = True

    def names(self) -> Iterator[str]:
        """Yield the pods and claims that the answers are about."""
        return (each.claim if isinstance(each, ClaimHelp) else each.pod for each in self.answers)


class Explaining:
    """The answers to a request, one after the other, in the order in which they were asked for.

    Raises what `Situation.site` does, and `NotThereError`, `NoSuchClaimError`.
    """

    __slots__ = ("_asked", "_cluster", "_explain", "_found", "_request", "_watch", "count", "notes")

    def __init__(self, situation: Situation, request: HelpRequest, watch: WorkWatch) -> None:
        site, self._request, self._watch = situation.site(watch), request, watch
        self._cluster = site.cluster
        self._found: list[Help | ClaimHelp] = []
        snapshot, namespace = situation.snapshot, request.namespace or "default"
        pods = AskedPods(site, snapshot, namespace)
        asked: Sequence[Pod | Help | str]
        notes: tuple[str, ...] = ()
        if request.claims:
            asked = request.claims
        elif request.manifests:
            asked = list(pods.of_manifests(request.manifests))
            notes = unasked_about(snapshot, request.manifests, namespace)
        elif request.pods:
            asked = [each for name in request.pods for each in pods.named(name)]
        else:
            asked = [self._cluster.objects["Pod", key] for key in stay_pending(site, request.namespace)]
        self._asked = asked
        self.count = len(asked)
        self.notes = tuple(pods.notes)
        """What was noticed on the way to the pods that are asked about."""
        documents = snapshot.documents
        ending = KnownEnds(documents).in_words(self._cluster.pods.values())

        def help_for(pod: Pod) -> Help:
            found = what_would_help(
                self._cluster, pod, documents=documents, is_there=not request.manifests, ending=ending,
                watch=watch.within(),
            )  # fmt: skip
            return msgspec.structs.replace(found, notes=(*found.notes, *notes)) if notes else found

        self._explain: Callable[[Pod], Help] = help_for

    def answers(self, permit: Permit | None = None) -> Iterator[Help | ClaimHelp]:
        """Yield the answers, until somebody asks for an end. Raises `NoSuchClaimError`."""
        self._watch.begin(DOING, self.count)
        ready: dict[int, Help | ClaimHelp] = {}
        for number, answer in spread(self._answer, self.count, self._watch):
            if permit is not None and isinstance(answer, Help) and answer.group:
                answer = msgspec.structs.replace(answer, held=permit(self._cluster, answer.pods))
            ready[number] = answer
            self._watch.advance()
            while len(self._found) in ready:
                yield self._kept(ready.pop(len(self._found)))
        for number in sorted(ready):  # what other processes had come to by the end
            yield self._kept(ready[number])

    @property
    def is_one(self) -> bool:
        """Whether one alone was asked about by its name or its manifest."""
        return self.count == 1 and bool(self._request.pods or self._request.manifests)

    def so_far(self) -> Explained:
        """Return the answers that were given by now."""
        is_cut = self._watch.is_stopped and (len(self._found) < self.count or not all(map(_is_whole, self._found)))
        return Explained(tuple(self._found), self.notes, not is_cut)

    def _answer(self, number: int) -> Help | ClaimHelp:
        one = self._asked[number]
        if isinstance(one, str):
            found = explain_claim(self._cluster, one)
            pod = self._cluster.objects["Pod", found.pods[0]] if found.pods else None
            if pod is None or pod.spec.node_name or found.report.allocated:
                return found
            return msgspec.structs.replace(found, help=self._explain(pod))
        return one if isinstance(one, Help) else self._explain(one)

    def _kept(self, answer: Help | ClaimHelp) -> Help | ClaimHelp:
        self._found.append(answer)
        return answer


def _is_whole(answer: Help | ClaimHelp) -> bool:
    told = answer.help if isinstance(answer, ClaimHelp) else answer
    return told is None or told.is_complete


def answer(situation: Situation, request: HelpRequest, watch: WorkWatch) -> Explained:
    """Look for what would help each of those who are asked about."""
    explaining = Explaining(situation, request, watch)
    for _ in explaining.answers():
        pass
    explained = explaining.so_far()
    if not (explained.answers or explained.is_complete):
        raise StoppedError
    return explained


def told(found: Explained) -> Iterator[Section]:
    """Tell of each why it has no place, and what would help it most cheaply."""
    lines = [list(_lines(each)) for each in found.answers]
    if len(lines) == 1:
        verdict, *others = lines[0]
        yield VerdictSection(verdict)
        yield from map(Sentence, others)
        return
    pending = sum(isinstance(each, Help) and each.state == "pending" for each in found.answers)
    whom = f"{pending} of {len(lines)} that were asked about" if found.answers else "No pod"
    yield VerdictSection(f"{whom} {'stays' if pending == 1 or not lines else 'stay'} pending.", is_good=not pending)
    yield from (Sentence(" ".join(each)) for each in lines)


def _lines(found: Help | ClaimHelp) -> Iterator[str]:
    """Yield how things are, then the cheapest changes."""
    if isinstance(found, ClaimHelp):
        yield f"{found.claim}: {' '.join(sentences(found.report))}"
        if found.help is not None and found.help.state == "pending":
            yield from _lines(found.help)
        return
    how = in_sentences(found.missing) if found.missing else f"{found.message.rstrip('.')}."
    ever = "" if found.state in ("fits", "runs") else f" {whether_ever(found) or 'Not now.'}"
    yield f"{whom(found)}: {how}{ever}"
    if found.state == "pending":
        yield from (f"What would help: {what}" if found.changes else what for what, _ in in_short(found))


QUESTION = Question(
    name="explain",
    title="Explain",
    about="""Say why pods are pending, and the least changes after which they fit, each tried.

    Asked about are pods, workloads, groups or claims of the cluster, or what manifests would make; without any of
    them, all that is pending. A change is of the pod, its workload, a node or the cluster, with the command that makes
    it, and is offered only where all pods of the workload have a place then. Of a claim it is said device by device why
    it has none. Changes that are given are carried out first.
    """,
    doing=DOING,
    request=HelpRequest,
    answer=answer,
    told=told,
    is_parallel=True,
)
