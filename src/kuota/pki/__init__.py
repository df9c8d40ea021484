# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates for our own servers.

`certificate` makes them with the `cryptography` package; `serving` loads them into TLS contexts and
judges whether clients will trust them, with OpenSSL through `ssl`.
"""
