# SPDX-License-Identifier: Apache-2.0
"""New certificates equal those of Kuota 0.1.0 in content, and both are trusted together.

`made_by_0_1_0` holds what that version wrote with its own DER encoder: `server.*` as `kuota up`
keeps them (valid until 2036), the others as the controller keeps them in its Secret (valid until
2126). The tests of those two components show that they stay in use.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from kuota.pki.certificate import chain, self_signed
from kuota.pki.serving import Pair, trusted_until, unexpired
from kuota.server.http import LOOPBACK
from kuota.webhook.certificates import LIFETIME, CertificateSettings

FILES = Path(__file__).parent / "made_by_0_1_0"


def read(name: str) -> bytes:
    return (FILES / name).read_bytes()


def test_an_authority_of_the_earlier_version_stays_in_a_renewed_bundle() -> None:
    now = datetime.now(UTC)
    made = chain("kueue-ca", CertificateSettings().names, now, LIFETIME)
    bundle = made.authority + read("ca.crt")
    assert [made.authority, read("ca.crt")] == unexpired(bundle, now)
    earlier = Pair(read("tls.crt"), read("tls.key"))
    assert trusted_until(earlier, bundle, CertificateSettings().names[0]) is not None


def test_new_certificates_say_the_same_as_those_of_the_earlier_version() -> None:
    now = datetime.now(UTC)
    alone = self_signed(LOOPBACK, now)
    made = chain("kueue-ca", CertificateSettings().names, now, LIFETIME)
    for name, new in (
        ("server.crt", alone.certificate),
        ("ca.crt", made.authority),
        ("tls.crt", made.pair.certificate),
    ):
        assert contents(read(name)) == contents(new)
    for name, key in (("server.key", alone.key), ("tls.key", made.pair.key)):
        assert read(name).splitlines()[0] == key.splitlines()[0]
        assert len(read(name)) == len(key)


def contents(pem: bytes) -> tuple[object, ...]:
    """All that a certificate says, except what differs between any two: key, serial and dates."""
    certificate = x509.load_pem_x509_certificate(pem)
    of_the_key = (x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier)
    extensions = {
        each.oid: (each.critical, type(each.value) if isinstance(each.value, of_the_key) else each)
        for each in certificate.extensions
    }
    names = (certificate.issuer, certificate.subject)
    return certificate.version, *names, certificate.signature_algorithm_oid, extensions
