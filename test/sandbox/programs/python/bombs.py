kept = []

def fork_count():
    def one(_):
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
    until_it_fails('fork', 2000, one)

def fork_storm():
    while True:
        try:
            os.fork()
        except OSError:
            pass

def fork_few():
    def children():
        pids = []
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            pids.append(pid)
        return all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
    works('10 children', children)

def subprocess_some():
    import subprocess
    works('subprocess', lambda: subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout == '42\n')

def thread_count():
    import threading
    stop = threading.Event()
    threading.stack_size(65536)
    def one(_):
        threading.Thread(target=stop.wait, daemon=True).start()
    until_it_fails('thread', 2000, one)
    os._exit(0)

def thread_few():
    import threading
    done = []
    threads = [threading.Thread(target=done.append, args=(1,)) for _ in range(8)]
    for each in threads: each.start()
    for each in threads: each.join()
    works('8 threads', lambda: len(done) == 8)

def memory_bomb():
    while True:
        kept.append(bytearray(4 << 20))
        if len(kept) > 1024:
            say('ESCAPED memory 4 GiB')
            return

def memory_bomb_caught():
    # a program may catch the runtime's error and continue, but not exceed the limit
    try:
        kept.append(bytearray(64 << 30))
    except MemoryError:
        say('DENIED 64 GiB MemoryError')
        return
    say('ESCAPED 64 GiB')

def memory_touch():
    block = bytearray(64 << 20)
    works('64 MiB', lambda: len(block) == 64 << 20)

def memory_some():
    block = bytearray(int(sys.argv[1]) << 20)
    works('memory', lambda: len(block) == int(sys.argv[1]) << 20)

def memory_words():
    os.write(2, b'Traceback (most recent call last):\nMemoryError\n')
    say('OK said')
    sys.exit(1)

def memory_words_near():
    block = bytearray(int(sys.argv[1]) << 20)
    raise MemoryError

def memory_refused():
    return bytearray(1 << 50)

def memory_refused_caught():
    try:
        bytearray(1 << 50)
    except MemoryError:
        return say('OK without the memory')
    say('ESCAPED 1 PiB')

def memory_refusal_forged():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
    kept.append(bytearray(8 << 20))
    say('ESCAPED a limit of its own')

def files_read_and_evicted():
    left = int(sys.argv[1]) << 20
    for folder, _, names in os.walk('/usr'):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            try:
                file = os.open(path, os.O_RDONLY)
            except OSError:
                continue
            while left > 0 and (count := len(os.read(file, 1 << 20))) > 0:
                left -= count
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            except OSError:
                pass
            os.close(file)
            if left <= 0:
                return say('OK read')
    say('OK read all')

def memory_shared():
    import mmap
    area = mmap.mmap(-1, 1 << 30)
    for at in range(0, 1 << 30, 1 << 20):
        area[at:at + (1 << 20)] = b'x' * (1 << 20)
    say('ESCAPED shared memory 1 GiB')

def memory_children():
    # each child is well below the limit, together they are over it
    children, size = [int(each) for each in sys.argv[1:]] or [12, 64]
    ready, done = os.pipe()
    for _ in range(children):
        if os.fork() == 0:
            block = bytearray(b'x') * (size << 20)
            os.write(done, b'x')
            signal.pause()
    os.set_blocking(ready, False)
    have = gone = 0
    while have + gone < children:
        try:
            have += len(os.read(ready, 1))
        except BlockingIOError:
            gone += os.waitpid(-1, os.WNOHANG)[0] > 0
            time.sleep(0.001)
    say(('ESCAPED' if have * size > 600 else 'OK') + f' {have} children hold {size} MiB each')
    os.kill(0, signal.SIGKILL)

def integer_bomb():
    # one expression without a system call in it
    print(9 ** 9 ** 9 % 10)

def recursion():
    def deeper(level):
        return deeper(level + 1) + 1
    deeper(0)

def recursion_unlimited():
    # past Python's own guard to the end of the C stack
    import threading
    sys.setrecursionlimit(1 << 30)
    def deeper(level):
        return repr(Deep(level))
    class Deep:
        def __init__(self, level): self.level = level
        def __repr__(self): return deeper(self.level + 1)
    deeper(0)

def recursion_some():
    def down(level):
        return 0 if level == 0 else down(level - 1) + 1
    works('900 frames', lambda: down(900) == 900)

def disk_fill():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for directory in sys.argv[1:]:
        descriptor = os.open(directory + '/filler', os.O_WRONLY | os.O_CREAT)
        def one(_):
            if os.write(descriptor, b'x' * (1 << 20)) < 1 << 20:
                raise OSError(errno.ENOSPC, 'short')
        until_it_fails(directory + ' MiB', 100, one)

def disk_some():
    def write():
        with open('some', 'wb') as file:
            return file.write(b'x' * (16 << 20)) == 16 << 20
    works('16 MiB', write)

def inode_files():
    until_it_fails('files', 20000, lambda count: os.close(os.open(f'f{count}', os.O_CREAT | os.O_WRONLY)))

def inode_some():
    def create():
        for each in range(500):
            open(f'f{each}', 'w').close()
    works('500 files', create)

def fd_bomb():
    until_it_fails('descriptors', 2000, lambda _: kept.append(os.open('/dev/null', os.O_RDONLY)))

def fd_some():
    works('40 descriptors', lambda: kept.extend(open('/dev/null') for _ in range(40)))

def pipe_bomb():
    until_it_fails('pipes', 2000, lambda _: kept.append(os.pipe()))

def pipe_some():
    reader, writer = os.pipe()
    works('pipe', lambda: os.write(writer, b'hello') == 5 and os.read(reader, 5) == b'hello')

def shm_posix():
    from multiprocessing import shared_memory
    def one(count):
        block = shared_memory.SharedMemory(f'bomb{count}', create=True, size=16 << 20)
        kept.append(block)
        block.buf[:] = b'x' * (16 << 20)
    until_it_fails('shared memory of 16 MiB', 64, one)
    os._exit(0)

def multiprocessing_some():
    import multiprocessing
    def child(queue):
        queue.put(42)
    context = multiprocessing.get_context('fork')
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    works('multiprocessing queue', lambda: queue.get(timeout=5) == 42)
    process.join()

def import_many():
    import json, re, decimal, socket, sqlite3, ssl, zlib, lzma, bz2, hashlib, ctypes, unittest, asyncio, xml.etree.ElementTree
    works('standard library', lambda: hashlib.sha256(b'x').hexdigest()[:4] == '2d71')

def ipc_some():
    from multiprocessing import shared_memory, Semaphore
    def attempt():
        block = shared_memory.SharedMemory('some', create=True, size=1 << 20)
        block.buf[0] = 7
        block.close()
        block.unlink()
        return Semaphore(1).acquire()
    works('shared memory and semaphore', attempt)
