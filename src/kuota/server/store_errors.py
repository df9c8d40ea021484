# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with the store. Messages say what, where and, if anything helps, what to do."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not do what was asked, and changed nothing."""


class NotFound(StoreError):
    """No such object."""


class AlreadyExists(StoreError):
    """An object of that name is there already."""


class Conflict(StoreError):
    """The object is not at the revision that the caller expected."""


class Gone(StoreError):
    """The log does not reach from that revision to now: list afresh and watch from there."""


class TooNew(StoreError):
    """A later version of Kuota wrote this file."""


class InUse(StoreError):
    """Another process has this file open for writing."""
