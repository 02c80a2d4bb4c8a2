from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fedloom.errors import MissingExtra
from fedloom.federation import certificate
from fedloom.federation.authority import init, issue
from fedloom.federation.certificate import fingerprint
from fedloom.federation.identity import identity_of
from fedloom.federation.keys import Keys


def test_a_fingerprint_is_what_others_show(authority: Path) -> None:
    cert = (authority / "ca.pem").read_bytes()
    shown = fingerprint(cert)
    assert shown == x509.load_pem_x509_certificate(cert).fingerprint(hashes.SHA256()).hex(":").upper()
    assert len(shown) == 95


def test_the_library_is_an_extra(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue(authority, "alice")
    cert = (authority / "alice" / "cert.pem").read_bytes()
    monkeypatch.setattr(certificate, "x509", None)
    for attempt in (
        lambda: init(authority / "new", "Hospitals"),
        lambda: issue(authority, "alice"),
        lambda: Keys.read(authority / "alice"),
        lambda: identity_of(cert),
    ):
        with pytest.raises(MissingExtra, match=r"this needs cryptography: pip install 'fedloom\[federation\]'"):
            attempt()
