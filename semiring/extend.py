"""Add closure methods and rewriting rules to the library, and remove them again."""

from semiring.algorithms.methods import Method, register_method, unregister_method
from semiring.closures.rules import register_rule, unregister_rule

__all__ = ["Method", "register_method", "register_rule", "unregister_method", "unregister_rule"]
