"""Recipes: published experiments, run again, and set beside the published numbers. One paper a module."""

from fedloom.recipes.cell import Cell
from fedloom.recipes.dpasgd2019 import DPASGD2019
from fedloom.recipes.mcmahan2017 import MCMAHAN2017
from fedloom.recipes.panda2018 import PANDA2018
from fedloom.recipes.paper import Paper
from fedloom.recipes.part import Part
from fedloom.recipes.samani2020 import SAMANI2020

PAPERS = {paper.name: paper for paper in (MCMAHAN2017, PANDA2018, DPASGD2019, SAMANI2020)}
"""Every paper that is reproduced, by name."""

__all__ = ["PAPERS", "Cell", "Paper", "Part"]
