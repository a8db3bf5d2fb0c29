"""A conservative check that a program leaks no state between calls.

The calls of such a program may share a process. The process executes the program again for each call, so its globals,
classes, default values and caches are new each time. Only objects of the interpreter could pass data to a later call:
modules and their attributes, classes and functions of the library, files, threads, frames. So the check rejects any
program that might reach or change these objects. A rejection costs only speed: each call then has its own process.
These are permitted:

    names        the program's own, those of IMMUTABLE_NAMES and, as a callee or decorator only, those of
                 CALL_ONLY_NAMES, whose objects are mutable
    attributes   those that the program itself sets or defines, those of METHODS, and of a module only the names above;
                 none by which a program can reach the interpreter or the library (__dict__, gi_frame, mro)
    imports      only of MODULES; a module's name may appear only before a dot
    identity     `is` only with a constant, since the identity of interned strings could pass data to a later call
    limits       setrecursionlimit only at module level, since the garbage collector may run the `finally` of a
                 suspended generator during a later call
    annotations  arguments in brackets, as in list[int]: only library types, constants and the program's classes. The
                 library caches these arguments: an object with its own __eq__ could compare itself with an earlier one

_pure_names.py defines these sets of names. The check runs in the process that compiles the program, before any
execution; hostile source may crash that process.

Side channels remain. repr(object()), hash(object()) and the order of sets of objects reveal addresses, which depend on
allocations of earlier calls. They can reveal earlier inputs, but never expected values, which are not in the process.
"""

import ast
from collections.abc import Iterable

from sandbox.languages._pure_names import (
    ANNOTATIONS,
    CALL_ONLY_NAMES,
    ESCAPING_ATTRIBUTES,
    IMMUTABLE_NAMES,
    METHODS,
    MODULES,
    SPECIAL_METHODS,
)
from sandbox.languages._scopes import COMPREHENSIONS, find_bound_names, find_global_names, find_scope_names, walk_scope

_INTROSPECTION = ("gi_", "cr_", "ag_", "f_", "tb_", "co_", "__")  # prefixes of attributes that reveal frames
_LIMIT_SETTER = "setrecursionlimit"
# MatchClass, since it reads attributes that are not in the syntax tree.
_IMPURE_NODES = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await, ast.MatchClass)


class _ImpureProgram(Exception):
    """The check cannot prove that the program is stateless."""


def is_stateless(tree: ast.Module) -> bool:
    """Return whether executing the program again for each call prevents all state from leaking between calls."""
    try:
        _Program(tree).check()
    except (_ImpureProgram, RecursionError):
        return False
    return True


