"""Fields that several requests have, asked for in the same words everywhere."""

from typing import Annotated

from berth_workbench.showing.ask import HowAsked
from berth_workbench.simulation.prices import Prices

PoolLabel = Annotated[
    str, HowAsked("The node label that names a pool; usual ones are known.", metavar="KEY", on_page=False)
]
NodePrices = Annotated[
    Prices | None, HowAsked("What nodes cost, by instance type or name.", metavar="FILE", reads=Prices.of_document)
]
