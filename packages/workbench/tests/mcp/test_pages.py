"""Long answers in pages: nothing is lost, nothing comes twice, no page is long, and what is kept is bounded."""

import random

import msgspec
import pytest

from berth_workbench.mcp.pages import KEPT, PAGE_BYTES, AnswerPages
from berth_workbench.mcp.refusals import CallRefused


def drawn(rng, depth=0):
    """A document as answers are: objects of few fields, lists and objects by name, long ones among them."""
    kind = rng.choice(("text", "number", "list", "names", "fields")) if depth else "fields"
    if kind == "list" and depth < 4:
        return [drawn(rng, depth + 1) for _ in range(rng.choice((0, 2, 90 if depth < 2 else 5)))]
    if kind == "names" and depth < 3:
        return {f"pool/{at}~{at}:x": drawn(rng, depth + 2) for at in range(rng.choice((3, 3, 80)))}
    if kind == "fields" and depth < 4:
        return {f"field{at}": drawn(rng, depth + 1) for at in range(5)}
    return rng.choice((rng.randint(0, 10**9), "x" * rng.randint(0, 60), None, True))


def length_of(page):
    return len(msgspec.json.encode(page.value)) + len(msgspec.json.encode(page.pages))


def whole(pages, first):
    """Put a document together again by its cursors."""
    document, open_pages, lengths = first.value, dict(first.pages), [length_of(first)]
    while open_pages:
        pointer, page = open_pages.popitem()
        more = pages.more(page["cursor"])
        lengths.append(length_of(more))
        place = document
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            place = place[int(key)] if isinstance(place, list) else place[key]
        assert len(place) == page["shown"][1], "what was shown before ends where this begins"
        place.update(more.value) if isinstance(place, dict) else place.extend(more.value)
        open_pages |= more.pages
    return document, lengths


@pytest.mark.parametrize("seed", range(20))
def test_reading_on_gives_the_whole_document(seed):
    rng = random.Random(seed)
    document = {"long": ["x" * 60] * 2000, "deep": [drawn(rng, 2) for _ in range(60)], **drawn(rng)}
    pages = AnswerPages()
    found, lengths = whole(pages, pages.first(msgspec.json.decode(msgspec.json.encode(document))))
    assert found == document
    assert max(lengths) <= PAGE_BYTES


def test_a_short_document_is_one_page_and_is_not_kept():
    pages = AnswerPages()
    first = pages.first({"pods": list(range(100))})
    assert first.value == {"pods": list(range(100))} and first.pages == {}
    with pytest.raises(CallRefused):
        pages.more("0123456789ab:/pods:10")


def test_the_oldest_answer_makes_room():
    pages = AnswerPages()
    cursors = [pages.first({"at": at, "rows": ["x" * 50] * 2000}).pages["/rows"]["cursor"] for at in range(KEPT + 1)]
    with pytest.raises(CallRefused) as raised:
        pages.more(cursors[0])
    assert raised.value.code == "gone"
    assert all(pages.more(cursor).value for cursor in cursors[1:])


@pytest.mark.parametrize("change", ["/rows:-1", "/rows:x", "/no:3", "/rows/0:1", "", ":", "/rows/99999:0", "/rows"])
def test_a_cursor_that_nobody_has_given_is_refused(change):
    pages = AnswerPages()
    name = pages.first({"rows": ["x" * 50] * 2000}).pages["/rows"]["cursor"].partition(":")[0]
    with pytest.raises(CallRefused) as raised:
        pages.more(f"{name}:{change}")
    assert raised.value.code == "argument"