class _Program:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._nodes = [*ast.walk(tree)]
        self._global_names = find_global_names(self._nodes)
        self._imported: set[str] = set()  # names of imported modules
        self._imported_names: set[str] = set()  # names imported from modules
        self._bound: set[str] = set()  # names bound in any scope, without imports
        self._classes: set[str] = set()  # names bound only to plain classes
        self._attributes = set(METHODS)

    def check(self) -> None:
        """Raise _ImpureProgram if the program might not be stateless."""
        bound = self._bound
        names_limits = _LIMIT_SETTER in map(_read_name, self._nodes)
        for node in self._nodes:
            names = find_bound_names(node)
            bound |= names
            allowed = SPECIAL_METHODS if isinstance(node, ast.FunctionDef) else {"__slots__"}
            if any(_is_special(name) and name not in allowed for name in names):
                raise _ImpureProgram
            if isinstance(node, _IMPURE_NODES) or getattr(node, "type_params", None) or _compares_identity(node):
                raise _ImpureProgram
            is_function = isinstance(node, ast.FunctionDef | ast.Lambda)
            if names_limits and is_function and _LIMIT_SETTER in map(_read_name, ast.walk(node)):
                raise _ImpureProgram
            if isinstance(node, ast.Import):
                self._record_import(node)
            elif isinstance(node, ast.ImportFrom):
                self._record_import_from(node)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self._record_attribute(node.attr)
            elif isinstance(node, ast.FunctionDef):
                if not node.name.startswith("__"):
                    self._record_attribute(node.name)
            elif isinstance(node, ast.ClassDef):
                for name in find_scope_names(node.body):
                    if not name.startswith("__"):
                        self._record_attribute(name)
        if (self._imported | self._imported_names) & bound or self._imported & self._imported_names:
            raise _ImpureProgram
        self._classes = _find_plain_classes(self._nodes, bound)
        # Programs with calls can use MODULES without an import. A name that the program binds is not such a module.
        self._modules = self._imported | (MODULES - bound - self._imported_names)
        scope_names = find_scope_names(self._tree.body) | self._global_names
        # At module level, a name resolves to the library's object until the program assigns it.
        if any(
            name.startswith("__") or (name in _LIBRARY_NAMES and name not in IMMUTABLE_NAMES) for name in scope_names
        ):
            raise _ImpureProgram
        self._check_nodes(self._tree.body, frozenset(scope_names))

    def _record_import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name not in MODULES or (alias.asname or alias.name) in _LIBRARY_NAMES - {alias.name}:
                raise _ImpureProgram
            self._imported.add(alias.asname or alias.name)

    def _record_import_from(self, node: ast.ImportFrom) -> None:
        if node.level or node.module not in MODULES:
            raise _ImpureProgram
        for alias in node.names:
            if node.module == "__future__" or alias.name == "*":
                continue
            if alias.name not in ANNOTATIONS or alias.asname not in (None, alias.name):
                raise _ImpureProgram
            self._imported_names.add(alias.name)

    def _record_attribute(self, name: str) -> None:
        if name.startswith(_INTROSPECTION) or name in ESCAPING_ATTRIBUTES:
            raise _ImpureProgram
        self._attributes.add(name)

    def _check_nodes(self, nodes: Iterable[ast.AST], scope_names: frozenset[str]) -> None:
        for node in nodes:
            self._check_node(node, scope_names)

    def _check_node(self, node: ast.AST, scope_names: frozenset[str]) -> None:
        """Check a node. scope_names: the program's names in scope."""
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._check_name(node.id, scope_names, IMMUTABLE_NAMES)
            elif node.id in self._modules:
                raise _ImpureProgram
        elif isinstance(node, ast.Attribute):
            self._check_attribute(node, scope_names, IMMUTABLE_NAMES)
        elif isinstance(node, ast.Call):
            self._check_callee(node.func, scope_names)
            if _read_name(node.func) == "deepcopy" and not _has_single_argument(node):
                raise _ImpureProgram  # a second argument, the memo, would get a list that outlives the call
            self._check_nodes([*node.args, *node.keywords], scope_names)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                self._check_name(node.target.id, scope_names, IMMUTABLE_NAMES)
            self._check_nodes([node.target, node.value], scope_names)
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            self._check_function(node, scope_names, scope_names)
        elif isinstance(node, ast.ClassDef):
            self._check_class(node, scope_names)
        elif isinstance(node, COMPREHENSIONS):
            # Python evaluates the first iterable in the enclosing scope.
            first = node.generators[0].iter
            self._check_node(first, scope_names)
            inside = scope_names | {name for part in node.generators for name in find_scope_names([part.target])}
            parts = [child for part in node.generators for child in ast.iter_child_nodes(part) if child is not first]
            parts += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension)]
            self._check_nodes(parts, inside)
        elif isinstance(node, ast.AnnAssign):
            self._check_annotation(node.annotation, scope_names)
            self._check_nodes([node.target, *([node.value] if node.value else [])], scope_names)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            self._check_nodes(ast.iter_child_nodes(node), scope_names)

    def _check_name(self, name: str, scope_names: frozenset[str], library_names: frozenset[str]) -> None:
        if name in self._modules or (name not in scope_names and name not in library_names):
            raise _ImpureProgram

    def _check_callee(self, node: ast.AST, scope_names: frozenset[str]) -> None:
        if isinstance(node, ast.Name):
            self._check_name(node.id, scope_names, IMMUTABLE_NAMES | CALL_ONLY_NAMES)
        elif isinstance(node, ast.Attribute):
            self._check_attribute(node, scope_names, IMMUTABLE_NAMES | CALL_ONLY_NAMES, is_callee=True)
        else:
            self._check_node(node, scope_names)

    def _check_attribute(
        self,
        node: ast.Attribute,
        scope_names: frozenset[str],
        library_names: frozenset[str],
        *,
        is_callee: bool = False,
    ) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in self._modules:
            if node.attr not in library_names or not isinstance(node.ctx, ast.Load):
                raise _ImpureProgram
            return
        if node.attr not in self._attributes or (node.attr == "__init__" and not is_callee):
            raise _ImpureProgram
        self._check_node(node.value, scope_names)

    def _check_annotation(self, node: ast.AST | None, scope_names: frozenset[str]) -> None:
        if isinstance(node, ast.Name):
            self._check_name(node.id, scope_names, ANNOTATIONS)
        elif isinstance(node, ast.Attribute):
            self._check_attribute(node, scope_names, ANNOTATIONS)
        elif node is not None:
            self._check_annotation_part(node)

    def _check_annotation_part(self, node: ast.AST) -> None:
        """Check an operand or subscript of an annotation."""
        if isinstance(node, ast.Name):
            self._check_name(node.id, frozenset(self._classes), ANNOTATIONS - self._bound)
        elif isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id in self._modules and node.attr in ANNOTATIONS):
                raise _ImpureProgram
        elif isinstance(node, ast.Subscript | ast.Tuple | ast.List | ast.BinOp):
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, ast.expr_context | ast.operator):
                    self._check_annotation_part(child)
        elif not isinstance(node, ast.Constant):
            raise _ImpureProgram

    def _check_function(
        self, node: ast.FunctionDef | ast.Lambda, scope_names: frozenset[str], outer_names: frozenset[str]
    ) -> None:
        """Check a function.

        scope_names  the program's names in scope at its definition
        outer_names  the program's names in scope in its body, without those that the function binds
        """
        parameters = node.args
        arguments = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
        arguments += [argument for argument in (parameters.vararg, parameters.kwarg) if argument is not None]
        self._check_nodes(
            [*parameters.defaults, *(default for default in parameters.kw_defaults if default)], scope_names
        )
        for argument in arguments:
            self._check_annotation(argument.annotation, scope_names)
        names = {argument.arg for argument in arguments}
        if isinstance(node, ast.Lambda):
            inside = outer_names | names
            body: list[ast.AST] = [node.body]
        else:
            for decorator in node.decorator_list:
                self._check_callee(decorator, scope_names)
            self._check_annotation(node.returns, scope_names)
            body = [*node.body]
            declared = find_global_names(ast.walk(node)) if self._global_names else set()
            names |= find_scope_names(node.body) - declared
            inside = outer_names | names
        if names & self._modules:
            raise _ImpureProgram
        self._check_nodes(body, inside)

    def _check_class(self, node: ast.ClassDef, scope_names: frozenset[str]) -> None:
        if node.keywords:
            raise _ImpureProgram
        for decorator in node.decorator_list:
            self._check_callee(decorator, scope_names)
        self._check_nodes(node.bases, scope_names)
        if any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in walk_scope(node.body)):
            raise _ImpureProgram  # the module would be an attribute of the class
        # In a class body, a name resolves to the library's object until the body assigns it. Methods cannot see names
        # of the class scope.
        bound = find_scope_names(node.body)
        inside = (scope_names - (bound & _LIBRARY_NAMES)) | {
            name for name in bound if name not in _LIBRARY_NAMES and not name.startswith("__")
        }
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                self._check_function(statement, inside, scope_names)
            else:
                self._check_node(statement, inside)


