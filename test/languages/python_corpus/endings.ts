/** What is flushed, finalized and said at the end, and by whom a program is ended. */
import { each, family } from './program.ts';

export const outputs = family('stdout', {
  'no end of line': 'print("x", end="")',
  'buffers in order':
    'import os, sys\nprint("a")\nos.write(1, b"b\\n")\nprint("c", flush=True)\nos.write(1, b"d\\n")',
  'both streams':
    'import sys\nprint("out")\nprint("err", file=sys.stderr)\nsys.stderr.write("partial")\nsys.stdout.write("partial")',
  'bytes and text':
    'import sys\nsys.stdout.write("text ")\nsys.stdout.buffer.write(b"bytes ")\nsys.stdout.flush()',
  'not text': 'import sys\nsys.stdout.buffer.write(bytes(range(256)))',
  'a lone surrogate': 'print("\\udc80")',
  'closed, then printed to': 'import sys\nsys.stdout.close()\nprint("x")',
  'closed at the end': 'import sys\nprint("x")\nsys.stdout.close()',
  'descriptor closed': 'import os\nprint("lost")\nos.close(1)',
  'all closed': 'import os\nprint("lost")\nfor f in (0, 1, 2): os.close(f)',
  'descriptor to nowhere':
    'import os\nr, w = os.pipe()\nos.close(r)\nos.dup2(w, 1)\nprint("x" * 100000)',
  'nowhere at the end': 'import os\nr, w = os.pipe()\nos.close(r)\nos.dup2(w, 1)\nprint("x")',
  full: 'import os\nf = os.open("/dev/full", os.O_WRONLY)\nos.dup2(f, 1)\nprint("x")',
  replaced:
    'import sys, io\nsys.stdout = io.StringIO()\nprint("swallowed")\nsys.stderr.write(sys.stdout.getvalue())',
  'replaced by none': 'import sys\nsys.stdout = None\nprint("nowhere")\nsys.stderr = None\n1 / 0',
  'replaced by a class':
    'import sys\nclass W:\n    def write(self, s): sys.__stdout__.write(s.upper())\n    def flush(self): sys.__stdout__.write("[flush]")\nsys.stdout = W()\nprint("x")',
  'flush fails':
    'import sys\nclass W:\n    def write(self, s): pass\n    def flush(self): raise OSError("no")\nsys.stdout = W()\nprint("x")',
  detached: 'import sys\nb = sys.stdout.detach()\nb.write(b"bytes\\n")\nb.flush()',
  reconfigured:
    'import sys\nsys.stdout.reconfigure(encoding="latin-1", errors="replace", line_buffering=True)\nprint("é日")',
  'opened again':
    'import sys\nwith open(1, "w", closefd=False) as f: f.write("again\\n")\nprint("x")',
  'in a fork':
    'import os, sys\nprint("before", end=" ")\npid = os.fork()\nif pid == 0:\n    print("child")\n    sys.exit(0)\nos.wait()\nprint("parent")',
  'a lot': 'for i in range(20000): print(i, "x" * 20)',
  unbuffered:
    'import os, sys\nsys.stdout = os.fdopen(1, "w", 1)\nprint("line buffered")\nprint("tail", end="")',
  print_to_err: 'import sys\nfor i in range(3): print(i, file=sys.stderr, end=" ")',
  logging:
    'import logging\nlogging.warning("w %s", 1)\nlogging.basicConfig(format="%(name)s %(levelname)s %(message)s %(threadName)s %(processName)s")\nlogging.getLogger("x").error("e", exc_info=False)',
});

