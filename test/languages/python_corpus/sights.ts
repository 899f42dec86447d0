/** What programs see of their interpreter, their input and their arguments. */
import { family, type PythonProgram } from './program.ts';

export const looks = family('looks at', {
  argv: 'import sys\nprint(sys.argv, sys.orig_argv[1:], sys.path, sys.flags, sys.warnoptions, sys._xoptions)',
  interpreter:
    'import sys\nprint(sys.executable, sys.version, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.implementation.cache_tag, sys.platform, sys.api_version, sys.byteorder)',
  __main__:
    'import __main__\nprint(__main__.__dict__ is globals(), __name__, __file__, __doc__, __package__, __spec__, type(__loader__).__name__, __loader__.name, __loader__.path, __builtins__, globals().get("__cached__", "no"))',
  globals: 'print(sorted(globals()))',
  annotations: 'x: int = 1\nprint(__annotations__)',
  builtins:
    'import builtins\nprint(sorted(dir(builtins)), exit, quit, copyright is not None, help)',
  'sys names': 'import sys\nprint(sorted(vars(sys)))',
  'sys values':
    'import sys\nprint(sys.getrecursionlimit(), sys.getswitchinterval(), sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.float_info, sys.maxsize, sys.int_info, sys.hash_info, sys.thread_info, sys.dont_write_bytecode, sys.pycache_prefix, sys.platlibdir)',
  hooks:
    'import sys\nprint(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is sys.__unraisablehook__, sys.breakpointhook is sys.__breakpointhook__, sys.gettrace(), sys.getprofile(), hasattr(sys, "ps1"), hasattr(sys, "last_type"), sys.get_asyncgen_hooks(), sys.exc_info())',
  'import machinery':
    'import sys\nprint([getattr(m, "__name__", m) for m in sys.meta_path], sys.path_hooks[0], len(sys.path_hooks), sorted(k for k in sys.path_importer_cache if "box" in k))',
  modules:
    'import sys\nWARM = set("""WARM_MODULES""".split())\nprint(sorted(set(sys.modules) - WARM))',
  'modules that are named':
    'import sys\nprint([n for n in ("numpy", "json.tool", "unittest", "asyncio", "threading", "subprocess", "socket", "ssl", "__mp_main__", "sitecustomize", "usercustomize", "apport_python_hook") if n in sys.modules])',
  streams:
    'import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): print(s.encoding, s.errors, s.line_buffering, s.write_through, s.fileno(), s.isatty(), s.name, s.mode, s.newlines, type(s.buffer).__name__, type(s.buffer.raw).__name__)\nprint(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__)',
  'stream positions':
    'import sys\nprint(sys.stdin.seekable(), sys.stdout.seekable(), sys.stdin.buffer.raw.closefd)',
  environment:
    'import os\nprint(sorted(os.environ.items()), os.getcwd(), os.umask(0), os.getlogin if 0 else "", os.nice(0))',
  ids: 'import os\nprint(os.getpid(), os.getppid(), os.getuid() == os.geteuid(), os.getpgid(0), os.getsid(0), os.getgroups())',
  'open files':
    'import os\nprint(sorted(int(f) for f in os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")), [os.get_inheritable(f) for f in (0, 1, 2)])',
  'a new file’s number': 'f = open("/dev/null")\nprint(f.fileno())\nimport os\nprint(os.pipe())',
  'signal handlers':
    'import signal\nfor s in sorted(signal.valid_signals()): print(int(s), signal.getsignal(s))\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL), signal.set_wakeup_fd(-1))',
  limits:
    'import resource\nfor n in sorted(dir(resource)):\n    if n.startswith("RLIMIT"): print(n, resource.getrlimit(getattr(resource, n)))',
  threads:
    'import threading, _thread, os\nprint(threading.enumerate(), threading.active_count(), threading.main_thread() is threading.current_thread(), _thread._count(), threading.get_native_id() == os.getpid(), threading.current_thread().name, threading.current_thread().ident == threading.get_ident(), threading.stack_size())',
  'thread names':
    'import threading\nt = threading.Thread(target=lambda: print(threading.current_thread().name)); t.start(); t.join()\nt = threading.Thread(); print(t.name)',
  locale:
    'import locale\nprint(locale.getlocale(), locale.getpreferredencoding(), locale.setlocale(locale.LC_ALL), locale.localeconv()["decimal_point"])',
  time: 'import time\nprint(time.tzname, time.timezone, time.localtime(0), time.process_time() < 1, time.thread_time() < 1)',
  gc: 'import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks, gc.garbage)',
  'warning filters':
    'import warnings\nprint([(f[0], f[2].__name__) for f in warnings.filters], warnings.showwarning.__module__)',
  decimal: 'import decimal\nprint(decimal.getcontext(), decimal.Decimal(1) / 3)',
  'random can be seeded':
    'import random\nrandom.seed(7)\nprint(random.random(), random.getstate()[0])',
  'regular expressions': 'import re\nprint(re.compile("a(b)?").match("a").groups())',
  tracemalloc:
    'import tracemalloc, faulthandler\nprint(tracemalloc.is_tracing(), faulthandler.is_enabled())',
  typing:
    'import typing, dataclasses, functools\n@dataclasses.dataclass\nclass A:\n    x: typing.Optional[int] = 1\nprint(A(), typing.get_type_hints(A), functools.lru_cache(lambda: 1).cache_info())',
  caches:
    'import functools, json, struct\nprint(json.dumps({"a": [1, 2.5, None]}), struct.calcsize("P"), functools.cmp_to_key is not None)',
  codecs:
    'print("é".encode("cp037"), b"\\xe9".decode("latin-1"), "x".encode("utf-16"), "ß".encode("idna") if 0 else "")',
  'object identity':
    'print((1).__class__ is int, "a" is "a", type(None)() is None, object.__subclasses__.__name__)',
  subclasses:
    'print([c for c in Exception.__subclasses__() if c.__module__ == "__main__"], BaseException.__subclasses__())',
  site: 'import site\nprint(site.ENABLE_USER_SITE, site.PREFIXES, hasattr(site, "gethistoryfile"))',
  '-I ignores the folder':
    'open("json.py", "w").write("raise SystemExit(9)")\nopen("mine.py", "w").write("x = 1")\nimport json\nprint(json.dumps(1))\nimport mine',
  'a path of its own':
    'import sys, os\nsys.path.insert(0, "")\nopen("mine.py", "w").write("print(__name__, __file__)")\nimport mine\nprint(sys.modules["mine"])',
  'bytecode cache':
    'import sys, os\nsys.path.insert(0, "/box")\nopen("mine.py", "w").write("x = 1")\nimport mine\nprint(mine.__cached__, os.path.exists(mine.__cached__))',
  reload:
    'import importlib, json, random, collections, heapq\nfor m in (json, random, heapq): print(importlib.reload(m).__name__)',
  'import again':
    'import sys\nfor n in ("json", "math", "random", "datetime"):\n    sys.modules.pop(n, None)\n    print(__import__(n).__name__)',
  'changed modules':
    'import math, json, os\nmath.pi = 3\njson.dumps = lambda x: "changed"\nprint(math.pi, json.dumps(1))',
  'memory view of itself':
    'import sys\nprint(sys.getsizeof(1), sys.getsizeof([]), sys.getrefcount(object()), sys.intern("abc") is sys.intern("abc"))',
  'frozen counts': 'import gc\na = []\na.append(a)\ndel a\nprint(gc.collect() >= 1)',
  contextvars: 'import contextvars\nprint(len(contextvars.copy_context()))',
});

