"""Mixing: whose models make up whose, as a matrix M whose rows sum to one: X ← M·X over all clients' models."""

from fedloom.mixing.mixer import Mixer, Personal, identity, personal
from fedloom.mixing.neighbours import Neighbours, neighbours

__all__ = ["Mixer", "Neighbours", "Personal", "identity", "neighbours", "personal"]
