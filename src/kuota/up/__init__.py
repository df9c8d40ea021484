# SPDX-License-Identifier: Apache-2.0
"""The whole system on one machine, put together from server, controllers and runner."""
