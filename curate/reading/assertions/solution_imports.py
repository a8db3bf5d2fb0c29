"""Remove imports of the submission, which test files write as `from solution import f` or `import solution`.

The names stay: the sandbox defines them before the tests run.
"""

import ast
from collections.abc import Sequence

_MODULE = "solution"


def remove_solution_imports(nodes: Sequence[ast.stmt]) -> tuple[list[str], list[ast.stmt]]:
    """Return the names that the statements import from the submission, and the statements without these imports."""
    remover = _Remover()
    kept = [remover.visit(node) for node in nodes]
    return list(dict.fromkeys(remover.names)), [node for node in kept if not isinstance(node, ast.Pass)]


class _Remover(ast.NodeTransformer):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.modules: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if node.module != _MODULE:
            return node
        self.names += [alias.name for alias in node.names if alias.name != "*"]
        renamed = [alias for alias in node.names if alias.asname not in (None, alias.name)]
        if not renamed:
            return ast.Pass()
        pairs = ast.Tuple([ast.Name(str(alias.asname), ast.Store()) for alias in renamed], ast.Store())
        values = ast.Tuple([ast.Name(alias.name, ast.Load()) for alias in renamed], ast.Load())
        return ast.Assign([pairs], values, lineno=node.lineno)

    def visit_Import(self, node: ast.Import) -> ast.stmt:
        self.modules |= {alias.asname or alias.name for alias in node.names if alias.name == _MODULE}
        node.names = [alias for alias in node.names if alias.name != _MODULE]
        return node if node.names else ast.Pass()

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            self.names.append(node.attr)
            return ast.Name(node.attr, node.ctx)
        return node
