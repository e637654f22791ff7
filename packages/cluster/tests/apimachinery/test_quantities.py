"""Canonical quantities, after the documentation of k8s.io/apimachinery/pkg/api/resource and its examples."""

import pytest

from berth.api.quantity import QuantityError, parse
from berth_cluster.apimachinery.quantities import canonical


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1024Mi", "1Gi"),
        ("1023", "1023"),
        ("512Ki", "512Ki"),
        ("1e3", "1e3"),
        ("1500e3", "1500e3"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-5", "-5"),
        (2, "2"),
        (0.1, "100m"),
    ],
)
def test_quantities_are_canonical(given, kept):
    assert canonical(given) == kept
    assert parse(kept) == parse(given)


@pytest.mark.parametrize("text", ["", " ", "1 Gi", "lots", "1GiB"])
def test_what_is_no_quantity(text):
    with pytest.raises(QuantityError):
        canonical(text)
