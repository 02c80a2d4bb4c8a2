"""Measures: the names of what a history says about models: whose model, on which part of the data, which metric.

| column | model | examples |
|---|---|---|
| ``test_accuracy`` | the shared model | everybody's test examples |
| ``own_test_accuracy`` | each client's own model | the client's own test examples, all clients together |
| ``own_on_all_test_accuracy`` | each client's own model | everybody's test examples; mean over clients |
| ``mean_test_accuracy`` | the mean of all clients' models | everybody's test examples |

Numbers under different names are not comparable: the models differ, or the examples do.
"""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ("train", "validation", "test")
SHARED, OWN, OWN_ON_ALL, MEAN = "", "own", "own_on_all", "mean"
PREFIXES = {SHARED: "", OWN: "own_", OWN_ON_ALL: "own_on_all_", MEAN: "mean_"}
"""Whose model on whose examples → what the names of such columns begin with."""
LABELS = {
    SHARED: "shared model",
    OWN: "own models on own data",
    OWN_ON_ALL: "own models on everybody's data",
    MEAN: "mean of all models",
}


@dataclass(frozen=True)
class Measure:
    """A metric of some models on a part of the data.

    Arguments:
        models: whose model on whose examples: SHARED, OWN, OWN_ON_ALL or MEAN.
        part: ``train``, ``validation`` or ``test``.
        metric: such as ``accuracy``.
    """

    models: str
    part: str
    metric: str

    @property
    def column(self) -> str:
        """The name of its column in a history."""
        return f"{PREFIXES[self.models]}{self.part}_{self.metric}"

    @property
    def label(self) -> str:
        """Its name for people.

        >>> Measure(SHARED, "test", "accuracy").label, Measure(OWN, "test", "accuracy").label
        ('test accuracy', 'test accuracy of own models on own data')
        """
        named = f"{self.part} {self.metric.replace('_', ' ')}"
        return named if self.models == SHARED else f"{named} of {LABELS[self.models]}"


def parse(column: str) -> Measure | None:
    """Return the measure that a column of a history holds; ``None`` for other columns.

    >>> parse("own_on_all_test_accuracy"), parse("update_norm")
    (Measure(models='own_on_all', part='test', metric='accuracy'), None)
    """
    for models in (OWN_ON_ALL, OWN, MEAN, SHARED):
        part, _, metric = column.removeprefix(PREFIXES[models]).partition("_")
        if column.startswith(PREFIXES[models]) and part in PARTS and metric:
            return Measure(models, part, metric)
    return None


def label(column: str) -> str:
    """The name of a column for people.

    >>> label("own_test_accuracy"), label("update_norm")
    ('test accuracy of own models on own data', 'update norm')
    """
    measure = parse(column)
    return measure.label if measure else column.replace("_", " ")
