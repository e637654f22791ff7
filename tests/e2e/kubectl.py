"""kubectl for end-to-end tests: whatever is installed (1.28 or later), or the one that $KUBECTL names.

Importing this skips the module that does where there is none.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess

import pytest

from tests import waiting
from tests.waiting import WAIT_S

KUBECTL = shutil.which(os.environ.get("KUBECTL", "kubectl"))
OLDEST = (1, 28)


def version():
    answer = subprocess.run([KUBECTL, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    info = json.loads(answer.stdout)["clientVersion"]
    return int(info["major"]), int(re.match(r"\d+", info["minor"])[0])


if KUBECTL is None:
    pytest.skip("kubectl is not installed", allow_module_level=True)
if version() < OLDEST:
    pytest.skip("this kubectl is older than 1.28", allow_module_level=True)


class Kubectl:
    """Runs kubectl; a namespace of one's own comes with `in_namespace`."""

    def __init__(self, kubeconfig, cache, *options):
        self.kubeconfig = kubeconfig
        self.cache = cache
        self.options = options

    def __call__(self, *arguments, text=None, check=True):
        answer = self.run(*arguments, text=text)
        if check:
            assert answer.returncode == 0, f"kubectl {' '.join(arguments)}\n{answer.stdout}{answer.stderr}"
        return answer.stdout

    def run(self, *arguments, text=None):
        return subprocess.run(
            self.command(*arguments), input=text, capture_output=True, text=True, timeout=WAIT_S, check=False
        )

    def command(self, *arguments):
        places = [f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}"]
        return [KUBECTL, *places, *self.options, *arguments]

    def in_namespace(self, name):
        return Kubectl(self.kubeconfig, self.cache, f"--namespace={name}")

    def rows(self, *arguments):
        """A table as one dict a row; columns are at least two spaces apart."""
        heading, *rows = self("get", *arguments).splitlines()
        names = re.split(r"\s{2,}", heading.strip())
        return [dict(zip(names, re.split(r"\s{2,}", row.strip()), strict=False)) for row in rows]

    def value(self, *arguments, path):
        return self("get", *arguments, "-o", f"jsonpath={{{path}}}")

    def refused(self, *arguments, text=None):
        answer = self.run(*arguments, text=text)
        assert answer.returncode != 0, answer.stdout
        return answer.stderr


def eventually(question, expected):
    """Ask until the answer is as expected."""
    answer = None

    def is_as_expected():
        nonlocal answer
        answer = question()
        return answer == expected

    with contextlib.suppress(AssertionError):  # the assertion below says what the answer was
        waiting.eventually(is_as_expected, every_s=0.1)
    assert answer == expected
