# SPDX-License-Identifier: Apache-2.0
"""Propagation of usage in the tree."""

from __future__ import annotations

import pytest

from engine.stage import GPU, groups
from kuota.engine.model import Quota
from kuota.engine.tree import QuotaTree, charge


@pytest.mark.parametrize("used", [1, 2, 5])
def test_what_a_queue_holds_back_of_less_than_nothing_is_not_the_cohorts_to_give(
    used: int,
) -> None:
    tree = QuotaTree()
    node = tree.put_queue("a", "team", groups(Quota(4, lending_limit=2)), 1.0)
    charge(node.cell(GPU), used)
    before = tree.cohorts["team"].cell(GPU).used

    charge(node.cell(GPU), -3)

    assert used - 3 == node.cell(GPU).used
    assert before == tree.cohorts["team"].cell(GPU).used
