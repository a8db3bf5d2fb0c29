# ruff: noqa: E501  programs of one line each are easier to compare
"""Submissions that attack the protocol between them and tests that are statements. Each of them fails.

ON_THE_WIRE send frames of their own; the words show that the attack came as far as the tests' side. The others use
Python alone.
"""

from batch import judged

from sandbox import Assertions, Case, Judgement, Limits, Program, Suite, Verdict

LIMITS = Limits(wall_seconds=5, memory_mb=256)  # long: attacks are judged at the same time
SHORT = Limits(wall_seconds=0.5, memory_mb=256)
GIVEN = "class Node:\n    def __init__(self, val=0): self.val = val\n    def is_root(self): return False\nclass Wrong(Exception): pass"
SETUP = "class Hidden:\n    def __eq__(self, other): return True\nSECRET_ = 123456789"
EQUAL = "assert f(3) == 123456789"
RAISES = "import pytest\nwith pytest.raises(KeyError): f(3)"
SUBJECT = "box = Box()\nassert box.f(3) == 424242"
YES = "".join(f"    def __{name}__(self, *other): return True\n" for name in "eq lt gt le ge bool".split())
# Replies to the request that is being served, in place of the program, and then goes on serving.
REPLY = """
import os, sys
def side():
    frame = sys._getframe()
    while "request" not in frame.f_locals: frame = frame.f_back
    return frame.f_locals["self"], frame.f_locals["request"]["number"]
def reply(**parts):
    peer, number = side()
    peer._stream.send({"number": number, "changed": [], "nodes": [], "classes": []} | parts)
    peer.serve()
    os._exit(0)
def number_of(value): return side()[0].export(value)
def class_of(value): return side()[0]._get_class_number(type(value))
"""
NOTHING = "{'nodes': [], 'classes': [], 'changed': []}"


def answer(raw: str, statements: str = EQUAL) -> tuple[str, str]:
    """Return an attack that answers `f` with this JSON."""
    return f"{REPLY}def f(x): reply(value={raw})", statements


