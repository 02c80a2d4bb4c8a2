"""Combine: how much each reply counts, and what is made of them."""

from fedloom.combine.clipped import Clipped, clipped
from fedloom.combine.combined import combined
from fedloom.combine.combiner import Combiner, Mean, mean
from fedloom.combine.fair import Fair, fair
from fedloom.combine.replies import Reading, Replies, reading
from fedloom.combine.trimmed import Median, Trimmed, median, trimmed
from fedloom.combine.weighting import Weighting, by_accuracy, by_loss, by_size, excluding, uniform

__all__ = [
    "Clipped",
    "Combiner",
    "Fair",
    "Mean",
    "Median",
    "Reading",
    "Replies",
    "Trimmed",
    "Weighting",
    "by_accuracy",
    "by_loss",
    "by_size",
    "clipped",
    "combined",
    "excluding",
    "fair",
    "mean",
    "median",
    "reading",
    "trimmed",
    "uniform",
]
