"""Tasks that should still be running, and their ends."""

import asyncio
from collections.abc import Iterable
from typing import Any


def raise_failure(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Raise the exception of a task that should still be running."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def cancel(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