export const endings = family('ending', {
  'bytes in a buffer of libc': 'import ctypes\nctypes.CDLL(None).puts(b"from C")',
  'records in memory of C':
    'import dbm.ndbm as n, os\nif os.fork() == 0:\n    d = n.open("x", "n")\n    for i in range(50): d[str(i)] = "v" * 20\nelse:\n    os.wait()\n    print(len(n.open("x").keys()))',
  'a class of KeyboardInterrupt': 'class K(KeyboardInterrupt): pass\nraise K',
  'no modules': 'import sys\nprint(1)\ndel sys.modules',
  'modules that are emptied': 'import sys\nprint(1)\nsys.modules.clear()',
  'another atexit':
    'import os, sys\nclass T:\n    def _run_exitfuncs(self): os._exit(7)\nsys.modules["atexit"] = T()',
  'another function of atexit': 'import atexit, os\natexit._run_exitfuncs = lambda: os._exit(7)',
  'another gc':
    'import os, sys\nclass T:\n    def get_objects(self): os._exit(7)\n    unfreeze = get_objects\nsys.modules["gc"] = T()',
  'other functions of gc': 'import gc, os\ngc.get_objects = gc.unfreeze = lambda: os._exit(8)',
  'atexit in order': 'import atexit\nfor i in range(3): atexit.register(print, i)\nprint("end")',
  'atexit that fails':
    'import atexit\natexit.register(print, "still")\natexit.register(lambda: 1 / 0)\nprint("end")',
  'atexit that exits':
    'import atexit, sys\natexit.register(sys.exit, 5)\natexit.register(print, "first")',
  'atexit after an error': 'import atexit\natexit.register(print, "ran")\n1 / 0',
  'atexit registers more': 'import atexit\natexit.register(lambda: atexit.register(print, "more"))',
  'atexit prints to stderr':
    'import atexit, sys\natexit.register(lambda: sys.stderr.write("bye\\n"))\nraise SystemExit(4)',
  'a global with a finalizer':
    'class A:\n    def __del__(self): print("del", self.n)\na = A(); a.n = 1\nb = A(); b.n = 2',
  'a finalizer in a cycle':
    'class A:\n    def __del__(self): print("del")\na = A(); a.me = a\ndel a',
  'a finalizer in a list':
    'class A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print("del", self.n)\nx = [A(1), A(2)]\ny = {"k": A(3)}',
  'a finalizer that sees no modules':
    'import os\nclass A:\n    def __del__(self): print(os is None, __name__)\na = A()',
  'a finalizer that fails': 'class A:\n    def __del__(self): raise ValueError("late")\na = A()',
  'a finalizer in a closure':
    'def f():\n    class A:\n        def __del__(self): print("del")\n    a = A()\n    return lambda: a\ng = f()',
  'a finalizer in another module':
    'import json\nclass A:\n    def __del__(self): print("del")\njson.mine = A()',
  'a finalizer in a builtin':
    'import builtins\nclass A:\n    def __del__(self): print("del")\nbuiltins.mine = A()',
  'a finalizer in a class':
    'class M(type):\n    def __del__(cls): print("class del")\nclass A(metaclass=M): pass\ndel A',
  'a finalizer set later': 'class A: pass\na = A()\nA.__del__ = lambda self: print("late del")',
  'a finalizer inherited':
    'class A:\n    def __del__(self): print("del", type(self).__name__)\nclass B(A):\n    __slots__ = ("x",)\nb = B(); b.x = b',
  'a finalizer of objects without fields':
    'class A:\n    __slots__ = ()\n    def __del__(self): print("del")\na = A()',
  'a finalizer of numbers':
    'class A(int):\n    __slots__ = ()\n    def __del__(self): print("del", int(self))\na = A(7)',
  'a file that the collector does not see':
    'import gc, os\nf = open("out.txt", "w")\nos.dup2(1, f.fileno())\nf.write("flushed\\n")\ngc.freeze()',
  'a finalizer that the collector does not see':
    'import gc\nclass A:\n    def __del__(self): print("del")\na = A()\ngc.freeze()',
  'a weak reference':
    'import weakref\nclass A: pass\na = A()\nr = weakref.ref(a, lambda r: print("gone"))\ns = weakref.finalize(a, print, "finalized")',
  'a finalizer of weakref alone':
    'import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, "at exit")',
  'a generator': 'def g():\n    try: yield 1\n    finally: print("closed")\nx = g()\nnext(x)',
  'a generator in a cycle':
    'def g():\n    try:\n        me = yield 1\n        yield 2\n    finally: print("closed")\nx = g()\nnext(x)\nx.send(x)',
  'an async generator':
    'import asyncio\nasync def g():\n    try: yield 1\n    finally: print("closed")\nasync def main():\n    async for x in g(): break\nasyncio.run(main())',
  'a coroutine':
    'async def f():\n    try: await g()\n    finally: print("closed")\nclass W:\n    def __await__(self): yield 1\ndef g(): return W()\nc = f()\nc.send(None)',
  'a context manager':
    'from contextlib import contextmanager\n@contextmanager\ndef c():\n    print("in")\n    try: yield\n    finally: print("out")\nx = c()\nx.__enter__()',
  'an open file':
    'f = open("f.txt", "w")\nf.write("unflushed")\nimport os\nprint(os.path.getsize("f.txt"))',
  'a file seen by a child':
    'import atexit, subprocess\nf = open("f.txt", "w")\nf.write("x")\natexit.register(lambda: print(open("f.txt").read()))',
  'buffers of its own':
    'import io, os\nclass R(io.RawIOBase):\n    def writable(self): return True\n    def write(self, b):\n        os.write(1, bytes(b)); return len(b)\nw = io.BufferedWriter(R())\nw.write(b"flushed at the end\\n")',
  'a wrapper of stdout':
    'import io, sys\nw = io.TextIOWrapper(sys.stdout.buffer, write_through=False)\nw.write("left in the wrapper\\n")',
  'a temporary file':
    'import tempfile, os\nt = tempfile.TemporaryDirectory()\nprint(os.path.isdir(t.name))',
  'a thread goes on':
    'import threading, time\ndef f():\n    time.sleep(0.1)\n    print("thread done")\nthreading.Thread(target=f).start()\nprint("main done")',
  'a daemon goes on':
    'import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint("main done")',
  'a daemon that spins':
    'import threading\ndef f():\n    while True: pass\nthreading.Thread(target=f, daemon=True).start()\nprint("main done")',
  'a daemon with a finalizer':
    'import threading, time\nclass A:\n    def __del__(self): print("del")\na = A()\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()',
  'a thread fails':
    'import threading\nt = threading.Thread(target=lambda: 1 / 0, name="T"); t.start(); t.join()\nprint("main done")',
  'a thread exits':
    'import threading, sys\nt = threading.Thread(target=lambda: sys.exit(3)); t.start(); t.join()\nprint("main done")',
  'a thread after an error':
    'import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print("thread done"))).start()\n1 / 0',
  'thread locals':
    'import threading\nclass A:\n    def __del__(self): print("del")\nl = threading.local(); l.a = A()',
  'a raw thread':
    'import _thread, time\n_thread.start_new_thread(lambda: 1 / 0, ())\ntime.sleep(0.1)\nprint("on")',
  'a pool of threads':
    'from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(3)\nf = p.submit(lambda: print("ran"))\nprint("main done" if f.result() is None else "")',
  'a timer':
    'import threading\nsaid = threading.Event()\nthreading.Timer(0.05, lambda: (said.wait(), print("timer"))).start()\nprint("main done")\nsaid.set()',
  'a queue':
    'import queue, threading\nq = queue.Queue()\nthreading.Thread(target=lambda: [print(q.get()) for _ in range(2)]).start()\nq.put(1); q.put(2)',
  asyncio:
    'import asyncio\nasync def f(n):\n    await asyncio.sleep(0); return n\nasync def main(): print(await asyncio.gather(*map(f, range(3))))\nasyncio.run(main())',
  'asyncio left over':
    'import asyncio\nasync def f(): await asyncio.sleep(60)\nloop = asyncio.new_event_loop()\nt = loop.create_task(f())\nloop.run_until_complete(asyncio.sleep(0))\nprint("left")',
  'asyncio fails': 'import asyncio\nasync def f(): raise ValueError("async")\nasyncio.run(f())',
  'sys.exit with a finalizer':
    'import sys\nclass A:\n    def __del__(self): print("del")\na = A()\nsys.exit(3)',
  'sys.exit in a function with a finalizer':
    'class A:\n    def __del__(self): print("del")\ndef f():\n    a = A()\n    raise SystemExit\nf()',
  'an error with a finalizer':
    'class A:\n    def __del__(self): print("del")\ndef f():\n    a = A()\n    raise ValueError\nf()',
  unittest:
    'import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 2)\nunittest.main(verbosity=0)',
  'an error in a finally': 'try:\n    raise SystemExit(3)\nfinally:\n    1 / 0',
  'unraisable hook':
    'import sys\nsys.unraisablehook = lambda u: print("hook", u.exc_type.__name__)\nclass A:\n    def __del__(self): raise ValueError\na = A()',
  'stdout in a finalizer':
    'import sys\nclass A:\n    def __init__(self): self.w = sys.stdout.write\n    def __del__(self): self.w("written\\n")\na = A()',
  'modules deleted':
    'import sys\nfor m in list(sys.modules):\n    if m not in ("sys", "builtins", "__main__"): del sys.modules[m]\nprint("deleted")',
  'globals cleared': 'import sys\nprint("cleared")\nsys.modules["__main__"].__dict__.clear()',
  'a C object’s finalizer':
    'import socket, mmap\ns = socket.socketpair()\nm = mmap.mmap(-1, 10)\nprint("open")',
  'a socket left open warns':
    'import warnings, socket\nwarnings.simplefilter("always")\ns = socket.socketpair()',
  'a file left open warns':
    'import warnings\nwarnings.simplefilter("always")\nf = open("/dev/null")',
  'an iterator':
    'class I:\n    def __iter__(self): return self\n    def __next__(self): raise KeyError\n    def __del__(self): print("del")\ni = I()\ntry: next(i)\nexcept KeyError as e: kept = e',
  'an exception kept':
    'class A:\n    def __del__(self): print("del")\ndef f():\n    a = A()\n    raise ValueError\ntry: f()\nexcept ValueError as e: kept = e',
});

