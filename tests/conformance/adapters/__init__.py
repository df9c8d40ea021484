# SPDX-License-Identifier: Apache-2.0
"""One module a group of cases: how the recorded inputs reach Kuota's code, and what is compared."""