def _compares_identity(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    values = [node.left, *node.comparators]
    return any(
        isinstance(operation, ast.Is | ast.IsNot) and not any(map(_is_singleton, pair))
        for operation, pair in zip(node.ops, zip(values, values[1:], strict=False), strict=True)
    )


def _is_singleton(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _read_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _has_single_argument(call: ast.Call) -> bool:
    return len(call.args) == 1 and not isinstance(call.args[0], ast.Starred) and not call.keywords


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _find_plain_classes(nodes: Iterable[ast.AST], bound: set[str]) -> set[str]:
    """Return the names that the program binds only to plain classes, by class statements."""
    names: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef) and not node.keywords and _makes_class(node, bound):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        else:
            others |= find_bound_names(node)
    return names - others


def _makes_class(node: ast.ClassDef, bound: set[str]) -> bool:
    """Return whether a class statement certainly binds a class.

    With decorators or bases of the program, it could bind any other object.
    """
    allowed = {"dataclass", "total_ordering"} - bound
    decorators = [one.func if isinstance(one, ast.Call) and not one.args else one for one in node.decorator_list]
    return all(isinstance(one, ast.Name) and one.id in allowed for one in decorators) and all(
        isinstance(base, ast.Name) and base.id in IMMUTABLE_NAMES - bound for base in node.bases
    )


_LIBRARY_NAMES: set[str] = set()


def set_library_names(names: Iterable[str]) -> None:
    """Set the names that have a value before the program runs."""
    _LIBRARY_NAMES.update(names)
