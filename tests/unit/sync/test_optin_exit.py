"""One exit for plaintext, by the syntax trees of the whole product (sync.md 6.4, T58)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PRODUCT = ("daemon", "sync", "tray")
OPTIN = "sync/memory_manager/sync/optin"
CLIENT = f"{OPTIN}/index_client.py"
EXIT = f"{OPTIN}/egress.py"
CLIENT_MODULE = "memory_manager.sync.optin.index_client"


@pytest.fixture(scope="module")
def trees(repository: Path) -> dict[str, ast.Module]:
    found: dict[str, ast.Module] = {}
    for root in PRODUCT:
        for path in sorted((repository / root).rglob("*.py")):
            found[str(path.relative_to(repository))] = ast.parse(path.read_text())
    assert len(found) > 300
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _strings(tree: ast.Module) -> Iterator[str]:
    """String constants that are not documentation."""
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documentation:
                yield node.value


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


def test_only_the_exit_imports_the_index_client(trees: dict[str, ast.Module]) -> None:
    users = {
        path
        for path, tree in trees.items()
        if any(name.startswith(CLIENT_MODULE) for name in _imported(tree))
    }
    assert users == {EXIT}
    by_name = {path for path, tree in trees.items() if "IndexClient" in _names(tree)}
    assert by_name <= {EXIT, CLIENT}


def test_no_other_module_of_a_device_knows_the_routes_of_the_index(
    trees: dict[str, ast.Module],
) -> None:
    knowing = {
        path
        for path, tree in trees.items()
        if "/sync/server/" not in path and any("/v1/index" in text for text in _strings(tree))
    }
    assert knowing == {CLIENT}


def test_one_function_sends_a_row(trees: dict[str, ast.Module]) -> None:
    senders = [
        function.name
        for tree in trees.values()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and function.name != "put_row"
        and "put_row" in _names(function)
    ]
    assert senders == ["send_row"]
    callers = {path for path, tree in trees.items() if "send_row" in _names(tree)}
    assert callers == {f"{OPTIN}/delivery.py"}


def test_the_exit_takes_nothing_but_a_verified_grant(trees: dict[str, ast.Module]) -> None:
    (function,) = (
        node
        for node in ast.walk(trees[EXIT])
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "send_row"
    )
    kinds = {
        argument.arg: ast.unparse(argument.annotation)
        for argument in function.args.args
        if argument.annotation is not None
    }
    assert kinds["granted"] == "VerifiedGrant"
    assert not {kind for kind in kinds.values() if kind in ("str", "bytes", "MemoryRow")}
    makers = {
        path
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "VerifiedGrant"
    }
    assert makers == {f"{OPTIN}/verified.py"}


def test_agents_reach_the_request_and_nothing_else(trees: dict[str, ast.Module]) -> None:
    allowed = {"memory_manager.sync.optin.requests"}
    for path, tree in trees.items():
        if "/api/operations/" in path or "/api/mcp/" in path:
            used = {
                name
                for name in _imported(tree)
                if name.startswith("memory_manager.sync.optin")
                and not any(name.startswith(one) for one in allowed)
            }
            assert used == set(), path
    forbidden = ("approval", "egress", "verified", "owner_signature", "delivery", "index_client")
    imported = set(_imported(trees[f"{OPTIN}/requests.py"]))
    assert not {name for name in imported if name.rpartition(".")[2] in forbidden}


def test_the_log_client_has_no_way_to_the_index(trees: dict[str, ast.Module]) -> None:
    for path, tree in trees.items():
        if "/sync/engine/" in path:
            assert not any(name.startswith("memory_manager.sync.optin") for name in _imported(tree))
