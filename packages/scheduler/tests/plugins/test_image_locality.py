"""ImageLocality: scores against upstream's thresholds and scaling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.plugins.image_locality import ImageLocality, image_score, normalized_image_name, scaled_size
from packages.scheduler.tests.plugins.resource_support import same_scores
from packages.scheduler.tests.plugins.support import handle_of

MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.27", "nginx:1.27"),
        ("registry:5000/nginx", "registry:5000/nginx:latest"),
        ("registry:5000/nginx:v1", "registry:5000/nginx:v1"),
        ("nginx@sha256:abc", "nginx@sha256:abc"),
    ],
)
def test_names_get_their_tag(name, expected):
    assert normalized_image_name(name) == expected


@pytest.mark.parametrize(
    ("mib", "containers", "expected"),
    [(0, 1, 0), (23, 1, 0), (1000, 1, 100), (5000, 1, 100), (1000, 2, 49), (2000, 2, 100), (511.5, 1, 50)],
)
def test_thresholds(mib, containers, expected):
    assert image_score(int(mib * MIB), containers) == expected


def test_sizes_are_scaled_by_the_share_of_nodes_that_have_the_image():
    assert scaled_size(300 * MIB, 1, 3) == 100 * MIB
    assert scaled_size(10, 1, 3) == 3


SMALL = make_node("small").image("small:latest", "registry/small:latest", size_bytes=40 * MIB)
LARGE = make_node("large").image("large:latest", size_bytes=250 * MIB).image("extra:v1", size_bytes=2000 * MIB)


@pytest.mark.parametrize(
    ("pod", "small", "large"),
    [
        # Half of the nodes have each: 20 and 125 MiB, of which 23 score nothing, out of two times 1000.
        (make_pod().container("small").container("large"), 0, 100 * (125 - 23) // (2000 - 23)),
        (make_pod().init_container("large").container("registry/small"), 0, 100 * (125 - 23) // (2000 - 23)),
        (make_pod().container("large").container("large"), 0, 100 * (250 - 23) // (2000 - 23)),
        (make_pod().container("extra:v1"), 0, 100),
        (make_pod().container("extra"), 0, 0),
        (make_pod().container("unknown"), 0, 0),
        # An image volume adds to the sum, not to the number of containers.
        (
            make_pod().container("unknown").volume("data", image={"reference": "large"}),
            0,
            100 * (125 - 23) // (1000 - 23),
        ),
    ],
)
def test_scores(pod, small, large):
    handle = handle_of(SMALL.build(), LARGE.build())
    scores = same_scores(ImageLocality(None, handle), pod.info(), handle.cache.table)
    assert scores == {"small": small, "large": large}


def test_a_node_that_comes_or_goes_changes_the_share():
    handle = handle_of(LARGE.build())
    plugin, pod = ImageLocality(None, handle), make_pod().container("large").info()
    assert same_scores(plugin, pod, handle.cache.table) == {"large": 100 * (250 - 23) // 977}
    handle.cache.put_node(SMALL.build())
    assert same_scores(plugin, pod, handle.cache.table)["large"] == 100 * (125 - 23) // 977
    handle.cache.remove_node("small")
    assert same_scores(plugin, pod, handle.cache.table) == {"large": 100 * (250 - 23) // 977}


IMAGES = st.lists(
    st.tuples(st.sampled_from(("a:1", "b:1", "c:1")), st.sampled_from((0, 30, 500, 3000))),
    max_size=3,
    unique_by=lambda i: i[0],
)


@given(st.lists(IMAGES, min_size=1, max_size=6), st.lists(st.sampled_from(("a:1", "b:1", "c:1", "d:1")), min_size=1))
def test_both_forms_agree(nodes, wanted):
    handle = handle_of()
    pod = make_pod()
    for image in wanted:
        pod.container(image)
    plugin = ImageLocality(None, handle)
    for number, images in enumerate(nodes):
        node = make_node(f"n{number % 4}")
        for image, mib in images:
            node.image(image, size_bytes=mib * MIB)
        handle.cache.put_node(node.build())
        same_scores(plugin, pod.info(), handle.cache.table)


def test_pods_of_the_same_images_have_the_same_signature():
    of = ImageLocality(None, handle_of()).signature
    assert of(make_pod("a").container("x").container("y").info()) == of(
        make_pod("b").container("y").container("x").info()
    )
    assert of(make_pod().container("x").info()) != of(make_pod().container("x").container("x").info())
