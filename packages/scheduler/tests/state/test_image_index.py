"""The image index against a plain look at every row."""

from hypothesis import given
from hypothesis import strategies as st

from berth.api.node import ContainerImage
from berth.state.image_index import ImageIndex

NAMES = ("a:1", "b:1", "c:1")
IMAGES = st.lists(
    st.builds(ContainerImage, st.lists(st.sampled_from(NAMES), max_size=2).map(tuple), st.integers(0, 3)), max_size=3
).map(tuple)
ACTS = st.lists(st.tuples(st.integers(0, 7), IMAGES, st.sampled_from(NAMES)), max_size=30)


def look_at_all_rows(images_of, name):
    """Return the size by row of an image, as the nodes report it."""
    found = {}
    for row, images in images_of.items():
        for image in images:
            if name in image.names:
                found[row] = image.size_bytes
    return found


@given(ACTS)
def test_holders_are_what_the_rows_say_whatever_they_said_before(acts):
    index, images_of = ImageIndex(2), {}
    for row, images, asked in acts:
        if row >= 2:
            index.grow(8)
        index.put(row, images)
        images_of[row] = images
        holders = index.holders(asked)
        assert dict(zip(holders.rows.tolist(), holders.sizes.tolist(), strict=True)) == look_at_all_rows(
            images_of, asked
        )


def test_an_image_that_no_node_has_is_nowhere():
    index = ImageIndex(2)
    assert not len(index.holders("a:1").rows)
    index.put(0, (ContainerImage(("a:1",), 5),))
    assert index.holders("a:1").rows.tolist() == [0]
    index.put(0, ())
    assert not len(index.holders("a:1").rows)
