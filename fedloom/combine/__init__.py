"""Combine: how much each reply counts."""

from fedloom.combine.replies import Reading, Replies, reading
from fedloom.combine.weighting import Weighting, by_accuracy, by_loss, by_size, excluding, uniform

__all__ = [
    "Reading",
    "Replies",
    "Weighting",
    "by_accuracy",
    "by_loss",
    "by_size",
    "excluding",
    "reading",
    "uniform",
]
