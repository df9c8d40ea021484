# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from kuota.api.base import Key
from kuota.control.mute import Mute

A, B, C = (Key("ns", each) for each in "abc")


def _all(key: Key) -> bool:
    return True


def test_each_is_handed_out_once() -> None:
    mute = Mute()
    for key in (B, A):
        mute.put(key, "class")
    assert [A, B] == mute.take("class", _all)
    mute.put(A, "class")
    assert [] == mute.take("class", _all)


def test_only_those_of_the_class_that_are_wanted() -> None:
    mute = Mute()
    mute.put(A, "class")
    mute.put(B, "class")
    mute.put(C, "another")
    assert [B] == mute.take("class", lambda key: key != A)
    assert [A] == mute.take("class", _all)


def test_who_has_said_something_is_not_handed_out_and_may_fall_silent_again() -> None:
    mute = Mute()
    mute.put(A, "class")
    mute.drop(A)
    assert [] == mute.take("class", _all)
    mute.put(A, "class")
    assert [A] == mute.take("class", _all)


def test_one_that_is_alike_to_none_is_nobodys_business() -> None:
    mute = Mute()
    mute.put(A, "")
    assert [] == mute.take("", _all)
