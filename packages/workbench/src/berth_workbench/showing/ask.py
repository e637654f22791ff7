"""How people are asked for a field of a request; see `berth_workbench.questions.question`."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from berth_workbench.simulation.prices import Prices


class HowAsked(NamedTuple):
    """How people are asked for a field of a request."""

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


PoolLabel = Annotated[
    str, HowAsked("The node label that names a pool; usual ones are known.", metavar="KEY", on_page=False)
]
NodePrices = Annotated[
    Prices | None, HowAsked("What nodes cost, by instance type or name.", metavar="FILE", reads=Prices.of_document)
]
