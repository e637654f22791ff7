"""Names keep their order, as texts and as people count, and names that are made of names stay so."""

import string
from random import Random

import pytest

from berth_workbench.planning.whatif import natural
from berth_workbench.snapshot.ordered_names import OrderedNames, with_few_digits
from berth_workbench.snapshot.well_known import WORDS


def random_name(rng):
    """One of few letters and digits, so that names share beginnings."""
    tokens = ["".join(rng.choices("abz0129", k=rng.randrange(1, 4))) for _ in range(rng.randrange(1, 5))]
    tokens += rng.choices(["kube", "default", "system", "r", "rbd", "sys", "t", "true", "node"], k=rng.randrange(2))
    rng.shuffle(tokens)
    name = tokens[0]
    for token in tokens[1:]:
        name += rng.choice("--.") + token
    return name


@pytest.mark.parametrize("seed", range(30))
def test_names_keep_their_order_among_each_other_and_among_those_that_stay(seed):
    rng = Random(seed)
    texts = {random_name(rng) for _ in range(200)}
    names = OrderedNames(texts, rng.sample(sorted(texts), 5))
    became = {text: names.of(text) for text in texts}
    assert len(set(became.values())) == len(texts)
    assert sorted(texts) == sorted(texts, key=became.__getitem__)
    padded = {text for text in texts if not any(part[0] == "0" and len(part) > 1 for part in numbers_in(text))}
    assert sorted(padded, key=natural) == sorted(padded, key=lambda text: natural(became[text]))
    for word in WORDS:
        if word.isalpha():
            for text in texts:
                assert (text < word, text == word) == (became[text] < word, became[text] == word), (text, word)


def numbers_in(text):
    return "".join(letter if letter.isdecimal() else " " for letter in text).split()


@pytest.mark.parametrize("seed", range(30))
def test_what_is_put_together_of_names_is_put_together_of_what_they_become(seed):
    rng = Random(seed)
    owners = {f"{rng.choice(string.ascii_lowercase)}{random_name(rng)}" for _ in range(20)}
    made = {}
    for owner in owners:
        for ordinal in range(0, rng.randrange(1, 40), 3):
            made[f"{owner}-{ordinal}"] = (owner, ordinal)
            made[f"data-{owner}-{ordinal}"] = (f"data-{owner}", ordinal)
    names = OrderedNames({*owners, *made, "data", *(f"data-{owner}" for owner in owners)}, owners)
    for name, (owner, ordinal) in made.items():
        assert names.of(name) == f"{names.of(owner)}-{ordinal}"
    for owner in owners:
        assert names.of(f"data-{owner}") == f"{names.of('data')}-{names.of(owner)}"


def test_nothing_is_left_of_words_and_numbers():
    texts = ["ip-10-87-3-17.eu-west-1.internal", "customer-4711", "room204", "Vault_Prod", "aws:///eu/i-0abc"]
    names = OrderedNames(texts)
    for text in texts:
        became = names.of(text)
        for part in ("87", "17", "eu", "west", "internal", "customer", "4711", "204", "room", "ault", "aws", "abc"):
            assert part not in became, (text, became)


def test_numbers_get_the_digits_that_tell_them_apart():
    assert with_few_digits(["42", "77"]) == {"42": "10", "77": "20"}
    assert with_few_digits(["0", "1", "2", "10", "11"]) == {each: each for each in ("0", "1", "2", "10", "11")}
    assert with_few_digits(["9", "300"]) == {"9": "2", "300": "100"}
    assert with_few_digits(["007", "010"]) == {"007": "001", "010": "010"}


def test_again_nothing_changes():
    rng = Random(7)
    texts = {name for name in (random_name(rng) for _ in range(300)) if not name[0].isdecimal()}
    once = OrderedNames(texts)
    became = {once.of(text) for text in texts}
    assert {OrderedNames(became).of(each) for each in became} == became
