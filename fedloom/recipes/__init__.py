"""Recipes: published experiments, run again, and set beside the published numbers. One paper a module."""

from fedloom.recipes.cell import Cell
from fedloom.recipes.mcmahan2017 import mcmahan2017

__all__ = ["Cell", "mcmahan2017"]
