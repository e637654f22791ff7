"""Whatever object has got into the cluster, nothing breaks, and a plain pod beside it is bound."""

from random import Random

import pytest

from berth.api.codec import ObjectError, decode
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from tests.fuzz.inputs import SAMPLES
from tests.fuzz.mutation import hostile

CASES = 25
KINDS = sorted(SAMPLES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_pod_is_bound_beside_whatever_is_there(kind):
    rng = Random(kind)
    taken_in = 0
    for number in range(CASES):
        found = VirtualCluster(make_node("plain").capacity(cpu="4", memory="8Gi", pods="10"))
        for other in rng.sample(KINDS, 4):
            found.put(decode(other, rng.choice(SAMPLES[other])))
        text = hostile(rng, rng.choice(SAMPLES[kind]))
        try:
            obj = decode(kind, text)
        except ObjectError:
            continue
        taken_in += 1
        found.put(obj)
        found.put(make_pod(f"plain-{number}").uid(f"plain-{number}").tolerate(operator="Exists").request(cpu="1m"))
        found.advance(60)
        assert found.nodes_of()[f"plain-{number}"], f"{text[:1000]!r}"
    assert taken_in, "all that was tried is refused when it is read"
