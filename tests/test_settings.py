from pathlib import Path

import pytest

import fedloom.settings as settings
from fedloom.errors import ArgumentError, UnknownName


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDLOOM_DATA", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_option_environment_config_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert settings.data_folder() == tmp_path / "home" / ".local" / "share" / "fedloom"
    (tmp_path / "home" / ".config").mkdir(parents=True)
    (tmp_path / "home" / ".config" / "fedloom.toml").write_text('data_folder = "~/mine"')
    assert settings.data_folder() == tmp_path / "home" / "mine"
    (tmp_path / "fedloom.toml").write_text('data_folder = "here"')
    assert settings.data_folder() == Path("here")
    monkeypatch.setenv("FEDLOOM_DATA", "/there")
    assert settings.data_folder() == Path("/there")
    with settings.looking_in(Path("/chosen")):
        assert settings.data_folder() == Path("/chosen")
        assert settings.data_folder("/given") == Path("/given")
        with settings.looking_in(None):
            assert settings.data_folder() == Path("/chosen")
    assert settings.data_folder() == Path("/there")
    assert settings.data_folder("/given") == Path("/given")


def test_a_config_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "fedloom.toml").write_text("data_folder = ")
    with pytest.raises(ArgumentError, match=r"fedloom.toml must be TOML"):
        settings.data_folder()
    (tmp_path / "fedloom.toml").write_text("folder = 'x'")
    with pytest.raises(UnknownName, match=r"a setting in fedloom.toml must be one of data_folder, but is 'folder'"):
        settings.data_folder()
