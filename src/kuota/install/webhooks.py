# SPDX-License-Identifier: Apache-2.0
"""The webhook configurations of an installation: asked only about what its configuration manages.

Kueue lists every integration and asks in all namespaces but two. Here an API server asks about the
kinds of jobs that the configuration names, in the namespaces that it selects: what is not managed
cannot be held up by a controller that is away.
"""

from __future__ import annotations

import msgspec

from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.webhook.manifests import configurations

from .network import WEBHOOK_SERVICE
from .settings import LABELS, PREFIX, Settings


def webhook_configurations(settings: Settings) -> list[Json]:
    """Raises Invalid when the configuration cannot be read."""
    config = load(settings.config, settings.namespace)
    selector = config.managed_jobs_namespace_selector
    made = configurations(
        settings.namespace,
        WEBHOOK_SERVICE,
        config.integrations.frameworks or () if config.integrations else (),
        prefix=PREFIX,
        namespace_selector=msgspec.to_builtins(selector) if selector is not None else None,
        reinvocation=settings.reinvocation,
    )
    return [each | {"metadata": each["metadata"] | {"labels": dict(LABELS)}} for each in made]
