# SPDX-License-Identifier: Apache-2.0
"""Admission check controllers: each package decides purely and acts in a thin loop."""
