"""The mutation operators, one function for each kind of mistake. A kind has the name of its function.

Each function yields replacements for a node, without changing it. They may share children with the node.
"""

import ast
from collections.abc import Callable, Iterator

# Replacements of each comparison operator, which exclude or include a boundary value or reverse the comparison.
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq, ast.Lt, ast.Gt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.FloorDiv,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_FUNCTIONS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "bisect": "bisect_left",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "floor": "ceil",
    "ceil": "floor",
}
_MIN_LARGE = 1000  # larger numbers are divided by this, because a difference of one rarely matters


def off_by_one(node: ast.AST) -> Iterator[ast.AST]:
    """A difference of one in a bound of a range or slice, in an index, or in the number of iterations of a loop."""
    match node:
        case ast.Call(func=ast.Name(id="range"), args=[stop], keywords=[]):
            for arguments in ([_shift(stop, 1)], [_shift(stop, -1)], [ast.Constant(1), stop]):
                yield ast.Call(node.func, arguments, [])
        case ast.Call(func=ast.Name(id="range"), args=[start, stop, *step], keywords=[]):
            for bounds in ([start, _shift(stop, 1)], [start, _shift(stop, -1)], [_shift(start, 1), stop]):
                yield ast.Call(node.func, [*bounds, *step], [])
        case ast.Subscript(slice=ast.Slice(lower, upper, step)):
            if upper is not None:
                for by in (1, -1):
                    yield ast.Subscript(node.value, ast.Slice(lower, _shift(upper, by), step), node.ctx)
            if lower is not None:
                yield ast.Subscript(node.value, ast.Slice(_shift(lower, 1), upper, step), node.ctx)
        case ast.Subscript(slice=ast.Name() | ast.BinOp() as index, ctx=ast.Load()):
            for by in (1, -1):
                yield ast.Subscript(node.value, _shift(index, by), node.ctx)
        case ast.For(iter=ast.Call(func=ast.Name(id="range"))):
            return
        case ast.For(iter=iterable):
            rounds = ast.Call(ast.Name("list", ast.Load()), [iterable], [])
            for part in (ast.Slice(ast.Constant(1), None, None), ast.Slice(None, ast.Constant(-1), None)):
                yield ast.For(node.target, ast.Subscript(rounds, part, ast.Load()), node.body, node.orelse, lineno=0)


def _shift(value: ast.expr, by: int) -> ast.expr:
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return ast.Constant(value.value + by)
    return ast.BinOp(value, ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))


def comparison(node: ast.AST) -> Iterator[ast.AST]:
    """A comparison that wrongly includes or excludes a boundary value, or a reversed comparison."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                yield ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)


def dropped_branch(node: ast.AST) -> Iterator[ast.AST]:
    """A branch that always or never runs, or a missing condition."""
    match node:
        case ast.If(body=body, orelse=orelse):
            for taken in (False, True):
                yield ast.If(ast.Constant(taken), body, orelse)
        case ast.IfExp(body=one, orelse=other):
            yield one
            yield other
        case ast.BoolOp(op=op, values=values):
            for i in range(len(values)):
                left = values[:i] + values[i + 1 :]
                yield ast.BoolOp(op, left) if len(left) > 1 else left[0]


def swapped_operator(node: ast.AST) -> Iterator[ast.AST]:
    """One operation in place of another, such as plus for minus, `or` for `and`, or max for min."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS and not _has_text(left, right):
            yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATORS and not _has_text(value):
            yield ast.AugAssign(target, _OPERATORS[type(op)](), value)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            yield ast.Call(ast.Name(_FUNCTIONS[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(value=module, attr=name)) if name in _FUNCTIONS:
            yield ast.Call(ast.Attribute(module, _FUNCTIONS[name], ast.Load()), node.args, node.keywords)


def _has_text(*operands: ast.expr) -> bool:
    """Return whether an operand is text or a list, which lack most operators, so the mutant would fail every test."""
    return any(
        isinstance(operand, ast.JoinedStr | ast.List | ast.ListComp)
        or (isinstance(operand, ast.Constant) and isinstance(operand.value, str | bytes))
        for operand in operands
    )


def dropped_statement(node: ast.AST) -> Iterator[ast.AST]:
    """A missing statement, such as a call of `append` or `sort`, a `break` or a `continue`.

    Excludes calls of print, because any test rejects a program without output.
    """
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return
        case (
            ast.Expr(value=ast.Call())
            | ast.AugAssign()
            | ast.Continue()
            | ast.Break()
            | ast.Assign(targets=[ast.Subscript() | ast.Attribute()])
        ):
            yield ast.Pass()


def constant(node: ast.AST) -> Iterator[ast.AST]:
    """A wrong number or text, or a number that is too small for the largest inputs."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)) if value <= _MIN_LARGE:
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=int(value) | float(value)) if value:
            yield ast.Constant(value // _MIN_LARGE if value > _MIN_LARGE else value / 2)
        case ast.Constant(value=str(value)) if value:
            yield ast.Constant("")


def early_return(node: ast.AST) -> Iterator[ast.AST]:
    """A loop that ends after its first iteration, or a function that returns too early."""
    match node:
        case ast.For(body=body) if not _has_final_jump(body):
            yield ast.For(node.target, node.iter, [*body, ast.Break()], node.orelse, lineno=0)
        case ast.While(test=test, body=body) if not _has_final_jump(body):
            yield ast.While(test, [*body, ast.Break()], node.orelse)
        case ast.FunctionDef(body=[*work, ast.Return() as end]):
            for i, statement in enumerate(work):
                changed: ast.stmt
                match statement:
                    # Adds the return statement one level too deep.
                    case ast.For(body=body) if not _has_final_jump(body):
                        changed = ast.For(statement.target, statement.iter, [*body, end], statement.orelse, lineno=0)
                    case ast.If(test=test, body=body, orelse=orelse) if not _has_final_jump(body):
                        changed = ast.If(test, [*body, end], orelse)
                    case _:
                        continue
                whole = [*work[:i], changed, *work[i + 1 :], end]
                yield ast.FunctionDef(node.name, node.args, whole, node.decorator_list, node.returns, lineno=0)


def _has_final_jump(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Break | ast.Continue | ast.Raise)


# The order in which `generate_mutants` makes one mistake of each kind in turn.
KINDS: tuple[Callable[[ast.AST], Iterator[ast.AST]], ...] = (
    off_by_one,
    comparison,
    dropped_branch,
    swapped_operator,
    dropped_statement,
    constant,
    early_return,
)
