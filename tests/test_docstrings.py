"""What docstrings have to say."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_package import MODULES

Functions = Iterator[ast.FunctionDef]


def _public(parent: ast.Module | ast.ClassDef) -> Functions:
    """The functions and methods that others may call, but for commands: theirs are the help."""
    for node in parent.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            decorators = [ast.unparse(each) for each in node.decorator_list]
            if not any(each.startswith("click.command") for each in decorators):
                yield node


def _raised(node: ast.AST) -> Iterator[str]:
    """The names of the exceptions that are raised by name, but in functions inside."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            error = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            name = ast.unparse(error).rpartition(".")[2]
            if name[0].isupper():  # else it is an exception that was caught or kept
                yield name
        yield from _raised(child)


@pytest.mark.parametrize("name", MODULES)
def test_what_a_function_raises_is_said(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    unsaid = {
        (function.name, error)
        for function in _public(tree)
        for error in _raised(function)
        if error not in (ast.get_docstring(function) or "").partition("Raises\n------")[2]
    }
    assert unsaid == set()
