# SPDX-License-Identifier: Apache-2.0
"""The timeout of a test that hangs.

Tests wait for events, so a test that passes never waits this long, however busy the machine is.
The limit only turns a hang into a failure.
"""

HANG_S = 300
