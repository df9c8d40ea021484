# SPDX-License-Identifier: Apache-2.0
"""The certificates of a control plane for tests, created for each run."""

from __future__ import annotations

from pathlib import Path

import trustme


class Certificates:
    """Files in a folder: one authority for server and users, another for the front proxy."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.authority = folder / "ca.crt"
        authority, front = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        front.cert_pem.write_to_path(str(folder / "front-ca.crt"))
        names = ("127.0.0.1", "localhost", "kubernetes.default.svc")
        self._write("server", authority.issue_cert(*names))
        self._write("front", front.issue_cert(common_name="front-proxy-client"))
        # Tokens of service accounts are signed with any key that nobody else has.
        self._write("accounts", authority.issue_cert(common_name="accounts"))

    def file(self, name: str) -> Path:
        return self._folder / name

    def _write(self, name: str, leaf: trustme.LeafCert) -> None:
        leaf.cert_chain_pems[0].write_to_path(str(self._folder / f"{name}.crt"))
        leaf.private_key_pem.write_to_path(str(self._folder / f"{name}.key"))
