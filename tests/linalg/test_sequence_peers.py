"""Test hidden Markov models and linear chains against the libraries for them, if those are installed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import semiring as sr


def test_a_hidden_markov_model_is_that_of_hmmlearn(rng):
    hmm = pytest.importorskip("hmmlearn.hmm", reason="hmmlearn is not installed")
    states, kinds, steps = 5, 4, 60
    begin, change, shows = (rng.dirichlet(np.ones(n), m) for m, n in ((1, states), (states, states), (states, kinds)))
    seen = rng.integers(0, kinds, steps)
    model = hmm.CategoricalHMM(states)
    model.startprob_, model.transmat_, model.emissionprob_ = begin[0], change, shows
    begin, change, emit = np.log(begin[0]), np.log(change), np.log(shows[:, seen].T)
    forward = np.vstack([begin + emit[0], sr.scan(change, begin + emit[0], "log_plus", weights=emit[1:])])
    total = sr.reduce(forward[-1], "log_plus")
    np.testing.assert_allclose(total, model.score(seen[:, None]), rtol=1e-12)
    backward = np.vstack([_backward(change, emit), np.zeros(states)])
    np.testing.assert_allclose(np.exp(forward + backward - total), model.predict_proba(seen[:, None]), rtol=1e-9)
    best, before = sr.multi_dot(change, begin + emit[0], "max_plus", weights=emit[1:], return_witness=True)
    likelihood, path = model.decode(seen[:, None])
    np.testing.assert_allclose(best.max(), likelihood, rtol=1e-12)
    np.testing.assert_array_equal([*before[:, best.argmax()], best.argmax()], path)


def _backward(change, emit):
    """Return the log probabilities of what follows each state: products from the right, with weights before."""
    turned = change.T[None] + emit[1:, :, None]
    return sr.scan(turned[::-1], np.zeros(change.shape[0]), "log_plus")[::-1]


@pytest.mark.parametrize("stored", [1.0, 0.3])
def test_best_paths_are_those_of_librosa(stored, rng):
    """The most likely states, and their likelihood, are bitwise equal; without librosa, those of its recurrence."""
    states, steps, tiny = 30, 50, np.finfo(np.float64).tiny
    begin, change, seen = (rng.dirichlet(np.ones(states), m) for m in (1, states, steps))
    change[rng.random(change.shape) >= stored] = 0
    change[np.arange(states), np.arange(states)] += 1 - change.sum(1)
    first, A, emit = (np.log(p + tiny) for p in (begin[0], change, seen))
    score, before = sr.multi_dot(A, first + emit[0], "max_plus", weights=emit[1:], return_witness=True)
    found = [*before[:, score.argmax()], score.argmax()]
    try:
        from librosa.sequence import viterbi
    except ImportError:
        value, places = emit[0] + first, []
        for t in range(1, steps):
            terms = value[:, None] + A
            places.append(terms.argmax(0))
            value = emit[t] + terms.max(0)
        expected, likelihood = [value.argmax()], value.max()
        for place in reversed(places):
            expected.insert(0, place[expected[0]])
    else:
        expected, likelihood = viterbi(seen.T, change, p_init=begin[0], return_logp=True)
    np.testing.assert_array_equal(found, expected)
    assert score.max() == likelihood
    stored = change > 0
    sparse = scipy.sparse.csr_array((A[stored], stored.nonzero()), shape=A.shape)
    score, before = sr.multi_dot(sparse, first + emit[0], "max_plus", weights=emit[1:], return_witness=True)
    np.testing.assert_array_equal([*before[:, score.argmax()], score.argmax()], expected)
    assert score.max() == likelihood


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")  # torch-struct 0.5 defines none
def test_a_linear_chain_is_that_of_torch_struct(rng):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    struct = pytest.importorskip("torch_struct", reason="torch-struct is not installed")
    import semiring.torch as st

    batch, steps, states = 3, 7, 4
    pairs, unary = (
        torch.tensor(rng.normal(size=(states, states))),
        torch.tensor(rng.normal(size=(steps, batch, states))),
    )
    unary.requires_grad_()
    # theirs: (batch, steps - 1, state after, state before), with the first place's scores in the first step
    scores = pairs.T + unary[1:].permute(1, 0, 2)[..., None]
    first = torch.zeros(steps - 1, dtype=torch.float64)
    first[0] = 1
    scores = scores + first[None, :, None, None] * unary[0][:, None, None, :]
    theirs = struct.LinearChainCRF(scores.detach())
    total = st.reduce(st.multi_dot(pairs, unary[0], "log_plus", weights=unary[1:]), "log_plus", axis=-1)
    np.testing.assert_allclose(total.detach(), theirs.partition.detach(), rtol=1e-10)
    (marginals,) = torch.autograd.grad(total.sum(), unary)
    edges = theirs.marginals.detach()
    np.testing.assert_allclose(marginals[1:].permute(1, 0, 2), edges.sum(-1), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(marginals[0], edges[:, 0].sum(-2), rtol=1e-8, atol=1e-12)
    best = sr.multi_dot(pairs.numpy(), unary[0].detach().numpy(), "max_plus", weights=unary[1:].detach().numpy())
    np.testing.assert_allclose(best.max(-1), theirs.max.detach(), rtol=1e-12)
