"""Recipes: published experiments, run again, and set beside the published numbers. One paper a module."""

from fedloom.recipes.cell import Cell
from fedloom.recipes.mcmahan2017 import PARTS, mcmahan2017
from fedloom.recipes.part import Part

__all__ = ["PARTS", "Cell", "Part", "mcmahan2017"]
