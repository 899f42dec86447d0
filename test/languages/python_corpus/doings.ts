/** Deep recursion, other processes, and what ordinary programs do. */
import { family } from './program.ts';

export const recursion = family('recursion', {
  'how deep':
    'def f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\nprint(f(0))',
  'how deep in a method':
    'class A:\n    def f(self, n):\n        try: return self.f(n + 1)\n        except RecursionError: return n\nprint(A().f(0))',
  'how deep in a thread':
    'import threading\ndef f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\nt = threading.Thread(target=lambda: print(f(0))); t.start(); t.join()',
  deeper:
    'import sys\nsys.setrecursionlimit(50000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(40000))',
  'a limit too low': 'import sys\nsys.setrecursionlimit(1)',
  'low limit':
    'import sys\nsys.setrecursionlimit(30)\ndef f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError as e: print(e)',
  repr: 'a = []\nfor i in range(100000): a = [a]\ntry: repr(a)\nexcept RecursionError as e: print(e)',
  json: 'import json\ntry: json.loads("[" * 100000)\nexcept RecursionError as e: print("deep")',
  'in C, too deep':
    'import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n + "x")\ntry: A().a\nexcept (RecursionError, MemoryError) as e: print(type(e))',
  'compile too deep':
    'try: compile("(" * 1000 + ")" * 1000, "x", "eval")\nexcept (SyntaxError, MemoryError, RecursionError) as e: print(type(e), e)',
});

export const processes = family('process', {
  fork: 'import os\npid = os.fork()\nif pid == 0:\n    os._exit(7)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))',
  'fork that ends as usual':
    'import os, sys, atexit\natexit.register(print, "atexit")\nif os.fork() == 0: sys.exit(2)\nos.wait()\nprint("parent")',
  'fork with a finalizer':
    'import os\nclass A:\n    def __del__(self): print("del", flush=True)\na = A()\nif os.fork() == 0: raise SystemExit\nos.wait()',
  exec: 'import os, sys\nprint("before", flush=True)\nos.execv(sys.executable, [sys.executable, "-I", "-c", "import sys; print(sys.argv, sys.flags.isolated)", "a"])',
  'a shell':
    'import os\nprint(os.system("exit 3"), os.popen("echo $HOME; id -u | wc -l; umask").read())',
  subprocess:
    'import subprocess\nprint(subprocess.run("echo out; echo err >&2; exit 4", shell=True, capture_output=True))',
  'subprocess of its own':
    'import subprocess, sys\nprint(subprocess.run([sys.executable, "-c", "import sys, os; print(sys.argv, sys.flags.isolated, sorted(os.environ))"], capture_output=True, text=True))',
  'subprocess of its script':
    'import subprocess, sys\nif len(sys.argv) > 1: print("child", sys.argv[1:])\nelse: print(subprocess.run([sys.executable, __file__, "x"], capture_output=True, text=True).stdout)',
  'subprocess is missing': 'import subprocess\nsubprocess.run(["/nothing/there"])',
  pool: 'import multiprocessing as m\ndef f(x): return x * x\nif __name__ == "__main__":\n    with m.Pool(2) as p: print(p.map(f, range(5)))',
  spawned:
    'import multiprocessing as m\ndef f(q): q.put(__name__)\nif __name__ == "__main__":\n    m.set_start_method("spawn")\n    q = m.Queue(); p = m.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join(); print(p.exitcode)',
  'a process fails':
    'import multiprocessing as m\ndef f(): raise ValueError("child")\nif __name__ == "__main__":\n    p = m.Process(target=f, name="P"); p.start(); p.join(); print(p.exitcode)',
  'a pool of processes':
    'from concurrent.futures import ProcessPoolExecutor\ndef f(x): return x + 1\nif __name__ == "__main__":\n    with ProcessPoolExecutor(2) as p: print(list(p.map(f, range(3))))',
  'shared memory':
    'import multiprocessing as m\nif __name__ == "__main__":\n    v = m.Value("i", 0)\n    def f():\n        with v.get_lock(): v.value += 1\n    ps = [m.Process(target=f) for _ in range(3)]\n    [p.start() for p in ps]; [p.join() for p in ps]; print(v.value)',
  names:
    'import multiprocessing as m, os\nprint(m.current_process().name, m.current_process().pid == os.getpid(), m.parent_process(), m.active_children(), m.cpu_count() > 0)',
});

/** What ordinary programs are. */
export const ordinary = family('ordinary', {
  primes:
    'def primes(n):\n    s = bytearray([1]) * (n + 1)\n    s[:2] = b"\\0\\0"\n    for i in range(2, int(n ** 0.5) + 1):\n        if s[i]: s[i * i :: i] = bytes(len(s[i * i :: i]))\n    return [i for i, x in enumerate(s) if x]\nprint(sum(primes(10000)))',
  words:
    'import collections, re\ntext = "the cat and the dog and the bird"\nprint(collections.Counter(re.findall(r"\\w+", text)).most_common(2))',
  heap: 'import heapq\nh = []\nfor x in [5, 3, 8, 1]: heapq.heappush(h, x)\nprint([heapq.heappop(h) for _ in range(4)])',
  dates:
    'import datetime as d\nprint(d.date(2024, 2, 29) + d.timedelta(days=366), d.datetime(2000, 1, 1).isoformat(), d.timezone.utc)',
  classes:
    'from dataclasses import dataclass, field\nfrom enum import Enum\nclass C(Enum):\n    A = 1\n@dataclass(order=True)\nclass P:\n    x: int\n    y: list = field(default_factory=list)\nprint(P(1), P(1) < P(2), C.A, C(1))',
  matching:
    'def f(x):\n    if isinstance(x, dict): return "dict"\n    return type(x).__name__\nprint([f(x) for x in ({}, [], 1, "s", None)])',
  decimals:
    'from fractions import Fraction as F\nfrom decimal import Decimal as D, getcontext\ngetcontext().prec = 50\nprint(F(1, 3) + F(1, 6), D(2).sqrt())',
  iterators:
    'import itertools as i\nprint(list(i.permutations("abc", 2)), list(i.accumulate([1, 2, 3])), list(i.islice(i.cycle("ab"), 5)))',
  caching:
    'import functools\n@functools.lru_cache(None)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(90), fib.cache_info())',
  files:
    'import os, glob, shutil, pathlib\np = pathlib.Path("d/e"); p.mkdir(parents=True)\n(p / "f.txt").write_text("x")\nprint(sorted(glob.glob("**", recursive=True)), os.path.getsize("d/e/f.txt"))\nshutil.rmtree("d")',
  sqlite:
    'import sqlite3\nc = sqlite3.connect(":memory:")\nc.execute("create table t (a)")\nc.executemany("insert into t values (?)", [(i,) for i in range(10)])\nprint(c.execute("select sum(a) from t").fetchone())',
  strings:
    'import string, textwrap\nprint(string.Template("$a b").substitute(a=1), textwrap.fill("word " * 10, 20), f"{3.14159:.2f} {42:>5} {255:#x}")',
  'bits and bytes':
    'import struct, binascii, base64, hashlib, zlib\nprint(struct.pack(">I", 1), base64.b64encode(b"x"), hashlib.md5(b"").hexdigest(), zlib.crc32(b"a"))',
});
