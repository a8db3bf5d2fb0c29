"""A conservative check that a program keeps no state between calls, by any means of the language.

The calls of such a program may share a process, in which it is executed anew for each of them: its globals, classes,
default values and caches are new each time. What could still carry a message to a later call is what belongs to the
interpreter: modules and their attributes, classes and functions of the library, files, threads, frames. So everything
is refused from which these can be reached or changed, and a program is refused if any part of it is not known to be
harmless. That costs it nothing but speed: each of its calls then has a process of its own.

    names        a name that the program does not define must be in IMMUTABLE_NAMES, whose objects cannot be changed, or
                 in CALL_ONLY_NAMES, whose objects can be, and may therefore only be called or used as decorators
    attributes   those that the program itself sets or defines, those of METHODS, and of a module only the names above;
                 never those that lead from objects to the interpreter or to the library (__dict__, gi_frame, mro)
    imports      of MODULES alone; a module's name may stand only before a dot
    identity     `is` only with a constant: the interpreter keeps strings that a program has interned, and whether one
                 is the same object as another would tell a later call
    limits       setrecursionlimit only by the module itself: the `finally` of a suspended generator runs whenever the
                 generator is collected, which may be during a later call
    annotations  as arguments of the library's types, only its types, constants and classes of the program: the library
                 remembers these arguments, so an object with __eq__ would meet the one of the call before

The names are those of _pure_names.py. This runs where the program is compiled, so nothing of the program has been
executed, and hostile text may crash it.

Side channels remain. Addresses show in repr(object()), hash(object()) and the order of sets of objects, and depend on
what earlier calls have allocated. A program can learn from them which inputs came before, never what is expected: no
expected value is in its process.
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
from sandbox.languages._scopes import COMPREHENSIONS, global_names, names_bound_by, names_bound_in_scope, walk_scope

_INTROSPECTION = ("gi_", "cr_", "ag_", "f_", "tb_", "co_", "__")  # beginnings of attributes that reveal frames
_LIMITS = "setrecursionlimit"
_REFUSED = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await, ast.MatchClass)  # which reads attributes


class _Refused(Exception):
    """A part of the program is not known to be stateless."""


def is_stateless(tree: ast.Module) -> bool:
    """Return whether the program keeps no state between calls, if it is executed anew for each."""
    try:
        _Program(tree).check()
    except (_Refused, RecursionError):
        return False
    return True


class _Program:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._nodes = [*ast.walk(tree)]
        self._global_names = global_names(self._nodes)
        self._imported: set[str] = set()  # names of modules that it imports
        self._taken: set[str] = set()  # names that it imports from modules
        self._bound: set[str] = set()  # names that it binds in any scope, other than by imports
        self._classes: set[str] = set()  # names that stand for classes, whatever the program does
        self._attributes = set(METHODS)

    def check(self) -> None:
        """Raises _Refused."""
        bound = self._bound
        names_limits = _LIMITS in map(_read_name, self._nodes)
        for node in self._nodes:
            names = names_bound_by(node)
            bound |= names
            allowed = SPECIAL_METHODS if isinstance(node, ast.FunctionDef) else {"__slots__"}
            if any(_is_special(name) and name not in allowed for name in names):
                raise _Refused
            if isinstance(node, _REFUSED) or getattr(node, "type_params", None) or _compares_identity(node):
                raise _Refused
            is_function = isinstance(node, ast.FunctionDef | ast.Lambda)
            if names_limits and is_function and _LIMITS in map(_read_name, ast.walk(node)):
                raise _Refused
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self._define(node.attr)
            elif isinstance(node, ast.FunctionDef):
                if not node.name.startswith("__"):
                    self._define(node.name)
            elif isinstance(node, ast.ClassDef):
                for name in names_bound_in_scope(node.body):
                    if not name.startswith("__"):
                        self._define(name)
        if (self._imported | self._taken) & bound or self._imported & self._taken:
            raise _Refused
        self._classes = _plain_classes(self._nodes, bound)
        # Names that calls find without an import. A name that is bound in any scope is not analyzed further.
        self._modules = self._imported | (MODULES - bound - self._taken)
        own = names_bound_in_scope(self._tree.body) | self._global_names
        # At the level of the module, such a name means the library's object until it is assigned to.
        if any(name.startswith("__") or (name in _OF_LIBRARY and name not in IMMUTABLE_NAMES) for name in own):
            raise _Refused
        self._block(self._tree.body, frozenset(own))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name not in MODULES or (alias.asname or alias.name) in _OF_LIBRARY - {alias.name}:
                raise _Refused
            self._imported.add(alias.asname or alias.name)

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or node.module not in MODULES:
            raise _Refused
        for alias in node.names:
            if node.module == "__future__" or alias.name == "*":
                continue
            if alias.name not in ANNOTATIONS or alias.asname not in (None, alias.name):
                raise _Refused
            self._taken.add(alias.name)

    def _define(self, name: str) -> None:
        if name.startswith(_INTROSPECTION) or name in ESCAPING_ATTRIBUTES:
            raise _Refused
        self._attributes.add(name)

    def _block(self, nodes: Iterable[ast.AST], own: frozenset[str]) -> None:
        for node in nodes:
            self._node(node, own)

    def _node(self, node: ast.AST, own: frozenset[str]) -> None:
        """Check a node. own: the names in scope that the program defines itself."""
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._name(node.id, own, IMMUTABLE_NAMES)
            elif node.id in self._modules:
                raise _Refused
        elif isinstance(node, ast.Attribute):
            self._attribute(node, own, IMMUTABLE_NAMES)
        elif isinstance(node, ast.Call):
            self._callee(node.func, own)
            if _read_name(node.func) == "deepcopy" and not _is_single(node):
                raise _Refused  # a memo of the program would receive a list that outlives the call
            self._block([*node.args, *node.keywords], own)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                self._name(node.target.id, own, IMMUTABLE_NAMES)
            self._block([node.target, node.value], own)
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            self._function(node, own, own)
        elif isinstance(node, ast.ClassDef):
            self._class(node, own)
        elif isinstance(node, COMPREHENSIONS):
            # The first iterable belongs to the scope around the comprehension.
            first = node.generators[0].iter
            self._node(first, own)
            inside = own | {name for part in node.generators for name in names_bound_in_scope([part.target])}
            parts = [child for part in node.generators for child in ast.iter_child_nodes(part) if child is not first]
            parts += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension)]
            self._block(parts, inside)
        elif isinstance(node, ast.AnnAssign):
            self._annotation(node.annotation, own)
            self._block([node.target, *([node.value] if node.value else [])], own)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            self._block(ast.iter_child_nodes(node), own)

    def _name(self, name: str, own: frozenset[str], allowed: frozenset[str]) -> None:
        if name in self._modules or (name not in own and name not in allowed):
            raise _Refused

    def _callee(self, node: ast.AST, own: frozenset[str]) -> None:
        """Check a callee or a decorator."""
        if isinstance(node, ast.Name):
            self._name(node.id, own, IMMUTABLE_NAMES | CALL_ONLY_NAMES)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, own, IMMUTABLE_NAMES | CALL_ONLY_NAMES, called=True)
        else:
            self._node(node, own)

    def _attribute(
        self, node: ast.Attribute, own: frozenset[str], allowed: frozenset[str], *, called: bool = False
    ) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in self._modules:
            if node.attr not in allowed or not isinstance(node.ctx, ast.Load):
                raise _Refused
            return
        if node.attr not in self._attributes or (node.attr == "__init__" and not called):
            raise _Refused
        self._node(node.value, own)

    def _annotation(self, node: ast.AST | None, own: frozenset[str]) -> None:
        if isinstance(node, ast.Name):
            self._name(node.id, own, ANNOTATIONS)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, own, ANNOTATIONS)
        elif node is not None:
            self._argument(node)

    def _argument(self, node: ast.AST) -> None:
        """Check an operand or a subscript in an annotation."""
        if isinstance(node, ast.Name):
            self._name(node.id, frozenset(self._classes), ANNOTATIONS - self._bound)
        elif isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id in self._modules and node.attr in ANNOTATIONS):
                raise _Refused
        elif isinstance(node, ast.Subscript | ast.Tuple | ast.List | ast.BinOp):
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, ast.expr_context | ast.operator):
                    self._argument(child)
        elif not isinstance(node, ast.Constant):
            raise _Refused

    def _function(self, node: ast.FunctionDef | ast.Lambda, own: frozenset[str], enclosing: frozenset[str]) -> None:
        """Check a function. enclosing: the names of the program that its body sees, besides those that it binds."""
        given = node.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        arguments += [argument for argument in (given.vararg, given.kwarg) if argument is not None]
        self._block([*given.defaults, *(default for default in given.kw_defaults if default)], own)
        for argument in arguments:
            self._annotation(argument.annotation, own)
        names = {argument.arg for argument in arguments}
        if isinstance(node, ast.Lambda):
            inside = enclosing | names
            body: list[ast.AST] = [node.body]
        else:
            for decorator in node.decorator_list:
                self._callee(decorator, own)
            self._annotation(node.returns, own)
            body = [*node.body]
            declared = global_names(ast.walk(node)) if self._global_names else set()
            names |= names_bound_in_scope(node.body) - declared
            inside = enclosing | names
        if names & self._modules:
            raise _Refused
        self._block(body, inside)

    def _class(self, node: ast.ClassDef, own: frozenset[str]) -> None:
        if node.keywords:
            raise _Refused
        for decorator in node.decorator_list:
            self._callee(decorator, own)
        self._block(node.bases, own)
        if any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in walk_scope(node.body)):
            raise _Refused  # a module that is an attribute
        # In the body itself, a name means the library's object until it is assigned to; methods do not see the names.
        bound = names_bound_in_scope(node.body)
        inside = (own - (bound & _OF_LIBRARY)) | {
            name for name in bound if name not in _OF_LIBRARY and not name.startswith("__")
        }
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                self._function(statement, inside, own)
            else:
                self._node(statement, inside)


def _compares_identity(node: ast.AST) -> bool:
    """Return whether a node compares the identities of two objects of which neither is a constant of the language."""
    if not isinstance(node, ast.Compare):
        return False
    values = [node.left, *node.comparators]
    return any(
        isinstance(operation, ast.Is | ast.IsNot) and not any(map(_is_single_object, pair))
        for operation, pair in zip(node.ops, zip(values, values[1:], strict=False), strict=True)
    )


def _is_single_object(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _read_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _is_single(call: ast.Call) -> bool:
    return len(call.args) == 1 and not isinstance(call.args[0], ast.Starred) and not call.keywords


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _plain_classes(nodes: Iterable[ast.AST], bound: set[str]) -> set[str]:
    """Return the names that the program binds by class statements alone, which make classes and nothing else."""
    names: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef) and not node.keywords and _makes_class(node, bound):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        else:
            others |= names_bound_by(node)
    return names - others


def _makes_class(node: ast.ClassDef, bound: set[str]) -> bool:
    """Return whether a class statement makes a class: a decorator or a base of the program may make anything of it."""
    allowed = {"dataclass", "total_ordering"} - bound
    decorators = [one.func if isinstance(one, ast.Call) and not one.args else one for one in node.decorator_list]
    return all(isinstance(one, ast.Name) and one.id in allowed for one in decorators) and all(
        isinstance(base, ast.Name) and base.id in IMMUTABLE_NAMES - bound for base in node.bases
    )


_OF_LIBRARY: set[str] = set()  # all names that programs find without defining them; see set_library_names


def set_library_names(names: Iterable[str]) -> None:
    """Set the names that programs find without defining them."""
    _OF_LIBRARY.update(names)
