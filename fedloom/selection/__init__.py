"""Selection: the clients that take part in a round. One file for each way."""

from fedloom.selection.selection import (
    SELECTIONS,
    Selection,
    check_selection,
    cohorts,
    describe_selection,
    preference,
)

__all__ = ["SELECTIONS", "Selection", "check_selection", "cohorts", "describe_selection", "preference"]
