"""How people are asked for a field of a request, and how it is said; see `berth_workbench.questions.question`."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from berth_workbench.simulation.prices import Prices


class HowAsked(NamedTuple):
    """How people are asked for a field of a request on the command line."""

    help: str
    flag: str = ""
    """On the command line; without it, the field's name with dashes. `POD` and the like are arguments."""
    metavar: str = ""
    least: float | None = None
    most: float | None = None
    reads: Callable[[Any], Any] | None = None
    """Where a file is asked for: what makes the value of its parsed document; raises ValueError."""
    on_page: bool = True
    """Whether the page asks for it, too."""
    is_of_machine: bool = False
    """Whether it names a file or an address: only who may read and call these himself is asked, on the command line."""


class HowSaid(NamedTuple):
    """How the value of a field stands in the sentence in which a question is asked, and where it is changed there."""

    says: str = "{}"
    """What is said of a value: `at most {} at once`; of a switch, what is said where it is on."""
    without: str = ""
    """What is said where nothing was given, or a switch is off."""
    words: Callable[[Any], str] | Mapping[Any, str] | None = None
    """How one value is put into words, where that is more than writing it."""
    one: str = ""
    """What is said of the number 1 where that is another form: `1 node at a time`."""
    picks: str = ""
    """What it is picked from: `nodes`, `pools`, `zones`, `pods` or `workloads`."""
    example: str = ""
    """A document to start from, where one is typed."""


PRICES_EXAMPLE = "m5.xlarge: 0.192\nm5.4xlarge: 0.768\n"
PoolLabel = Annotated[
    str,
    HowAsked("The node label that names a pool; usual ones are known.", metavar="KEY", on_page=False),
    HowSaid("A pool is what the node label {} names."),
]
NodePrices = Annotated[
    Prices | None,
    HowAsked("What nodes cost, by instance type or name.", metavar="FILE", reads=Prices.of_document),
    HowSaid("Nodes cost what is given.", "Nodes cost nothing.", example=PRICES_EXAMPLE),
]
