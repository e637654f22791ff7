"""Asks the workbench's questions from a program or notebook: the same requests and answers as on the command line.

    from berth_workbench.lab.asking import ask
    from berth_workbench.simulation.changes import Drain

    ask("whatif", "cluster.yaml.gz", Drain("node-3"))
    ask("capacity", "cluster.yaml.gz", documents=read_manifests(["web.yaml"]))

Questions are the modules of `berth_workbench.questions`; what each takes are the fields of its request.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from berth.config.load import document_enabling, load_config
from berth.framework.setup import Setup
from berth.plugins.registry import full_registry
from berth_workbench.questions.question import Question
from berth_workbench.showing.html import sections_html
from berth_workbench.showing.sections import Section, Sentence, VerdictSection
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Step
from berth_workbench.simulation.watch import UNWATCHED
from berth_workbench.snapshot.snapshot import Snapshot, read_cluster


class ToldAnswer:
    """An answer, and how it is told: as sections, as text, and in a notebook as on the page."""

    def __init__(self, question: Question[Any, Any], answer: Any) -> None:
        self.answer = answer
        """The question's own answer, a frozen struct or tuple."""
        self.sections: Sequence[Section] = tuple(question.sections(answer))
        self._title = question.title

    @property
    def verdict(self) -> str:
        """The sentence that answers the question."""
        return next((each.text for each in self.sections if isinstance(each, VerdictSection)), "")

    def __repr__(self) -> str:
        return "\n".join(each.text for each in self.sections if isinstance(each, VerdictSection | Sentence))

    def _repr_html_(self) -> str:
        return sections_html(self.sections, self._title)


def ask(
    question: str,
    cluster: str | Path | Snapshot | None,
    *changes: Step,
    setup: Setup | None = None,
    seed: int = 0,
    **request: Any,
) -> ToldAnswer:
    """Ask a question about a snapshot, after some changes; without a cluster where the question brings its own.

    Raises ValueError for a question that there is not and for a fraction where a whole number belongs, and what the
    question itself raises (`UserError`).
    """
    try:
        asked: Question[Any, Any] = importlib.import_module(f"berth_workbench.questions.{question}").QUESTION
    except (ImportError, AttributeError):
        raise ValueError(f"there is no question {question!r}") from None
    for field in asked.fields():  # of which a struct checks nothing when it is made
        if field.type in (int, int | None) and isinstance(request.get(field.name), float):
            raise ValueError(f"{field.name}: a whole number is expected, not {request[field.name]!r}")
    snapshot = cluster if isinstance(cluster, Snapshot) or cluster is None else read_cluster([cluster])
    situation: Any = None if snapshot is None else Situation(snapshot, setup, tuple(changes), seed=seed)
    if "setup" in asked.request.__struct_fields__:  # it has no situation that says who decides
        request["setup"] = setup or Setup(load_config(document_enabling({})), full_registry())
    return ToldAnswer(asked, asked.answer(situation, asked.request(**request), UNWATCHED))
