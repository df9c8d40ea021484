# SPDX-License-Identifier: Apache-2.0
"""Certificates that we create, verified by OpenSSL."""

from __future__ import annotations

import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from kuota.pki.certificate import chain, self_signed
from kuota.pki.serving import (
    BadCertificate,
    Pair,
    serving_context,
    show,
    trusted_until,
    unexpired,
)

NOW = datetime.now(UTC).replace(microsecond=0)
HOST = "kueue-webhook-service.kueue-system.svc"
DAY = timedelta(days=1)


def test_a_server_is_trusted_under_each_of_its_names_and_no_other() -> None:
    made = chain("ca", [HOST, "127.0.0.1", "::1"], NOW, 30 * DAY)
    for name in (HOST, "127.0.0.1", "::1"):
        assert NOW + 30 * DAY == trusted_until(made.pair, made.authority, name)
    assert trusted_until(made.pair, made.authority, "other.svc") is None


def test_another_authority_is_not_trusted_though_it_has_the_same_name() -> None:
    made, other = chain("ca", [HOST], NOW, DAY), chain("ca", [HOST], NOW, DAY)
    assert trusted_until(made.pair, other.authority, HOST) is None
    both = other.authority + made.authority
    assert trusted_until(made.pair, both, HOST) is not None


def test_what_has_expired_is_not_trusted() -> None:
    made = chain("ca", [HOST], NOW - 10 * DAY, 5 * DAY)
    assert trusted_until(made.pair, made.authority, HOST) is None


def test_a_machine_whose_clock_is_behind_trusts_what_was_just_made() -> None:
    made = chain("ca", [HOST], NOW + timedelta(hours=12), DAY)
    assert trusted_until(made.pair, made.authority, HOST) is not None


def test_a_key_of_another_certificate_is_not_shown() -> None:
    made, other = chain("ca", [HOST], NOW, DAY), chain("ca", [HOST], NOW, DAY)
    mixed = Pair(made.pair.certificate, other.pair.key)
    with pytest.raises(BadCertificate):
        show(serving_context(), mixed)
    assert trusted_until(mixed, made.authority, HOST) is None


@pytest.mark.parametrize("junk", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nx\n", b"\xff"])
def test_junk_is_not_trusted(junk: bytes) -> None:
    made = chain("ca", [HOST], NOW, DAY)
    assert trusted_until(Pair(junk, made.pair.key), made.authority, HOST) is None
    assert trusted_until(made.pair, junk, HOST) is None
    assert [] == unexpired(junk, NOW)


def test_strict_clients_accept_chain_and_self_signed_alike() -> None:
    made = chain("ca", [HOST], NOW, DAY)
    alone = self_signed([HOST], NOW)
    for authority, pair in ((made.authority, made.pair), (alone.certificate, alone)):
        client = ssl.create_default_context(cadata=authority.decode())
        client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
        server = serving_context()
        show(server, pair)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        asking = client.wrap_bio(back, there, server_hostname=HOST)
        answering = server.wrap_bio(there, back, server_side=True)
        for side in (asking, answering, asking):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        assert "TLSv1.3" == asking.version()


def test_authorities_that_have_expired_are_dropped_from_a_bundle() -> None:
    old, new = chain("ca", [HOST], NOW, 2 * DAY), chain("ca", [HOST], NOW, 9 * DAY)
    bundle = new.authority + old.authority
    assert [new.authority, old.authority] == unexpired(bundle, NOW)
    assert [new.authority] == unexpired(bundle, NOW + 3 * DAY)


def test_a_pair_does_not_show_its_key() -> None:
    assert "PRIVATE" not in repr(chain("ca", [HOST], NOW, DAY))


def test_versions_and_suites_are_named_as_in_a_configuration() -> None:
    assert ssl.TLSVersion.TLSv1_2 == serving_context().minimum_version
    assert ssl.TLSVersion.TLSv1_3 == serving_context("VersionTLS13").minimum_version
    suites = [
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
    ]
    named = {each["name"] for each in serving_context("VersionTLS12", suites).get_ciphers()}
    assert {"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305", "AES128-SHA"} <= named


@pytest.mark.parametrize(
    ("version", "suites"),
    [("VersionTLS11", []), ("", ["TLS_AES_128_GCM_SHA256"]), ("", ["TLS_NO_WITH_SUCH"])],
)
def test_versions_and_suites_that_do_not_exist_are_refused(version: str, suites: list[str]) -> None:
    with pytest.raises(ValueError, match=r"TLS|suite"):
        serving_context(version, suites)


def test_only_the_module_that_makes_certificates_imports_cryptography() -> None:
    script = (
        "import importlib, pkgutil, sys, kuota\n"
        "for each in pkgutil.walk_packages(kuota.__path__, 'kuota.'):\n"
        "    if not each.name.endswith(('.__main__', '.pki.certificate')):\n"
        "        importlib.import_module(each.name)\n"
        "print('kuota.up.installation' in sys.modules, 'cryptography' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "True False\n" == done.stdout, done.stderr
