"""The public names, pinned: changing one is a decision."""

import fedloom

PUBLIC = """
Experiment History Method Run Users algorithms clients combine data ditto dpa_sgd engines errors fedavg fedbn
federation fedper fedprox fedrep fedsgd fine_tune ifca load local local_only mixing partition personalised plot qfedavg
routing run runs scaffold server split sweep tasks
"""


def test_public_names() -> None:
    assert sorted(fedloom.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(fedloom, name) for name in fedloom.__all__)
