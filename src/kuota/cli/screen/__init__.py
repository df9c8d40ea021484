# SPDX-License-Identifier: Apache-2.0
"""The full-screen interface of `kuota watch`: pages of quota, jobs, one queue, one job and logs."""
