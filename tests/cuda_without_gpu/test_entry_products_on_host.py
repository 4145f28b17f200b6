"""Test products of entries on a GPU, as the gradients compute them, with their kernels run on the host."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_host import needs_compiler
from test_sparse_on_host import device  # noqa: F401  # a fixture

import semiring as sr
from semiring.autodiff import entry_products
from semiring.errors import ShapeError

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def compiled():
    return {}


def draw_places(rng, shape, count, order, is_padded):
    """Return places in a matrix: ascending, in any order, or repeated, and two beyond the shape."""
    flat = rng.permutation(shape[0] * shape[1])[:count]
    flat = np.sort(flat) if order == "ascending" else flat
    flat = np.append(flat, flat[:5]) if order == "repeated" else flat
    places = np.stack(np.unravel_index(flat, shape))
    return np.append(places, np.array(shape)[:, None] * [1, 1], axis=1) if is_padded else places


@needs_compiler
@pytest.mark.parametrize("order", ["ascending", "any", "repeated"])
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("form", ["rows", "columns", "mask"])
@pytest.mark.parametrize("index", [np.int32, np.int64, np.uint8])
def test_products_and_their_entries_are_those_of_the_host(order, is_padded, form, index, device, rng):  # noqa: F811
    m, k, n, batch = 13, 17, 6, (3,)
    shape = {"rows": (m, k), "columns": (k, n), "mask": (m, n)}[form]
    places = draw_places(rng, shape, 40, order, is_padded).astype(index)
    A, B = rng.integers(0, 4, (*batch, m, k)).astype(float), rng.integers(0, 4, (*batch, k, n)).astype(float)
    listed = [None, None, None]
    listed[("rows", "columns", "mask").index(form)] = places[None]
    if form == "rows":
        A = rng.integers(0, 4, (1, places.shape[1])).astype(float)
    if form == "columns":
        B = rng.integers(0, 4, (1, places.shape[1])).astype(float)
    options = m, k, n, sr.min_plus, True, is_padded
    expected = entry_products.entry_product_with_places(A, B, *listed, *options)
    there = [None if x is None else device.asarray(x) for x in (A, B, *listed)]
    found = entry_products.entry_product_with_places(*there, *options)
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x.get(), y)
    np.testing.assert_array_equal(entry_products.entry_product(*there, *options).get(), expected[0])


@needs_compiler
@pytest.mark.parametrize(("row", "column", "text"), [(-1, 0, "negative"), (0, -1, "negative"), (2, 0, "outside")])
def test_places_outside_are_refused(row, column, text, device):  # noqa: F811
    places = np.array([[[0, row, 1], [1, column, 1]]])
    arrays = [device.asarray(x) for x in (np.ones((1, 3)), np.ones((1, 2, 2)), places)]
    with pytest.raises(ShapeError, match=text):
        entry_products.entry_product(*arrays, None, None, 2, 2, 2, sr.min_plus, True, False)