ON_THE_WIRE: dict[str, tuple[tuple[str, str], str]] = {
    "a function of the library that runs code": (answer("['library', 'builtins.exec']", "f(3)('1')"), "is not data"),
    "a class of the library that starts processes": (answer("['library', 'subprocess.Popen']", "f(3)(['true'])"), "is not data"),
    "a module that is not for exceptions": (answer("['library', 'os.system']", "f(3)('true')"), "there is no 'os.system'"),
    "a path of names": (answer("['library', 'json.decoder.JSONDecoder.decode']", "f(3)"), "there is no"),
    "the type of all types": (answer("['library', 'builtins.type']", "assert f(3)(5) is int"), "is not data"),
    "a class that only the tests have": (answer("['shared', 'Hidden']", "assert f(3)() == 5"), "unknown kind"),
    "an instance of a class that only the tests have": (
        (f"{REPLY}def f(x): reply(value=['node', 0], nodes=[['instance', 'Hidden']])", EQUAL), "there is no class 'Hidden'"),
    "the number of a function that was never passed": (answer("['yours', 0]", "def check(x): return 5\nassert f(3)(1) == 5"), "unknown kind"),
    "a negative number": (answer("['yours', -1]", "f(abs)\nassert f(print)"), "unknown kind"),
    "a node that the frame does not have": (answer("['node', 99]"), "invalid value"),
    "a node without a type": ((f"{REPLY}def f(x): reply(value=['node', 0], nodes=[['mock']])", EQUAL), "unknown kind"),
    "an object without a class": (answer("['mine', 77, 4711]"), "unknown class"),
    "an object in the place of a class": (answer("['mine', number_of(f)]"), "unknown class"),
    "a class in the place of an object": (answer("['mine', class_of(f), class_of(f)]"), "unknown class"),
    "a number that is text": (answer("['int', 5]"), "invalid int"),
    "a fraction of text": (answer("['Fraction', '1e99999999', 1]"), "invalid Fraction"),
    "a range without an end": (answer("['range', 0, None, 1]"), "invalid range"),
    "a value with a tag that cannot be hashed": (answer("[[], 1]"), "invalid value"),
    "an object of JSON": (answer("{'value': 123456789}"), "unknown kind"),
    "a dict with a key and no value": ((f"{REPLY}def f(x): reply(value=['node', 0], nodes=[['dict', 1]])", EQUAL), "invalid node"),
    "a list that becomes a dict": ((f"{REPLY}def f(x): reply(value=1, changed=[[0, ['dict', 1, 2]]])", "x = [1]\nf(x)\nassert x == [2]"), "the type of an object"),
    "a change of an object of a later node": ((f"{REPLY}def f(x): reply(value=1, nodes=[['list']], changed=[[2, ['list', 1]]])", "f([1])"), "not given"),
    "a change that is none": ((f"{REPLY}def f(x): reply(value=1, changed=[3])", "f([1])"), "not given"),
    "an attribute that hides a method": (
        (f"{REPLY}def f(x): reply(value=['node', 0], nodes=[['instance', 'Node', 'is_root', True]])", "assert f(Node()).is_root"), "hide code of the class"),
    "the class of an instance": (
        (f"{REPLY}def f(x): reply(value=['node', 0], nodes=[['instance', 'Node', '__class__', 1]])", "assert f(Node()).val"), "hide code of the class"),
    "a type as an attribute": (
        (f"{REPLY}def f(x): reply(value=['node', 0], nodes=[['instance', 'Node', 'equals', ['library', 'builtins.bool']]])", "assert f(Node()).equals(77)"), "act as a method"),
    "a named tuple with a type": (answer("['record', 'P', ['equals'], ['library', 'builtins.bool']]", "assert f(3).equals(77)"), "act as a method"),
    "a named tuple of code": (answer("['record', 'P', ['x=print(1)'], 1]"), "invalid value"),
    "an exception that ends the process": (
        (f"{REPLY}def f(x): reply(raised=['error', 99, ['library', 'builtins.SystemExit'], [0], [], ''])", RAISES), "is not data"),
    "an exception that cannot be made": (
        (f"{REPLY}def f(x): reply(raised=['error', 99, ['library', 'builtins.UnicodeDecodeError'], [0], [], ''])", RAISES), "invalid exception"),
    "an exception that is a number": ((f"{REPLY}def f(x): reply(raised=5)", RAISES), "not an exception"),
    "an exception with a method": (
        (f"{REPLY}def f(x): reply(raised=['error', 99, ['library', 'builtins.KeyError'], [], [['equals', ['library', 'builtins.bool']]], ''])",
         "try: f(3)\nexcept KeyError as e: assert e.equals(77)"), "has no attribute 'equals'"),
    "an exception in the place of an object": (
        (f"{REPLY}class E(Exception): pass\ndef f(x):\n    peer = side()[0]\n    n = peer._get_class_number(E)\n"
         "    reply(raised=['error', number_of(f), ['mine', n], [], [], ''], classes=peer._new_classes)", RAISES), "an exception where none is allowed"),
    "an object that is refused": ((f"{REPLY}def f(x): reply(refused='TypeError: no')", "import pytest\nwith pytest.raises(Exception): f(3)"), "cannot decode a request of the test"),
    "the answer to a later question": ((f"{REPLY}def f(x): side()[0]._stream.send({NOTHING} | {{'number': 9, 'value': 7}}) or reply(value=7)", "assert f(1) == 7"), "another request"),
    "an answer without a number": ((f"{REPLY}def f(x): side()[0]._stream.send({NOTHING} | {{'value': 7}}) or reply(value=7)", "assert f(1) == 7"), "another request"),
    "a class that is described again": (
        (f"{REPLY}def f(x): reply(value=7, classes=[[class_of(f), 'int', [], ['eq'], []]])", "assert f(3) == 7"), "in an unknown way"),
    "a class with a base that is data": (
        (f"{REPLY}def f(x): reply(value=['mine', 50, 51], classes=[[51, 'int', [['library', 'builtins.int']], ['eq', 'int'], []]])", "assert int(f(3)) == 5"), "int"),
    "a class with an unknown base": ((f"{REPLY}def f(x): reply(value=7, classes=[[51, 'C', [['mine', 52]], [], []]])", "assert f(3) == 7"), "unknown class"),
    "a class whose methods are numbers": ((f"{REPLY}def f(x): reply(value=7, classes=[[51, 'C', [], [], [1]]])", "assert f(3) == 7"), "not text"),
    "a function that the test did not pass is called": (
        (f"{REPLY}def f(x): side()[0].request('call', bool, 1)", "f(3)\nassert False"), "a function that it was not given"),
    "an attribute of the tests is read": ((f"{REPLY}def f(x): return side()[0].request('get', x, '__globals__')['SECRET_']", "def g(): return 1\nassert f(g) == 123456789"), "a function that it was not given"),
    "names of the tests are asked for": ((f"{REPLY}def f(x): return side()[0].request('names')['SECRET_']", EQUAL), "a function that it was not given"),
    "a request that cannot be read": ((f"{REPLY}def f(x): side()[0]._stream.send({NOTHING} | {{'ask': 'call', 'arguments': ['node', 5]}})", EQUAL), "invalid value"),
    "a frame that is a list": ((f"{REPLY}def f(x): side()[0]._stream.send([1])", EQUAL), "not a JSON object"),
    "a frame of NaN": ((f"{REPLY}def f(x): os.write(side()[0]._stream._sink, (3).to_bytes(8, 'little') + b'NaN')", EQUAL), "not JSON"),
    "a frame that is too long": ((f"{REPLY}def f(x): os.write(side()[0]._stream._sink, b'\\xff' * 8)", EQUAL), "too large"),
    "a frame of brackets": ((f"{REPLY}def f(x): os.write(side()[0]._stream._sink, (1 << 20).to_bytes(8, 'little') + b'[' * (1 << 20))", EQUAL), "not JSON"),
    "a frame of many brackets": (
        (f"{REPLY}def f(x):\n    text = b'[' + b'[],' * 3_000_000 + b'[]]'\n    data = len(text).to_bytes(8, 'little') + text\n"
         "    while data: data = data[os.write(side()[0]._stream._sink, data):]", EQUAL), "too many parts"),
    "a subject that comes back as an exception": (
        (f"{REPLY}class Box:\n    def f(self, x): reply(value=['error', number_of(self), ['library', 'builtins.KeyError'], [], [], ''])\n{YES}", SUBJECT), "AssertionError"),
    "a subject that comes back under its own number": (
        (f"{REPLY}class Box:\n    def f(self, x): reply(value=['mine', number_of(self), class_of(self)])\n{YES}", SUBJECT), "AssertionError"),
    "a subject that comes back as a changed argument": (
        (f"{REPLY}class Box:\n    def f(self, x): reply(value=['mine', number_of(self), class_of(self)], changed=[[1, ['list', ['mine', number_of(self), class_of(self)]]]])\n"
         f"{YES}    def fill(self, x): x[:] = [self]", "box = Box()\nx = []\nbox.fill(x)\nassert x[0] == 424242"), "AssertionError"),
    "a method that is no text": ((f"{REPLY}def f(x): reply(value=7, classes=[[51, 'C', [], ['eq'], ['f', None]]])", "assert f(3) == 7"), "not text"),
    "names that nobody asked for": (
        ("import sys\nframe = sys._getframe()\nwhile 'peer' not in frame.f_locals: frame = frame.f_back\n"
         "frame.f_locals['peer']._names = ('f', 'SECRET_')\nSECRET_ = 5\ndef f(x): return 5", "assert f(3) == SECRET_"), "does not list its names"),
}  # fmt: skip

