# SPDX-License-Identifier: Apache-2.0
"""Where keys lead."""

from __future__ import annotations

from kuota.cli.screen import keys
from kuota.cli.screen.navigation import Navigation, Order, ScreenPage, SelectedRow

ROWS = ("", "a", "a", "b", "c")


def pressed(nav: Navigation, *names: str, ids: tuple[str, ...] = ROWS) -> Navigation:
    for name in names:
        assert not nav.press(name, ids, 3)
    return nav


def test_enter_opens_and_escape_returns() -> None:
    nav = pressed(Navigation(), keys.DOWN, keys.ENTER)
    assert (ScreenPage.QUEUE, "a") == (nav.page, nav.opened[ScreenPage.QUEUE])
    pressed(nav, keys.ENTER, ids=("ns/w",))
    assert (ScreenPage.JOB, "ns/w") == (nav.page, nav.opened[ScreenPage.JOB])
    pressed(nav, "l", ids=("", "", "pod-1", "pod-2"))
    assert (ScreenPage.LOG, "pod-2") == (nav.page, nav.opened[ScreenPage.LOG])
    pressed(nav, keys.ESCAPE, keys.ESCAPE, keys.ESCAPE, ids=())
    assert ScreenPage.QUOTA is nav.page


def test_a_row_without_an_id_opens_nothing() -> None:
    assert ScreenPage.QUOTA is pressed(Navigation(), keys.ENTER).page
    assert ScreenPage.QUOTA is pressed(Navigation(), keys.ENTER, ids=()).page


def test_the_filter_takes_every_key_until_enter() -> None:
    nav = pressed(Navigation(), "/", "q", "2", keys.UP, keys.BACKSPACE, "x")
    assert (True, "qx", ScreenPage.QUOTA) == (nav.editing, nav.filter, nav.page)
    pressed(nav, keys.ENTER)
    assert (False, "qx") == (nav.editing, nav.filter)
    pressed(nav, keys.ESCAPE)
    assert "" == nav.filter


def test_each_page_has_its_own_filter() -> None:
    nav = pressed(Navigation(), "/", "x", keys.ENTER, "2")
    assert "" == nav.filter
    assert "x" == pressed(nav, "1").filter


def test_orders_take_turns() -> None:
    nav = Navigation()
    seen = [pressed(nav, "s").order for _ in Order]
    assert {*Order} == {*seen}
    assert pressed(nav, "r").reverse


def test_q_quits() -> None:
    assert Navigation().press("q", ROWS, 3)


def test_the_selection_stays_on_its_object() -> None:
    selection = SelectedRow()
    selection.move_to(3, ROWS)
    selection.follow(("b", "", "a"))
    assert 0 == selection.index
    selection.follow(("x",))
    assert 0 == selection.index
    selection.follow(())
    assert 0 == selection.index


def test_the_selection_moves_among_rows_of_one_object() -> None:
    selection = SelectedRow()
    selection.move_to(2, ROWS)
    selection.follow(ROWS)
    assert 2 == selection.index


def test_the_window_follows_the_selection_and_has_no_empty_lines() -> None:
    selection = SelectedRow()
    ids = [str(each) for each in range(100)]
    selection.move_to(50, ids)
    selection.scroll(10, len(ids))
    assert 41 == selection.top
    selection.move_to(45, ids)
    selection.scroll(10, len(ids))
    assert 41 == selection.top
    selection.move_to(3, ids)
    selection.scroll(10, len(ids))
    assert 3 == selection.top
    selection.scroll(10, 5)
    assert 0 == selection.top
