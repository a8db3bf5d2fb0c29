"""Do the arguments of a test fit the function they are for? Tests of another problem often do not."""

import ast

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


def misfit(starter_code: str, entry_point: str, arguments: list[object]) -> str | None:
    """What is wrong with the arguments, or None where they fit or the starter code does not tell."""
    function = _function(starter_code, entry_point)
    if function is None or function.args.vararg or function.args.kwonlyargs or function.args.kwarg:
        return None
    parameters = [a for a in function.args.posonlyargs + function.args.args if a.arg not in ("self", "cls")]
    if not len(parameters) - len(function.args.defaults) <= len(arguments) <= len(parameters):
        return f"{len(arguments)} arguments for the {len(parameters)} parameters of {entry_point}"
    for parameter, value in zip(parameters, arguments, strict=False):
        annotation = parameter.annotation
        outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        fitting = _VALUES.get(outer.id) if isinstance(outer, ast.Name) else None
        if fitting and value is not None and type(value) not in fitting:
            return f"{type(value).__name__} for the parameter {ast.unparse(parameter)} of {entry_point}"
    return None


def _function(starter_code: str, entry_point: str) -> ast.FunctionDef | None:
    """Starter code ends where the body should begin, so a body is added to make it parse."""
    last = starter_code.rstrip().splitlines()[-1:] or [""]
    indent = len(last[0]) - len(last[0].lstrip()) + 4
    try:
        tree = ast.parse(f"{starter_code.rstrip()}\n{' ' * indent}pass\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return next((function for function in functions if function.name == entry_point), None)
