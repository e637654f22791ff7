"""`berth version`: here, and of the scheduler in use."""

import asyncio
import json
import sys

from aiohttp import web
from click.testing import CliRunner

from berth import __version__
from berth.cli import main
from packages.scheduler.tests.cli.test_connection import listening

PYTHON = sys.version.split()[0]


async def version(*arguments, answer):
    async def tell(_request):
        return answer()

    async with listening([web.get("/debug/version", tell)]) as port:
        line = ["version", "--server", f"http://127.0.0.1:{port}", *arguments]
        result = await asyncio.to_thread(CliRunner().invoke, main, line)
    assert result.exit_code == 0, result.output
    return result.stdout


def new():
    return web.json_response({"version": "9.9.9", "generation": "v1.36", "python": "3.14.0"})


async def test_both_are_told():
    assert (await version(answer=new)).splitlines() == [
        f"berth {__version__} (Python {PYTHON})",
        "scheduler 9.9.9, as kube-scheduler v1.36 (Python 3.14.0)",
    ]


async def test_as_json():
    assert json.loads(await version("-o", "json", answer=new)) == {
        "client": {"version": __version__, "python": PYTHON},
        "scheduler": {"version": "9.9.9", "generation": "v1.36", "python": "3.14.0"},
        "problem": "",
    }


async def test_only_the_client_is_told_without_asking():
    assert await version("--client", answer=new) == f"berth {__version__} (Python {PYTHON})\n"


async def test_an_older_scheduler_says_nothing():
    told = await version("-o", "json", answer=lambda: web.Response(status=404, text="404 page not found"))
    found = json.loads(told)
    assert found["scheduler"] is None
    assert "it is of an older version that does not tell this" in found["problem"]


async def test_an_answer_that_is_none_is_no_version():
    told = await version("-o", "json", answer=lambda: web.json_response({"version": 7}))
    assert "its answer cannot be read" in json.loads(told)["problem"]


def test_that_nobody_answers_is_no_error():
    result = CliRunner().invoke(main, ["version", "--server", "http://127.0.0.1:1"])
    assert result.exit_code == 0
    assert result.output.startswith(f"berth {__version__}")
    assert "does not answer" in " ".join(result.output.split())
