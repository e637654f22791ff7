"""Extenders as configured, and one that answers in process as a test tells it to."""

import msgspec

from berth.framework.effects import ExtenderAnswer
from packages.scheduler.tests.support import with_profiles

URL = "http://extender.test/api"


def listed(url=URL, *verbs, **fields):
    """An entry of `extenders` with these verbs, which are called by their own names."""
    named = {f"{verb}Verb": verb for verb in verbs}
    weight = {"weight": 1} if "prioritize" in verbs else {}
    return {"urlPrefix": url, **named, **weight, **fields}


def configured(*extenders, **fields):
    """A configuration with extenders."""
    return with_profiles({}, extenders=list(extenders), **fields)


class FakeExtenders:
    """Takes the part of extenders: `answers` are functions of the document, by place and verb, or fixed answers."""

    def __init__(self, answers):
        self.answers = answers
        self.calls = []

    def __call__(self, call):
        document = msgspec.json.decode(call.body)
        self.calls.append((call.extender, call.verb, document))
        answer = self.answers[call.extender, call.verb]
        answer = answer(document) if callable(answer) else answer
        return answer if isinstance(answer, ExtenderAnswer) else ExtenderAnswer(msgspec.json.encode(answer))

    def verbs(self):
        return [(place, verb) for place, verb, _ in self.calls]


def names_of(document):
    """The nodes that a filter or prioritize call is about, in either form."""
    if document["NodeNames"] is not None:
        return document["NodeNames"]
    return [node["metadata"]["name"] for node in document["Nodes"]["items"]]


def keeping(*names, failed=None, unresolvable=None):
    """A filter that keeps of its nodes those of these names."""

    def answer(document):
        result = {"FailedNodes": failed, "FailedAndUnresolvableNodes": unresolvable, "Error": ""}
        if document["NodeNames"] is not None:
            return {**result, "Nodes": None, "NodeNames": [name for name in document["NodeNames"] if name in names]}
        items = [node for node in document["Nodes"]["items"] if node["metadata"]["name"] in names]
        return {**result, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

    return answer


FAILS = ExtenderAnswer(error="failed filter with extender at URL http://extender.test/api/filter, code 500")
