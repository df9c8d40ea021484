# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies of the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.errors import ApiError, Forbidden
from kuota.kube.requests import PatchType
from kuota.kube.resources import CONFIG_MAPS, NAMESPACES, Resource
from kuota.server.api import ApiServer
from kuota.server.requests import User
from kuota.server.store import Store
from kuota.up.local import LocalTransport, local_client

_GROUP = "admissionregistration.k8s.io"
POLICIES = Resource(
    _GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDINGS = Resource(
    _GROUP,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}


def policy(expression: str = "has(object.data)", **spec: Any) -> Json:
    whole = {
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [{"expression": expression}],
    }
    return {"metadata": {"name": "p"}, "spec": whole | spec}


def binding(*actions: str, **spec: Any) -> Json:
    whole = {"policyName": "p", "validationActions": list(actions or ("Deny",))}
    return {"metadata": {"name": "b"}, "spec": whole | spec}


def config_map(name: str = "c", **fields: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "team"}, **fields}


def play(story: Callable[[ApiServer, Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store)
        await api.start()
        client = local_client(api)
        labels = {"kuota.dev/team": "team"}
        await client.create(NAMESPACES, {"metadata": {"name": "team", "labels": labels}})
        try:
            await story(api, client)
        finally:
            await api.close()
            store.close()

    asyncio.run(whole())


async def denied(attempt: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as error:
        await attempt
    return error.value


async def installed(client: Client, rule: Json, bound: Json | None = None) -> None:
    await client.create(POLICIES, rule)
    await client.create(BINDINGS, bound or binding())


def test_a_bound_policy_denies_what_violates_it() -> None:
    async def story(api: ApiServer, client: Client) -> None:
        await client.create(POLICIES, policy())
        await client.create(CONFIG_MAPS, config_map("before"))
        await client.create(BINDINGS, binding())
        error = await denied(client.create(CONFIG_MAPS, config_map()))
        assert 422 == error.status
        said = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        assert f'configmaps "c" is forbidden: {said}failed expression: has(object.data)' in str(
            error
        )
        await client.create(CONFIG_MAPS, config_map(data={"a": "b"}))
        removed = {"data": None}
        await denied(client.patch(CONFIG_MAPS, Key("team", "c"), removed, kind=PatchType.MERGE))
        await client.delete(CONFIG_MAPS, Key("team", "before"))
        await client.delete(BINDINGS, Key("", "b"))
        await client.create(CONFIG_MAPS, config_map("after"))

    play(story)


@pytest.mark.parametrize(
    ("validation", "status", "message"),
    [
        ({"message": "no data"}, 422, "no data"),
        ({"message": "no", "messageExpression": "'in ' + object.metadata.name"}, 422, "in c"),
        ({"message": "plain", "messageExpression": "object.missing.name"}, 422, "plain"),
        ({"reason": "Forbidden"}, 403, "failed expression: has(object.data)"),
        ({"reason": "RequestEntityTooLarge"}, 413, "failed expression: has(object.data)"),
    ],
)
def test_messages_and_reasons(validation: Json, status: int, message: str) -> None:
    async def story(api: ApiServer, client: Client) -> None:
        whole = policy(validations=[{"expression": "has(object.data)"} | validation])
        await installed(client, whole)
        error = await denied(client.create(CONFIG_MAPS, config_map()))
        assert status == error.status
        assert str(error).count(f"denied request: {message}")

    play(story)


@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        ({"matchConditions": [{"name": "never", "expression": "object.metadata.name == 'x'"}]}, {}),
        ({"failurePolicy": "Ignore", "validations": [{"expression": "object.no.such"}]}, {}),
        (
            {"validations": [{"expression": "oldObject == null && request.operation == 'CREATE'"}]},
            {},
        ),
        ({"validations": [{"expression": "namespaceObject.metadata.name == 'team'"}]}, {}),
        (
            {
                "variables": [
                    {"name": "n", "expression": "object.metadata.name"},
                    {"name": "short", "expression": "size(variables.n) < 5"},
                    {"name": "unused", "expression": "object.no.such"},
                ],
                "validations": [{"expression": "variables.short"}],
            },
            {},
        ),
        ({}, {"matchResources": {"namespaceSelector": {"matchLabels": {"other": "1"}}}}),
        ({}, {"matchResources": {"objectSelector": {"matchLabels": {"other": "1"}}}}),
        ({}, {"matchResources": {"excludeResourceRules": [RULE]}}),
        ({}, {"matchResources": {"resourceRules": [RULE | {"resourceNames": ["x"]}]}}),
        ({}, {"matchResources": {"resourceRules": [RULE | {"scope": "Cluster"}]}}),
        ({}, {"policyName": "another"}),
        ({}, {"validationActions": ["Audit"]}),
    ],
)
def test_requests_that_a_policy_does_not_deny(spec: Json, bound: Json) -> None:
    async def story(api: ApiServer, client: Client) -> None:
        await installed(client, policy(**spec), binding(**bound))
        await client.create(CONFIG_MAPS, config_map())

    play(story)


def test_an_error_denies_unless_it_is_to_be_ignored() -> None:
    async def story(api: ApiServer, client: Client) -> None:
        await installed(client, policy("object.no.such == 1"))
        error = await denied(client.create(CONFIG_MAPS, config_map()))
        assert "resulted in error: NOT_FOUND" in str(error)

    play(story)


def test_an_endless_comprehension_ends_with_an_error() -> None:
    nested = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != '')))"

    async def story(api: ApiServer, client: Client) -> None:
        await installed(client, policy(nested))
        data = {str(at): "" for at in range(300)}
        error = await denied(client.create(CONFIG_MAPS, config_map(data=data)))
        assert "Iteration budget exceeded" in str(error)

    play(story)


