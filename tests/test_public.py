"""The public names, pinned: changing one is a decision."""

import fedloom

PUBLIC = """
Algorithm Experiment History Run algorithms combine data engines errors fedavg fedsgd load local local_only mixing
partition personalised plot run runs server split sweep tasks
"""


def test_public_names() -> None:
    assert sorted(fedloom.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(fedloom, name) for name in fedloom.__all__)