const stdin = (name: string, code: string, input: string): PythonProgram => ({
  name: `stdin: ${name}`,
  code,
  stdin: input,
});
export const inputs = [
  stdin('input()', 'print(repr(input()), repr(input("prompt? ")))', 'one\ntwo\n'),
  stdin('input() at the end', 'print(input())\nprint(input())', 'one'),
  stdin('input() of nothing', 'input("p")', ''),
  stdin('all', 'import sys\nprint(repr(sys.stdin.read()))', 'a\nb\r\nc\0é'),
  stdin('lines', 'import sys\nfor l in sys.stdin: print(repr(l))', 'a\nb\rc\r\nd'),
  stdin(
    'readline and read',
    'import sys\nprint(repr(sys.stdin.readline()), repr(sys.stdin.read(2)), sys.stdin.readlines())',
    'ab\ncdef\ng\n',
  ),
  stdin('bytes', 'import sys\nprint(sys.stdin.buffer.read())', 'é\0\n'),
  stdin('descriptor', 'import os\nprint(os.read(0, 3), os.read(0, 10), os.read(0, 10))', 'abcdef'),
  stdin('both ways', 'import os\nprint(repr(input()))\nprint(os.read(0, 10))', 'a\nb\n'),
  stdin('large', 'import sys\nprint(len(sys.stdin.read()))', 'x'.repeat(65_536)),
  stdin(
    'many numbers',
    'import sys\nprint(sum(map(int, sys.stdin.read().split())))',
    '12 '.repeat(20_000),
  ),
  stdin('not read', 'print("done")', 'x'.repeat(65_536)),
  stdin('select', 'import select\nprint(select.select([0], [], [], 1)[0])', 'a'),
  stdin('closed first', 'import sys\nsys.stdin.close()\ninput()', 'a'),
  stdin('opened again', 'print(open(0).read())', 'a\nb'),
  stdin(
    'fileinput',
    'import fileinput, sys\nsys.argv = ["x"]\nfor l in fileinput.input(): print(fileinput.lineno(), l, end="")',
    'a\nb\n',
  ),
  stdin(
    'in a child',
    'import subprocess\nprint(subprocess.run(["cat"], capture_output=True).stdout)',
    'to the cat',
  ),
  stdin(
    'in a fork',
    'import os\nif os.fork() == 0:\n    print("child", input(), flush=True)\n    os._exit(0)\nos.wait()\nprint("parent")',
    'line\n',
  ),
  stdin('breakpoint()', 'x = 1\nbreakpoint()\nprint("after")', 'p x\nw\nc\n'),
  stdin(
    'code.interact',
    'import code\ncode.interact(banner="b", exitmsg="bye", local={})',
    '1 + 1\nraise ValueError\n',
  ),
  stdin('interactive help', 'help("and")', ''),
  stdin('getpass', 'import getpass\nprint(getpass.getpass("word: "))', 'secret\n'),
  stdin(
    'as a type',
    'import argparse\np = argparse.ArgumentParser(); p.add_argument("f", type=argparse.FileType())\nprint(p.parse_args(["-"]).f.read())',
    'abc',
  ),
];

const args = (name: string, list: string[]): PythonProgram => ({
  name: `arguments: ${name}`,
  code: 'import sys, argparse\nprint(sys.argv)\np = argparse.ArgumentParser(); p.add_argument("rest", nargs="*"); p.add_argument("-v", action="count")\nprint(p.parse_known_args(), p.prog)',
  args: list,
});
export const arguments_ = [
  args('none', []),
  args('some', ['a', 'b c', '']),
  args('like options', ['-v', '-c', 'print(1)', '-I', '--', '-m']),
  args('letters', ['é', '日本', '😀']),
  args(
    'many',
    Array.from({ length: 60 }, (_, i) => `a${i}`),
  ),
  args('help', ['-h']),
];
