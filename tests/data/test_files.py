from pathlib import Path

import pytest

from fedloom.data.files import find, opened, replacing
from fedloom.errors import DataError


def test_find_looks_here_and_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.csv").touch()
    (tmp_path / "b.csv").touch()
    assert find("a.csv", tmp_path / "d") == tmp_path / "d" / "a.csv"
    assert find("b.csv", tmp_path / "d") == Path("b.csv")
    with pytest.raises(DataError, match=r"c.csv is neither here nor in the data folder"):
        find("c.csv", tmp_path / "d")


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    with pytest.raises(RuntimeError), replacing(tmp_path / "a") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert (tmp_path / "a").read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is missing"), opened(tmp_path / "no"):
        pass
    with pytest.raises(DataError, match="cannot be read"), opened(tmp_path):
        pass
    (tmp_path / "a.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"a.gz is truncated or damaged"), opened(tmp_path / "a.gz") as file:
        file.read()
    (tmp_path / "a.csv").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=r"a.csv is not UTF-8 text"), opened(tmp_path / "a.csv", "rt") as file:
        file.read()
