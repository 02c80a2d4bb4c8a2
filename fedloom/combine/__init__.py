"""Combine: how much each reply counts."""

from fedloom.combine.weighting import WEIGHTINGS, Weighting, by_size, uniform

__all__ = ["WEIGHTINGS", "Weighting", "by_size", "uniform"]
