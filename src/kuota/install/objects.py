# SPDX-License-Identifier: Apache-2.0
"""All objects of an installation, in three groups, each in the order in which to apply it.

First definitions, which hold what users write. Then the parts of the controller. Last the hooks,
which make the API server ask the controller and so depend on its being there.
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.crds import crds

from .deployment import (
    config_map,
    deployment,
    disruption_budget,
    namespace,
    secret,
    service_account,
)
from .fairness import fairness
from .network import WEBHOOK_SERVICE, api_services, network_policy, service_monitor, services
from .people import people_roles
from .rbac import controller_roles
from .settings import LABELS, Settings
from .webhooks import webhook_configurations


def objects(settings: Settings) -> list[Json]:
    return [
        *definitions(settings),
        *parts(settings),
        *hooks(settings),
    ]


def definitions(settings: Settings) -> list[Json]:
    """The CustomResourceDefinitions, which convert through the Service of this installation."""
    return [_located(each, settings) for each in crds()]


def parts(settings: Settings) -> list[Json]:
    return [
        namespace(settings),
        service_account(settings),
        *people_roles(),
        *controller_roles(settings),
        config_map(settings),
        secret(settings),
        *services(settings),
        *network_policy(settings),
        *disruption_budget(settings),
        *fairness(settings),
        deployment(settings),
        *service_monitor(settings),
    ]


def hooks(settings: Settings) -> list[Json]:
    return [*webhook_configurations(settings), *api_services(settings)]


def _located(definition: Json, settings: Settings) -> Json:
    metadata = definition["metadata"] | {"labels": dict(LABELS)}
    spec = definition["spec"]
    if "webhook" in spec["conversion"]:
        service = {
            "name": WEBHOOK_SERVICE,
            "namespace": settings.namespace,
            "path": "/convert",
        }
        webhook = spec["conversion"]["webhook"] | {"clientConfig": {"service": service}}
        spec = spec | {"conversion": {"strategy": "Webhook", "webhook": webhook}}
    return definition | {"metadata": metadata, "spec": spec}
