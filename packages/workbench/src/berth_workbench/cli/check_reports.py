"""The answers of `berth check` for the tools around a pull request: annotations of GitHub, and JUnit's XML."""

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from berth.runtime.observing.logs import legible
from berth_workbench.planning.check import Check, CheckFinding

_PROPERTY = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C"))
_DATA = _PROPERTY[:3]


def annotations(checks: Mapping[str, Check]) -> Iterator[str]:
    """Yield a workflow command for each finding, by cluster, which GitHub shows at file and line of its manifest.

    Source: docs.github.com, "Workflow commands for GitHub Actions".
    """
    for name, found in checks.items():
        for each in found.findings:
            where = {"file": each.file, "line": str(each.line) if each.line else "", "title": _title(each, name)}
            said = ",".join(f"{key}={_safe(value, _PROPERTY)}" for key, value in where.items() if value)
            yield f"::{each.level} {said}::{_safe(each.text, _DATA)}"


def _title(finding: CheckFinding, cluster: str) -> str:
    return " ".join(filter(None, ("berth check", finding.name, f"in {cluster}" if cluster else "")))


def _safe(text: str, replaced: Sequence[tuple[str, str]]) -> str:
    text = legible(text)
    for sign, code in replaced:
        text = text.replace(sign, code)
    return text


def junit(checks: Mapping[str, Check]) -> str:
    """Return a suite for each cluster, with a case for each workload that is touched and each object with a finding.

    Errors are failures; a warning is what a case that has passed has put out.
    """
    suites = "".join(_suite(name, found) for name, found in checks.items())
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="berth check">\n{suites}</testsuites>\n'


def _suite(name: str, found: Check) -> str:
    cases: dict[tuple[str, str], list[CheckFinding]] = {(each.kind, each.name): [] for each in found.workloads}
    for finding in found.findings:
        cases.setdefault((finding.kind, finding.name), []).append(finding)
    failed = sum(any(each.level == "error" for each in findings) for findings in cases.values())
    told = "".join(_case(*key, findings) for key, findings in cases.items())
    title = quoteattr(_xml(f"berth check{f' {name}' if name else ''}"))
    return f'  <testsuite name={title} tests="{len(cases)}" failures="{failed}">\n{told}  </testsuite>\n'


def _case(kind: str, name: str, findings: Sequence[CheckFinding]) -> str:
    file = next((each.file for each in findings if each.file), "")
    at = f" file={quoteattr(_xml(file))}" if file else ""
    body = ""
    for each in findings:
        text = _xml(each.text)
        if each.level == "error":
            body += f'      <failure message={quoteattr(text)} type="{each.level}"/>\n'
        else:
            body += f"      <system-out>{escape(text)}</system-out>\n"
    start = f"    <testcase classname={quoteattr(_xml(kind or 'cluster'))} name={quoteattr(_xml(name or 'nodes'))}{at}"
    return f"{start}>\n{body}    </testcase>\n" if body else f"{start}/>\n"


def _xml(text: str) -> str:
    """Return text without the characters that XML cannot have."""
    return legible(text)
