# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates for servers of our own, made with nothing but Python.

Everything that protects traffic is OpenSSL's, through `ssl`. What that cannot do is make a
certificate; `certificate` does, and `serving` hands it over.
"""
