"""The version of XLA's interface for foreign functions is known, and an unknown one turns kernels off."""

import pytest

import fedloom.kernels.interface as interface


def test_the_installed_version_is_known() -> None:
    assert interface.version() in interface.KNOWN
    assert interface.unsupported() == ""


@pytest.mark.parametrize(("text", "said"), [
    ("#define XLA_FFI_API_MAJOR 1\n#define XLA_FFI_API_MINOR 0\n", "version 1.0 of the interface"),
    ("nothing of the kind", "version -1.-1 of the interface"),
])  # fmt: skip
def test_an_unknown_version_is_refused(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "header", lambda: text)
    interface.version.cache_clear()
    try:
        assert said in interface.unsupported()
    finally:
        interface.version.cache_clear()


def test_a_missing_header_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError("c_api.h")

    monkeypatch.setattr(interface, "header", missing)
    interface.version.cache_clear()
    try:
        assert "cannot be read (c_api.h)" in interface.unsupported()
    finally:
        interface.version.cache_clear()
