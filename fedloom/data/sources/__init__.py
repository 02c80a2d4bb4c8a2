"""Sources: where examples come from, one data set a file; all give a :class:`~fedloom.data.dataset.Dataset`."""
