"""Compute gradients of products and closures for `semiring.torch` and `semiring.jax`.

Three kinds of ⊕ have a gradient, see `semiring.autodiff.rules`:

* A selective ⊕ (min, max). C[i, j] is the one term a ⊗ b that was selected. Its derivatives by a and b are those of ⊗,
  and its other derivatives are 0. That is the gradient if one term is best, and a subgradient if several tie. The
  derivative of ⊗ is computed from its expression, see `derivatives`. An entry D[i, j] of a closure is the product along
  one best path. On the tree of the best paths from i it is D[i, p] ⊗ A[p, j] for the predecessor p of j. So gradients
  are sums up the trees, see `path_trees`.
* log_plus. C[i, j] = log Σₖ exp(A[i, k] + B[k, j]) has the derivative exp(A[i, k] + B[k, j] - C[i, j]) by both. The
  closure S = A* has exp(S[i, k] + A[k, l] + S[l, j] - S[i, j]) by A[k, l]: from ds = s·da·s for s = exp(S), a = exp(A).
  Sums of such terms are products of matrices kept as mantissas and exponents, see `scaled`.
* plus_times: dC = dA·B + A·dB, and dS = S·dA·S for S = (I - A)⁻¹.

`primitives` is the table of all primitives: computation, shapes and gradient. `semiring.torch.operators` and
`semiring.jax` register them with their libraries.

The functions of this package take NumPy arrays. The functions of `path_trees` and `scaled` also take arrays of CuPy.
Derivatives consist of gathers, scatters and products of such matrices, which are differentiable. So second derivatives
exist.
"""