export const signals = [
  ...each(
    'killed by',
    [
      'SIGABRT',
      'SIGALRM',
      'SIGBUS',
      'SIGFPE',
      'SIGHUP',
      'SIGILL',
      'SIGINT',
      'SIGKILL',
      'SIGPIPE',
      'SIGQUIT',
      'SIGSEGV',
      'SIGSYS',
      'SIGTERM',
      'SIGTRAP',
      'SIGUSR1',
      'SIGUSR2',
      'SIGXCPU',
      'SIGXFSZ',
      'SIGCHLD',
      'SIGWINCH',
      'SIGCONT',
      'SIGURG',
    ],
    (name) =>
      `import os, signal, atexit\natexit.register(print, "atexit")\nprint("before", flush=True)\nos.kill(os.getpid(), signal.${name})\nprint("after")`,
  ),
  ...family('signal', {
    'a handler':
      'import signal, os\nsignal.signal(signal.SIGTERM, lambda s, f: print("caught", s, f.f_lineno))\nos.kill(os.getpid(), signal.SIGTERM)\nprint("after")',
    'a handler that raises':
      'import signal, os\ndef h(s, f): raise ValueError("in handler")\nsignal.signal(signal.SIGUSR1, h)\nos.kill(os.getpid(), signal.SIGUSR1)\nfor i in range(10): pass',
    'an alarm':
      'import signal, time\nsignal.signal(signal.SIGALRM, lambda *a: print("alarm"))\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(0.2)\nprint("after")',
    'interrupted by hand':
      'import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT); [x for x in range(1000)]\nexcept KeyboardInterrupt: print("interrupted")',
    raise_signal: 'import signal\nsignal.raise_signal(signal.SIGINT)\nprint("never")',
    'a child is waited for':
      'import os, signal\nsignal.signal(signal.SIGCHLD, lambda *a: print("child"))\npid = os.fork()\nif pid == 0: os._exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))',
    'a null pointer': 'import ctypes\nprint("before", flush=True)\nctypes.string_at(0)',
    faulthandler: 'import faulthandler, ctypes\nfaulthandler.enable()\nctypes.string_at(0)',
    abort: 'import os\nos.abort()',
    'a broken pipe': 'import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b"x")',
    ignored:
      'import signal, os\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGTERM)\nprint("alive")',
    'in a child':
      'import subprocess, sys\nprint(subprocess.run([sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGINT))"], capture_output=True, text=True).stdout)',
  }),
];
