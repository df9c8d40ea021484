# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, created in every run, so that the repository contains no keys."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import trustme


@cache
def folder() -> Path:
    """A folder with ca.crt, and certificate and key of server, client (alice) and other (bob)."""
    place = Path(tempfile.mkdtemp(prefix="kuota-test-certs-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(place / "ca.crt"))
    leaves = {
        "server": authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default"),
        "client": authority.issue_cert(common_name="alice", organization_name="team-a"),
        "other": authority.issue_cert(common_name="bob", organization_name="team-b"),
    }
    for name, leaf in leaves.items():
        leaf.cert_chain_pems[0].write_to_path(str(place / f"{name}.crt"))
        leaf.private_key_pem.write_to_path(str(place / f"{name}.key"))
    return place
