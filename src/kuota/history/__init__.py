# SPDX-License-Identifier: Apache-2.0
"""Records what jobs used, and accounts for it: who used what, for how long, and what was lost."""
