"""Certificates and tokens of the tests: made anew each time, in a folder that goes with it."""

import datetime
import ipaddress
import json
import base64
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = "https://login.example.org/"
AUDIENCE = "isomer"


def _pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _builder(name, key, issuer):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def authority(folder, prefix=""):
    """An authority with certificates for a server at 127.0.0.1 and for a client; the files by their names."""
    files = {}

    def write(name, content):
        path = folder / f"{prefix}{name}"
        path.write_bytes(content)
        files[name] = str(path)

    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{prefix}conformance")])
    ca = _builder(ca_name, ca_key, ca_name).add_extension(x509.BasicConstraints(True, None), True).sign(ca_key, hashes.SHA256())
    write("ca.pem", ca.public_bytes(serialization.Encoding.PEM))
    for who, usage in (("server", ExtendedKeyUsageOID.SERVER_AUTH), ("client", ExtendedKeyUsageOID.CLIENT_AUTH)):
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = (
            _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)]), key, ca_name)
            .add_extension(x509.SubjectAlternativeName(names), False)
            .add_extension(x509.ExtendedKeyUsage([usage]), False)
            .sign(ca_key, hashes.SHA256())
        )
        write(f"{who}.pem", made.public_bytes(serialization.Encoding.PEM))
        write(f"{who}.key", _pem(key))
    return files


def _encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Provider:
    """An identity provider: its public key as a file, and tokens that it signed."""

    def __init__(self, folder):
        self._key = ec.generate_private_key(ec.SECP256R1())
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "use": "sig"}
        key.update({name: _encoded(number.to_bytes(32, "big")) for name, number in (("x", numbers.x), ("y", numbers.y))})
        self.jwks_file = folder / "jwks.json"
        self.jwks_file.write_text(json.dumps({"keys": [key]}))

    def token(self, scope, seconds):
        """A token that expires after this many seconds; negative: it has expired."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "conformance", "scope": scope, "iat": now - 3600, "exp": now + seconds}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "ES256", "typ": "JWT", "kid": "one"}, claims))
        r, s = utils.decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
