"""Certificates made on the fly: an authority, a server and whoever else is named."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates and leaves them in a folder, as name.pem and name.key."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.file = folder / "authority.pem"
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self._sign("authority", self.key, x509.BasicConstraints(ca=True, path_length=0))

    def issue(self, name: str) -> bytes:
        """Make a key and a certificate for a name; gives the certificate as DER."""
        key = ec.generate_private_key(ec.SECP256R1())
        kind, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (self.folder / f"{name}.key").write_bytes(key.private_bytes(kind, form, serialization.NoEncryption()))
        return self._sign(name, key, x509.BasicConstraints(ca=False, path_length=None))

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, constraints: x509.BasicConstraints) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(constraints, critical=True)
            .add_extension(here, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        (self.folder / f"{name}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return signed.public_bytes(serialization.Encoding.DER)

    def server(self) -> ssl.SSLContext:
        """What the server's side needs: it asks everybody for a certificate of this authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.file)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, name: str | None) -> ssl.SSLContext:
        """What a client's side needs."""
        context = ssl.create_default_context(cafile=self.file)
        if name:
            context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context
