"""Warnings reach people and scripts alike."""

import json

import pytest

from fedloom.cli.shared import tell, told, warn
from fedloom.errors import warn as issue


def test_a_warning_is_printed_once_even_if_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with told(debug=False):
        for _ in range(2):
            issue("the column 'row' counts rows")
        warn("a file is missing")
        tell(True, False, {"round": 3}, "a table")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "Warning: the column 'row' counts rows\nWarning: a file is missing\n"


def test_json_lists_the_warnings_of_its_own_command(capsys: pytest.CaptureFixture[str]) -> None:
    with told(debug=False):
        issue("the column 'row' counts rows")
        tell(False, True, {"round": 3}, "a table")
    assert json.loads(capsys.readouterr().out) == {"round": 3, "warnings": ["the column 'row' counts rows"]}
    with told(debug=False):
        tell(False, True, [{"round": 3}])
    assert json.loads(capsys.readouterr().out) == {"results": [{"round": 3}], "warnings": []}
