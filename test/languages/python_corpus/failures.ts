/** How programs end before their end: exits, exceptions, tracebacks, sources that cannot be read. */
import { each, family } from './program.ts';

const CODES = [
  '0',
  '1',
  '3',
  '127',
  '128',
  '255',
  '256',
  '-1',
  'None',
  'True',
  '"why"',
  '[1]',
  '2.5',
  '2**70',
];
export const exits = [
  ...each('exit()', CODES, (code) => `print("out")\nexit(${code})\nprint("never")`),
  ...each(
    'sys.exit in a function',
    CODES,
    (code) =>
      `import sys\ndef f():\n    try:\n        sys.exit(${code})\n    finally:\n        print("finally")\nf()`,
  ),
  ...each('SystemExit', CODES, (code) => `class E(SystemExit): pass\nraise E(${code})`),
  ...each(
    'os._exit',
    ['0', '1', '77', '255'],
    (code) =>
      `import os, sys, atexit\natexit.register(print, "never")\nprint("lost unless flushed")\nsys.stderr.write("kept")\nos._exit(${code})`,
  ),
];

const EXCEPTIONS =
  'ArithmeticError AssertionError AttributeError BaseException BlockingIOError BrokenPipeError BufferError EOFError Exception FileNotFoundError FloatingPointError GeneratorExit ImportError IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError NotImplementedError OSError OverflowError PermissionError RecursionError ReferenceError RuntimeError StopAsyncIteration StopIteration SyntaxError SystemError TabError TimeoutError TypeError UnboundLocalError UnicodeError UserWarning ValueError ZeroDivisionError'.split(
    ' ',
  );
export const raises = [
  ...each('raise', EXCEPTIONS, (name) => `raise ${name}("why")`),
  ...each(
    'raise through frames',
    EXCEPTIONS.filter((_, i) => i % 3 === 0),
    (name) =>
      `class A:\n    def f(self):\n        return [self.g(x) for x in range(1)]\n    def g(self, x):\n        raise ${name}\nA().f()`,
  ),
];

export const tracebacks = family('traceback', {
  chained: 'try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError("second") from e',
  context: 'try:\n    {}["a"]\nexcept KeyError:\n    undefined',
  suppressed: 'try:\n    1 / 0\nexcept Exception:\n    raise ValueError from None',
  group:
    'try:\n    raise ExceptionGroup("g", [ValueError(1), TypeError(2)])\nexcept NameError:\n    print("old")',
  lambda: '(lambda: 1 / 0)()',
  'class body': 'class A:\n    x = 1 / 0',
  comprehension: 'print([1 / x for x in (1, 0)])',
  generator: 'def g():\n    yield 1\n    raise RuntimeError("g")\nfor x in g(): print(x)',
  exec: 'exec("x = 1\\ny = x / 0")',
  eval: 'eval("1 +")',
  compile: 'exec(compile("def f():\\n  return zz\\nf()", "named.py", "exec"))',
  'str that fails': 'class E(Exception):\n    def __str__(self): raise ValueError\nraise E',
  'long chain':
    'def f(n):\n    try:\n        if n: f(n - 1)\n        else: 1 / 0\n    except Exception as e:\n        raise RuntimeError(n) from e\nf(5)',
  'repeated frames': 'def f(n): return f(n - 1) if n else 1 / 0\nf(20)',
  'too deep': 'def f(): return f()\nf()',
  'two that call each other': 'def f(): g()\ndef g(): f()\nf()',
  unicode: 'größe = "é"\nraise ValueError("日本 " + größe + unbekannt)',
  'assert with a message': 'x = 1\nassert x == 2, ("no", x)',
  notes: 'e = ValueError("v")\ntry: e.add_note("note")\nexcept AttributeError: pass\nraise e',
  import: 'import nothing_of_that_name',
  'import from': 'from os import nothing_of_that_name',
  'import a part': 'import os.nothing.at_all',
  'printed here':
    'import traceback\ndef f():\n    traceback.print_stack()\n    try: 1 / 0\n    except Exception: traceback.print_exc()\nf()',
  'of the stack':
    'import inspect, sys\ndef f(): return [(s.function, s.lineno, s.filename) for s in inspect.stack()]\nprint(f(), sys._getframe().f_back, sys._getframe().f_code.co_name, sys._getframe().f_code.co_filename)',
  'of an exception':
    'import sys, traceback\ntry: 1 / 0\nexcept Exception as e:\n    print(traceback.extract_tb(e.__traceback__), e.__traceback__.tb_frame.f_back, len(list(traceback.walk_stack(None))))',
  'source lines':
    'import inspect, linecache\ndef f():\n    return 1\nprint(inspect.getsource(f), linecache.getline(__file__, 1))',
  excepthook:
    'import sys\nsys.excepthook = lambda *a: print("hook", a[0].__name__, a[2].tb_lineno)\n1 / 0',
  'excepthook that fails':
    'import sys\ndef hook(*a): raise KeyError("in hook")\nsys.excepthook = hook\n1 / 0',
  tracebacklimit: 'import sys\nsys.tracebacklimit = 1\ndef f(): g()\ndef g(): 1 / 0\nf()',
  'a line too long': `x = 1; ${'y = x; '.repeat(60)}1 / 0`,
  'a suggestion': 'class A: colour = 1\nA().color',
  'a suggested name': 'number = 1\nprint(nubmer)',
  'a suggested module': 'print(math.pi)',
  'coroutine never awaited': 'async def f(): pass\nf()\nprint("on")',
  warning:
    'import warnings\nwarnings.warn("careful")\nwarnings.warn("old", DeprecationWarning)\ndef f(): warnings.warn("two up", stacklevel=2)\nf()\nprint("on")',
  'warning as error': 'import warnings\nwarnings.simplefilter("error")\nwarnings.warn("careful")',
  unraisable:
    'class A:\n    def __del__(self): raise ValueError("in del")\na = A()\ndel a\nprint("on")',
});

