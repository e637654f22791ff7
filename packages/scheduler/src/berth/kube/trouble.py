"""What informers report: the kind, what is wrong, and whether other informers have the same trouble."""

import logging
from collections.abc import Callable

import msgspec


class InformerTrouble(msgspec.Struct, frozen=True):
    """Something that keeps an informer from following its kind; as text it begins with the kind's plural."""

    plural: str
    message: str
    is_shared: bool = False
    """Whether it is trouble with the connection or the server, which other informers have as well."""
    is_missing: bool = False
    """Whether it is only that the server has never served a kind that may be absent, as before its definition comes."""

    def __str__(self) -> str:
        return f"{self.plural}: {self.message}"


Report = Callable[[InformerTrouble], None]


def log_trouble(trouble: InformerTrouble) -> None:
    """Write it to the log."""
    logging.getLogger("berth.kube").warning("%s", trouble)