def test_a_deletion_can_be_denied() -> None:
    async def story(api: ApiServer, client: Client) -> None:
        rule = RULE | {"operations": ["DELETE"]}
        whole = policy("oldObject.metadata.name != 'c'", matchConstraints={"resourceRules": [rule]})
        await installed(client, whole)
        await client.create(CONFIG_MAPS, config_map())
        await denied(client.delete(CONFIG_MAPS, Key("team", "c")))

    play(story)


@pytest.mark.parametrize(("action", "allowed"), [("Deny", False), ("Allow", True)])
def test_parameters(action: str, allowed: bool) -> None:
    async def story(api: ApiServer, client: Client) -> None:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        ref = {"name": "limits", "namespace": "default", "parameterNotFoundAction": action}
        whole = policy("params.data.name == object.metadata.name", paramKind=kind)
        await installed(client, whole, binding(paramRef=ref))
        if not allowed:
            error = await denied(client.create(CONFIG_MAPS, config_map()))
            assert "no params found" in str(error)
        else:
            await client.create(CONFIG_MAPS, config_map())
        await client.delete(BINDINGS, Key("", "b"))
        limits = {"metadata": {"name": "limits", "namespace": "default"}, "data": {"name": "d"}}
        await client.create(CONFIG_MAPS, limits)
        await client.create(BINDINGS, binding(paramRef=ref))
        await client.create(CONFIG_MAPS, config_map("d"))
        await denied(client.create(CONFIG_MAPS, config_map("e")))

    play(story)


def test_members_cannot_read_or_write_policies() -> None:
    async def story(api: ApiServer, client: Client) -> None:
        await installed(client, policy())
        ann = Client(LocalTransport(api, User("ann", ("team", "system:authenticated"))))
        for attempt in (
            ann.create(POLICIES, policy()),
            ann.delete(POLICIES, Key("", "p")),
            ann.delete(BINDINGS, Key("", "b")),
            ann.list(POLICIES),
        ):
            assert isinstance(await denied(attempt), Forbidden)
        await denied(ann.create(CONFIG_MAPS, config_map()))

    play(story)


@pytest.mark.parametrize(
    ("resource", "obj", "path"),
    [
        (POLICIES, policy("1 +"), "spec.validations[0].expression"),
        (POLICIES, policy("1 + 1"), "must evaluate to bool"),
        (POLICIES, policy("unknown == 1"), "undeclared reference"),
        (POLICIES, policy("'a' == '" + "b" * 10_000 + "'"), "longer than"),
        (POLICIES, policy(failurePolicy="Maybe"), "spec.failurePolicy"),
        (POLICIES, policy(matchConstraints={}), "spec.matchConstraints.resourceRules"),
        (POLICIES, policy(validations=[]), "spec.validations"),
        (POLICIES, policy(variables=[{"name": "a b", "expression": "1"}]), "variables[0].name"),
        (BINDINGS, binding("Deny", "Warn"), "both Deny and Warn"),
        (BINDINGS, binding("Shout"), "spec.validationActions[0]"),
        (BINDINGS, binding(paramRef={"name": "a"}), "parameterNotFoundAction"),
    ],
)
def test_faults_of_policies_and_bindings(resource: Resource, obj: Json, path: str) -> None:
    async def story(api: ApiServer, client: Client) -> None:
        error = await denied(client.create(resource, obj))
        assert 422 == error.status
        assert path in str(error)

    play(story)
