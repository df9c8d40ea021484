# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates for Kuota's servers.

`certificate` creates them with the `cryptography` package. `serving` loads them into TLS contexts
and checks with OpenSSL, through `ssl`, whether clients will trust them.
"""
