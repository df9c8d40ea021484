# SPDX-License-Identifier: Apache-2.0
"""What the pages of the dashboard show, as pure functions of API objects."""
