# SPDX-License-Identifier: Apache-2.0
"""Admission check controllers: one package each, with pure rules that a common loop runs.

A controller is a subclass of `controller.CheckController`. `docs/own-admission-check.md` shows one.
"""
