"""Splits: which of the dealt examples are for training, validation and testing. One scheme a file."""

from fedloom.data.split.naive import naive
from fedloom.data.split.split import Shares, Split
from fedloom.data.split.stratified import stratified
from fedloom.data.split.temporal import temporal

__all__ = ["Shares", "Split", "naive", "stratified", "temporal"]
