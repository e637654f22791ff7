"""Semantic versions: the grammar and precedence of semver.org 2.0.0, normalising as Kubernetes' CEL library says."""

from itertools import pairwise

import pytest

from berth.cel.semver import SemverError, normalized, parse_semver


def test_precedence_is_that_of_the_specification():
    ordered = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
               "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0", "2.0.0"]  # fmt: skip
    versions = [parse_semver(text) for text in ordered]
    assert all(one < other for one, other in pairwise(versions))


def test_build_metadata_does_not_count():
    assert parse_semver("1.0.0+a") == parse_semver("1.0.0+b")
    assert hash(parse_semver("1.0.0+a")) == hash(parse_semver("1.0.0"))


@pytest.mark.parametrize("text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-01", "1.2.3-", "a.b.c", "1.2.3 ", "200K"])
def test_what_is_no_version(text):
    with pytest.raises(SemverError, match="is not a semantic version"):
        parse_semver(text)


@pytest.mark.parametrize(
    ("text", "strict"),
    [("v1.0.0", "1.0.0"), ("1.0", "1.0.0"), ("01.01.01", "1.1.1"), ("1", "1.0.0"), ("v0.00.3-rc.1", "0.0.3-rc.1")],
)
def test_normalising(text, strict):
    assert normalized(text) == strict


def test_a_short_version_has_no_tags():
    with pytest.raises(SemverError, match="short version cannot contain PreRelease/Build meta data"):
        normalized("1.0-rc")