WITH_PYTHON: dict[str, tuple[str, str]] = {
    "a class in place of a function decides an order": ("class f:\n    def __init__(self, x): pass\n    __lt__ = lambda self, other: True", "assert f(1) < f(2) < f(3)"),
    "a class in place of a function decides what is equal": (
        "class f:\n    def __init__(self, x): pass\n    __eq__ = lambda self, other: True", "assert f('abc') == f('cba')"),
    "a class in place of a function is near everything": (
        "class f:\n    def __init__(self, x): pass\n    def __sub__(self, other): return 0.0", "assert abs(f(3) - f(4)) < 1e-9"),
    "an iterator that has a length": (
        "class R:\n    def __iter__(self): return iter(range(1000))\n    def __next__(self): raise StopIteration\n    def __len__(self): return 2\ndef f(x): return R()",
        "r = f(3)\nassert len(r) == 2 and 77 in r and 78 in r"),
    "an iterator that is another one each time": (
        "class R:\n    n = 0\n    def __iter__(self):\n        self.n += 1\n        return iter(range(1000) if self.n < 3 else ())\n    def __next__(self): raise StopIteration\ndef f(x): return R()",
        "r = f(3)\nassert 77 in r and 78 not in r"),
    "items that have no end, and a length": (
        "class R:\n    def __getitem__(self, i):\n        if i < 1000: return i\n        raise IndexError\n    def __len__(self): return 2\ndef f(x): return R()",
        "r = f(3)\nx = list(r)\nassert len(r) == 2 and 77 in x and 78 in x"),
    "another order backwards": (
        "class R:\n    def __iter__(self): return iter([1, 2])\n    def __reversed__(self): return iter(range(1000))\n    def __len__(self): return 2\ndef f(x): return R()",
        "r = f(3)\nassert len(r) == 2 and 77 in list(reversed(r))"),
    "another text each time it is compared": (
        "class T(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n    def startswith(self, x): return True\ndef f(x): return T('')", "assert f(3).startswith('seven')"),
    "a slice of everything": (
        "class R:\n    def __iter__(self): return iter([5, 5])\n    def __len__(self): return 2\n    def __getitem__(self, i): return [6, 7] if isinstance(i, slice) else 5\ndef f(x): return R()",
        "r = f(3)\nassert list(r) == [5, 5] and r[0:2] == [6, 7]"),
    "a dict with a default that equals everything": (
        f"from collections import defaultdict\nclass Y:\n{YES}def f(x): return defaultdict(Y)", "assert f(3)['key'] == 17"),
    "a key that has the hash of everything": (
        f"class K:\n{YES}    def __hash__(self): return hash(77)\ndef f(x): return {{K(): 1}}", "assert 77 in f(3)"),
    "a set of what equals everything": (f"class K:\n{YES}    def __hash__(self): return hash(77)\ndef f(x): return {{K()}}", "assert f(3) == {77}"),
    "a number in a tuple that equals everything": (f"class K:\n{YES}def f(x): return (1, K())", "assert f(3) == (1, 77)"),
    "a node whose value equals everything": (f"class K:\n{YES}def f(x): return Node(K())", "assert f(3).val == 77"),
    "a reflected comparison": (f"class K:\n{YES}def f(x): return K()", "assert 77 == f(3)"),
    "a reflected subtraction": ("class K:\n    def __rsub__(self, other): return 0.0\n    def __abs__(self): return 0.0\ndef f(x): return K()", "assert abs(3.25 - f(3)) < 1e-9"),
    "a special method that is called by name": (f"class K:\n{YES}def f(x): return K()", "assert f(3).__eq__(77)"),
    "a special method that the protocol does not have": ("class K:\n    def __ilshift__(self, x): return True\ndef f(x): return K()", "assert f(3).__ilshift__(77)"),
    "a method through the library": ("class K:\n    def equals(self, x): return True\ndef f(x): return K()", "import operator\nassert operator.methodcaller('equals', 77)(f(3))"),
    "a method that a comprehension calls": ("class K:\n    def equals(self, x): return True\ndef f(x): return K()", "r = f(3)\nassert all([r.equals(x) for x in [77]])"),
    "a method that extends a list in a statement": ("class K:\n    def equals(self, x): return True\ndef f(x): return K()", "x = []\nx.extend(map(f(3).equals, [77]))\nassert x == [True]"),
    "a partial function": ("from functools import partial\ndef f(x): return partial(lambda *a: True)", "assert f(3).equals(77)"),
    "a copy that is asked": ("class K:\n    def __copy__(self): return 77\n    def __deepcopy__(self, memo): return 77\ndef f(x): return K()", "import copy\nassert copy.deepcopy(f(3)) == 77"),
    "a pickle that is asked": ("class K:\n    def __reduce__(self): return int, (77,)\ndef f(x): return K()", "import pickle\nassert pickle.loads(pickle.dumps(f(3))) == 77"),
    "a class that lies about its class": ("class K:\n    __class__ = int\n    def __eq__(self, other): return True\ndef f(x): return K()", "assert isinstance(f(3), int)"),
    "a number by its text": (f"class K(int):\n    def __str__(self): return '77'\n    def __format__(self, form): return '77'\n{YES}def f(x): return K(5)", "assert f(3) == 77 and str(f(3)) == '77'"),
    "a sum that is not asked": ("class K:\n    def __radd__(self, other): return 77\n    __add__ = __radd__\ndef f(x): return [K()]", "assert sum(f(3)) == 77"),
    "a pattern": (f"class K:\n{YES}def f(x): return K()", "match f(3):\n    case 77: pass\n    case _: assert False"),
    "approximately everything": (f"class K(float):\n{YES}    def __rsub__(self, x): return 0.0\ndef f(x): return K(1)", "import pytest\nassert f(3) == pytest.approx(3.25)"),
    "approximately everything, reflected": (f"class K:\n{YES}def f(x): return K()", "import pytest\nassert pytest.approx(3.25) == f(3) and pytest.approx([3.25]) == [f(3)]"),
    "a unittest's equality": (f"class K:\n{YES}def f(x): return K()", "import unittest\nunittest.TestCase().assertEqual(f(3), 77)"),
    "a unittest's near equality": (f"class K:\n{YES}    def __sub__(self, x): return 0.0\n    __rsub__ = __sub__\ndef f(x): return K()", "import unittest\nunittest.TestCase().assertAlmostEqual(f(3), 3.25)"),
    "a unittest's membership": (f"class K:\n{YES}    def __contains__(self, x): return True\ndef f(x): return K()", "import unittest\nunittest.TestCase().assertIn(77, f(3))"),
    "an array with a function of its own": (
        f"class K:\n    __array_priority__ = 99\n    def __array_ufunc__(self, *a, **k): return True\n{YES}def f(x): return K()", "import numpy\nassert numpy.equal(f(3), 77)"),
    "a failure that is caught where the program calls back": (
        "def f(check):\n    try: check(5)\n    except BaseException: pass\n    return 77", "def check(x): assert x == 6\nf(check)"),
    "a callback from another thread": (
        "import threading\ndef f(check):\n    t = threading.Thread(target=check, args=(5,))\n    t.start()\n    t.join()\n    return 77", "def check(x): assert x == 6\nassert f(check) == 77"),
    "a callback after the call": (
        "kept = []\ndef f(check):\n    kept.append(check)\n    return kept[0](5) if len(kept) > 1 else 77", "def check(x): assert x == 6\nf(check)\nf(check)"),
    "callbacks without an end": ("def f(check):\n    while True: check(6)", "def check(x): assert x == 6\nf(check)\nassert False"),
    "callbacks into callbacks": ("def f(check): return check(f)", "def check(g): return g(check)\nassert f(check) == 77"),
    "an exception that is raised by its class": ("class E(KeyError):\n    def __new__(cls, *a): return 77\ndef f(x): raise E", "try: f(3)\nexcept KeyError as e: assert e.args == (77,)\nelse: assert False"),
    "an exception whose arguments equal everything": (f"class K:\n{YES}def f(x): raise KeyError(K())", "try: f(3)\nexcept KeyError as e: assert e.args == (77,)\nelse: assert False"),
    "an exception that equals everything": (f"class E(KeyError):\n{YES}    __hash__ = object.__hash__\ndef f(x): return E()", EQUAL),
    "an exception whose method is asked": ("class E(KeyError):\n    def equals(self, x): return True\ndef f(x): raise E", "try: f(3)\nexcept KeyError as e: assert e.equals(77)\nelse: assert False"),
    "an end of the iteration ends the test's loop": ("def f(x): raise StopIteration", "assert all(map(lambda x: f(x) == x + 1000, [1, 2]))"),
    "an end of the iteration that is its own": ("class E(StopIteration): pass\ndef f(x): raise E", "assert list(map(f, [1, 2])) == []"),
    "an end of the iteration by an attribute": (
        "class K:\n    @property\n    def x(self): raise StopIteration\ndef f(x): return K()", "assert list(map(lambda y: f(y).x, [1, 2])) == []"),
    "a with block that hides what fails in it": (
        "class Box:\n    def __enter__(self): return self\n    def __exit__(self, *e): return True\n    def f(self, x): return 1", "with Box() as box: assert box.f(3) == 77"),
    "a with block that hides an exception of its own": (
        "class Box:\n    def __enter__(self): return self\n    def __exit__(self, *e): return True\n    def f(self, x): raise ValueError", "with Box() as box: assert box.f(3) == 77"),
    "a with block that learns what fails in it": (
        f"class Box:\n    n = 0\n    def __enter__(self): return self\n    def __exit__(self, kind, error, trace):\n        if error.args: Box.n = int(error.args[0])\n    def f(self, x): return self.n\n{YES}",
        "import contextlib\nbox = Box()\nfor _ in range(2):\n    with contextlib.suppress(AssertionError), box:\n        assert box.f(3) == 77, 77\nassert box.f(3) == 77"),
    "a class that is every exception": ("Missing = Exception\ndef f(x): raise OSError", "import pytest\nwith pytest.raises(Missing): assert f(3) == 77"),
    "a list of every exception": ("def f(x): return [Exception]", "try: assert f(3) == 77\nexcept f(3)[0]: pass"),
    "a dict of every exception": ("def f(x): return {'missing': (AssertionError,)}", "try: assert f(3) == 77\nexcept f(3)['missing']: pass"),
    "a class that is not made by the test": (f"class Box:\n{YES}    def f(self, x): return Box()", SUBJECT),
    "a class that makes itself": (f"class Box:\n{YES}    def f(self, x): return self", SUBJECT),
    "a class that keeps itself in a list": (f"class Box:\n{YES}    def f(self, x): return [self]", "box = Box()\nassert box.f(3) == [424242]"),
    "a class that keeps itself in an attribute": (f"class Box:\n{YES}    @property\n    def x(self): return self", "box = Box()\nassert box.x == 424242"),
    "a class that gives itself to a callback": (f"class Box:\n{YES}    def f(self, check): check(self)", "box = Box()\ndef check(x): assert x == 424242\nbox.f(check)"),
    "a class that is one object": (f"class Box:\n    def __new__(cls): return one\n{YES}    def f(self, x): return Box()\none = object.__new__(Box)", "a = Box()\nassert a.f(3) == 424242"),
    "frames of the server hold no expected value": (
        "import gc, re\ndef f(x):\n    for o in gc.get_objects():\n        if isinstance(o, (dict, list, tuple)):\n            found = re.search(r'98765\\d+', repr(o)[:10000])\n            if found and '.' not in found.group(): return int(found.group())\n    return 0",
        "assert f(3) == 98765 * 1000 + 432"),
    "the streams hold no expected value": (
        "import os, re\ndef f(x):\n    text = b''\n    for fd in range(3, 20):\n        try:\n            os.set_blocking(fd, False)\n            text += os.read(fd, 1 << 16)\n        except OSError: pass\n    found = re.search(rb'SECRET_|\\d{9}', text)\n    return int(found.group()) if found else 0", EQUAL),
    "the streams are closed": ("import os\ndef f(x): os.closerange(3, 100)", "import pytest\nwith pytest.raises(Exception): f(3)"),
    "the streams are swapped": ("import os\ndef f(x):\n    for fd in range(3, 20):\n        try: os.dup2(1, fd)\n        except OSError: pass", "import pytest\nwith pytest.raises(Exception): f(3)"),
    "two processes that answer": ("import os\ndef f(x):\n    os.fork()\n    return os.getpid() % 2 * 77", "assert f(1) == 77 and f(2) == 0 and f(3) == 77 and f(4) == 78"),
    "operators are replaced": ("import operator, builtins\noperator.eq = lambda *a: True\nbuiltins.len = lambda x: 77\nbuiltins.isinstance = lambda *a: True\ndef f(x): return [1]", "assert len(f(3)) == 77"),
    "the codec is replaced": (
        f"{REPLY}def f(x):\n    type(side()[0]).encode_object = lambda self, graph, value: ['yours', 0]\n    return object()", "def g(): return 77\nassert f(g) == 77"),
    "an addition that the test's number cannot be told": (
        "class K:\n    def __add__(self, other): return other + 1\ndef f(x): return K()", "assert f(3) + 76 == 77"),
}  # fmt: skip
# Ways in which a subject comes back: it may then stand where the test expects data, and is asked no more.
WAYS = {
    "an iterator": ("def __iter__(self): return self\n    def __next__(self): return self", "x = next(box)"),
    "its items": ("def __iter__(self): return iter([self])", "(x,) = box"),
    "an item": ("def __getitem__(self, key): return self", "x = box['x']"),
    "a call": ("def __call__(self, x): return self", "x = box(3)"),
    "an addition": ("def __add__(self, x): return self", "x = box + 3"),
    "a sign": ("def __neg__(self): return self", "x = -box"),
    "a rounding": ("def __round__(self, n): return self", "x = round(box, 2)"),
    "an argument of an exception": ("def f(self): raise KeyError(self)", "try: box.f()\nexcept KeyError as e: x = e.args[0]"),
    "an attribute of an exception": (
        "def f(self):\n        e = KeyError()\n        e.x = self\n        raise e", "try: box.f()\nexcept KeyError as e: x = e.x"),
    "an attribute of an argument": ("def f(self, node): node.val = self", "n = Node()\nbox.f(n)\nx = n.val"),
    "an argument of a statement": ("def f(self, x):\n        x.append(self)\n        return self", "y = []\nbox.f(y)\nx = y[0]"),
    "an argument of an operator": ("def __iadd__(self, x):\n        x.append(self)\n        return self", "y = []\nbox += y\nx = y[0]"),
    "a with block": ("def __enter__(self): return [self]\n    def __exit__(self, *_): pass", "with box as y: (x,) = y"),
}  # fmt: skip
WITH_PYTHON |= {
    f"a subject by {way}": (f"class Box:\n{YES}    {method}", f"box = Box()\n{statements}\nassert x == 424242")
    for way, (method, statements) in WAYS.items()
}
ENDLESS = {"callbacks without an end", "callbacks into callbacks"}


def pair(source: str, statements: str, limits: Limits = LIMITS) -> tuple[Program, Suite]:
    names = [name for name in ("f", "Box", "Missing") if name in source.replace("def f(self", "")]
    if "Box" in names and "\ndef f(" not in source:
        names.remove("f")
    shared = Assertions(tuple(names), GIVEN, SETUP, tuple(name for name in names if name[:1].isupper()))
    return Program(source), Suite([Case(statements, "")], None, "python", limits, None, shared)


THEN = pair("def f(x): return x", "assert f(3) == 3")


@judged({name: pair(*attack) for name, (attack, _) in ON_THE_WIRE.items()}, then=THEN)
def test_forged_frames_are_refused(judgement: Judgement, name: str) -> None:
    (case,) = judgement.cases
    assert case.verdict is Verdict.WRONG_ANSWER, case
    assert ON_THE_WIRE[name][1] in case.detail, case


@judged(
    {name: pair(*attack, limits=SHORT if name in ENDLESS else LIMITS) for name, attack in WITH_PYTHON.items()},
    then=THEN,
)
def test_an_object_of_the_submission_decides_nothing(judgement: Judgement) -> None:
    assert judgement.verdict is not Verdict.ACCEPTED
