"""Templates of `-o jsonpath=`: what kubectl's reference of its JSONPath support shows, and what is refused in words.

The object and most templates are those of https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

import json

import pytest

from berth.cli.jsonpath_template import Template, TemplateError

LIST = {
    "kind": "List",
    "items": [
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
            "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]},
        },
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.2"},
            "status": {"capacity": {"cpu": "8"}, "addresses": [{"type": "another", "address": "127.0.0.3"}]},
        },
    ],
    "users": [
        {"name": "myself", "user": {}},
        {"name": "e2e", "user": {"username": "admin", "password": "secret"}},
    ],
    "count": 2,
    "is-complete": True,
    "nothing": None,
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("kind is {.kind}", "kind is List"),
        ("{.kind}", "List"),
        ("{['kind']}", "List"),
        ("{.users[0].name}", "myself"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.items[*]['metadata']['name']}", "127.0.0.1 127.0.0.2"),
        ("{..metadata.name}", "127.0.0.1 127.0.0.2"),
        ('{.users[?(@.name=="e2e")].user.password}', "secret"),
        ("{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}",
         '[127.0.0.1, {"cpu": "4"}] [127.0.0.2, {"cpu": "8"}] '),
        (r'{range .items[*]}{.metadata.name}{"\t"}{end}', "127.0.0.1\t127.0.0.2\t"),
        (r"{.items[*].metadata.labels.kubernetes\.io/hostname}", "127.0.0.1"),
        ("{range .users[*]}{$.kind}:{@.name};{end}", "List:myself;List:e2e;"),
        ("{range .items[*]}{range .status.addresses[*]}{.type} {end}/{end}", "LegacyHostIP /another /"),
        (".count", "2"),
        ("{.is-complete}", "true"),
        ("{.nothing}{.items[*].metadata.annotations}", ""),
        ("{.users[?(@.name=='}')].name}", ""),
        ("plain", None),
    ],
)  # fmt: skip
def test_what_kubectl_documents(template, filled):
    if filled is None:
        with pytest.raises(TemplateError):
            Template(template)
        return
    assert Template(template).filled(LIST) == filled


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("", "the template is missing"),
        ("{.users[0}", "has no closing brace"),
        ("{.items[*]", "{.items[*] has no closing brace"),
        ("{end}", "{end} without {range …} before it"),
        ("{range .items[*]}{.kind}", "{range .items[*]} has no {end}"),
        ("{if .kind}", "{if .kind} is not supported: a path such as {.pods[*].pod}, a string in quotes"),
        ("{.items | length}", "{.items | length} is not supported"),
        ("{.items[?(@.kind =~ 'N')]}", "is not supported"),
        (r'{"\q"}', "is no string"),
    ],
)
def test_what_is_not_supported_is_refused_in_words(template, said):
    with pytest.raises(TemplateError) as refused:
        Template(template)
    assert said in str(refused.value)


def test_a_field_that_no_answer_has_is_an_error_and_not_nothing():
    with pytest.raises(TemplateError, match=r"\{.itmes\[\*\]\}: the answer has no field 'itmes'; did you mean items\?"):
        Template("{.itmes[*]}").filled(LIST)
    with pytest.raises(TemplateError, match="it has kind, items, users"):
        Template("{.zzz}").filled(LIST)


def test_what_comes_from_a_cluster_does_not_steer_the_terminal():
    assert Template('{.a}{"\\n"}').filled({"a": "\x1b[31mred"}) == "\\x1b[31mred\n"
    assert "\x1b" not in Template("{.a}").filled(json.loads('{"a": {"b": "\\u001b[31m"}}'))