export const syntax = each(
  'syntax error',
  [
    'print(',
    'x = = 1',
    'def f(:',
    'if True\n    x',
    '  x = 1',
    'if 1:\nx = 1',
    'if 1:\n\tx = 1\n        y = 2',
    'x = "unfinished',
    "f'{'",
    'return 1',
    'break',
    'yield = 1',
    'x = 08',
    'print "old"',
    'é = $',
    'a b',
    'async x',
    'lambda: (yield',
    '"""open',
    'nonlocal x',
    'f(**a, *b)',
    'def f(a, a): pass',
    'from __future__ import braces',
    'x: int: 1',
    '\\',
    '1_000_',
  ],
  (code) => `# first line\n${code}`,
);

export const files = [
  { name: 'file: empty', code: '' },
  { name: 'file: only a comment', code: '# nothing' },
  { name: 'file: byte order mark', code: '\ufeffprint("bom")' },
  { name: 'file: latin-1 cookie', code: '# -*- coding: latin-1 -*-\nprint(len("é"))' },
  { name: 'file: unknown cookie', code: '# coding: nothing-8\nprint(1)' },
  { name: 'file: carriage returns', code: 'print(1)\r\nif True:\r\n    print(2)\r\n' },
  { name: 'file: old carriage returns', code: 'print(1)\rprint(2)\r' },
  { name: 'file: form feed', code: 'print(1)\n\fprint(2)\n' },
  { name: 'file: NUL', code: 'print(1)\n\0\nprint(2)' },
  { name: 'file: no end of line', code: 'if True:\n    print(1)' },
  { name: 'file: shebang', code: '#!/usr/bin/env nothing\nprint(1)' },
  { name: 'file: docstring', code: '"""doc"""\nprint(__doc__)' },
  { name: 'file: long', code: `${'x = 1\n'.repeat(9000)}print(x)` },
  {
    name: 'file: a future import',
    code: 'from __future__ import annotations\ndef f(a: b): pass\nprint(f.__annotations__)',
  },
  { name: 'file: itself', code: 'print(open(__file__).read())' },
  {
    name: 'file: a pickle of its own class',
    code: 'import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))), A.__module__, A.__qualname__)',
  },
];
