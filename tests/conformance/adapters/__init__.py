# SPDX-License-Identifier: Apache-2.0
"""One module per group of cases: passes the inputs to Kuota and compares the results."""
