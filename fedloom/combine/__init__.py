"""Combine: how much each reply counts."""

from fedloom.combine.fair import Fair, fair
from fedloom.combine.replies import Reading, Replies, reading
from fedloom.combine.weighting import Weighting, by_accuracy, by_loss, by_size, excluding, uniform

__all__ = [
    "Fair",
    "Reading",
    "Replies",
    "Weighting",
    "by_accuracy",
    "by_loss",
    "by_size",
    "excluding",
    "fair",
    "reading",
    "uniform",
]
