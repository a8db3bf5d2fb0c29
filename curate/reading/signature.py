"""The check that the arguments of a test fit its function. A mismatch reveals a test of another problem."""

import ast
from functools import lru_cache

_VALUES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "List": (list,),
    "list": (list,),
    "Dict": (dict,),
    "dict": (dict,),
}


def find_argument_mismatch(starter_code: str, entry_point: str, arguments: list[object]) -> str | None:
    """Return a description of the mismatch; None if the arguments fit, or if the parameters are unknown or variable."""
    function = _find_function(starter_code, entry_point)
    if function is None or function.args.vararg or function.args.kwonlyargs or function.args.kwarg:
        return None
    expected = _list_parameters(function)
    if not len(expected) - len(function.args.defaults) <= len(arguments) <= len(expected):
        return f"{len(arguments)} arguments for the {len(expected)} parameters of {entry_point}"
    for parameter, value in zip(expected, arguments, strict=False):
        annotation = parameter.annotation
        outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        types = _VALUES.get(outer.id) if isinstance(outer, ast.Name) else None
        if types and value is not None and type(value) not in types:
            return f"{type(value).__name__} for the parameter {ast.unparse(parameter)} of {entry_point}"
    return None


def find_parameter_names(starter_code: str, entry_point: str) -> list[str] | None:
    """Return the names of the function's parameters, in order; None if the starter code lacks the function."""
    function = _find_function(starter_code, entry_point)
    return None if function is None else [parameter.arg for parameter in _list_parameters(function)]


def find_sole_function_name(starter_code: str) -> str | None:
    """Return the name of the only public function in the starter code; None if it has several or none."""
    names = {function.name for function in _parse_functions(starter_code) if not function.name.startswith("_")}
    return names.pop() if len(names) == 1 else None


def _list_parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [a for a in function.args.posonlyargs + function.args.args if a.arg not in ("self", "cls")]


def _find_function(starter_code: str, entry_point: str) -> ast.FunctionDef | None:
    return next((function for function in _parse_functions(starter_code) if function.name == entry_point), None)


# All tests of a problem have the same starter code.
@lru_cache(8)
def _parse_functions(starter_code: str) -> list[ast.FunctionDef]:
    """Return the functions in starter code, whose last body is missing; empty if it cannot be parsed."""
    last = starter_code.rstrip().splitlines()[-1:] or [""]
    indent = len(last[0]) - len(last[0].lstrip()) + 4
    try:
        tree = ast.parse(f"{starter_code.rstrip()}\n{' ' * indent}pass\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
