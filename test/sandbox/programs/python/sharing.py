import ctypes

def watch_others():
    must_fail('inotify_init1', syscall, 294, 0)
    must_fail('inotify_init', syscall, 253)
    import fcntl
    folder = os.open('.', os.O_RDONLY)
    must_fail('F_NOTIFY', fcntl.fcntl, folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS)
    must_fail('F_SETLEASE', fcntl.fcntl, os.open(sys.executable, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)

def own_changes_seen():
    open('watched', 'w').close()
    works('a time of its own file', lambda: os.utime('watched', (1, 1)) is None and os.stat('watched').st_mtime == 1)

def locks_kept():
    import fcntl
    first, second = (open(sys.executable, 'rb') for _ in range(2))
    fcntl.flock(first, fcntl.LOCK_EX)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        say('DENIED flock of a shared file is not kept')
    except OSError as error:
        say(f'ESCAPED flock of a shared file {name_of(error)}')
    must_fail('F_OFD_SETLK', fcntl.fcntl, first, 37, b'\0' * 32)

def locks_own():
    import fcntl, shelve, sqlite3
    def database():
        with sqlite3.connect('own.db') as base:
            base.execute('create table t (n int)')
            base.execute('insert into t values (42)')
        return sqlite3.connect('own.db').execute('select n from t').fetchall() == [(42,)]
    works('a database in a file', database)
    def dictionary():
        with shelve.open('shelf') as kept:
            kept['n'] = 42
        with shelve.open('shelf') as kept:
            return kept['n'] == 42
    works('a dictionary in a file', dictionary)
    def lock():
        with open('lock', 'w') as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_EX)
    works('locks', lock)

def cache_changed():
    file = os.open(sys.executable, os.O_RDONLY)
    must_fail('posix_fadvise DONTNEED', os.posix_fadvise, file, 0, 0, os.POSIX_FADV_DONTNEED)
    must_fail('O_DIRECT', os.open, sys.executable, os.O_RDONLY | os.O_DIRECT)

def cache_seen():
    file = os.open(sys.executable, os.O_RDONLY)
    must_fail('preadv with RWF_NOWAIT', os.preadv, file, [bytearray(16)], 0, os.RWF_NOWAIT)

def advice_honest():
    file = os.open('advised', os.O_RDWR | os.O_CREAT)
    works('posix_fadvise', lambda: os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL) is None)
    works('pwritev and preadv', lambda: os.pwritev(file, [b'abc'], 0) == 3 and os.preadv(file, [bytearray(3)], 0) == 3)

def load_seen():
    facts = (ctypes.c_ulong * 64)()
    syscall(99, facts)
    says = list(facts[:4])
    say(f'{"ESCAPED" if any(says) else "DENIED"} uptime and load {says}')
    say(f'{"ESCAPED" if any(os.getloadavg()) else "DENIED"} load {os.getloadavg()}')

def machine_honest():
    works('pages of memory', lambda: os.sysconf('SC_PHYS_PAGES') > 1000)
    works('processors', lambda: os.cpu_count() > 0)

def processors_chosen():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    changed = os.sched_getaffinity(0) != before or os.sched_getscheduler(0) != os.SCHED_OTHER or ctypes.CDLL(None).sched_setaffinity(0, 0, None)
    say(f'{"ESCAPED" if changed else "DENIED"} where it runs, and how')
    must_fail('sched_setattr', syscall, 314, 0, ctypes.byref((ctypes.c_uint64 * 6)(48)), 0)

def threads_pinned():
    import concurrent.futures
    def pinned(number):
        os.sched_setaffinity(0, {number % os.cpu_count()})
        return sum(range(10000))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        works('pinned threads', lambda: list(pool.map(pinned, range(4))) == [49995000] * 4)
    works('the processors are all there', lambda: len(os.sched_getaffinity(0)) == os.sysconf('SC_NPROCESSORS_ONLN'))

def disk_space_seen():
    import shutil
    must_fail('statvfs of /usr', os.statvfs, '/usr/lib')
    must_fail('disk_usage', shutil.disk_usage, '/')

def limits_of_others():
    import resource
    must_fail('limit of init', resource.prlimit, 1, resource.RLIMIT_NOFILE, (16, 16))

def limits_own():
    import resource
    works('limits', lambda: resource.getrlimit(resource.RLIMIT_CORE) and resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)) is None)

def files_flushed():
    with open('flushed', 'w') as file:
        works('fsync', lambda: file.write('x') == 1 and os.fsync(file.fileno()) is None)
    works('sync', os.sync)

def timers_wake_many():
    must_fail('timerfd_create', syscall, 283, 1, 0)
    must_fail('signalfd', syscall, 282, -1, ctypes.byref(ctypes.c_uint64(1 << 9)), 8)
    must_fail('signalfd4', syscall, 289, -1, ctypes.byref(ctypes.c_uint64(1 << 9)), 8, 0)
    must_fail('timer_create', syscall, 222, 1, None, ctypes.byref(ctypes.c_int()))

def timers_wake_one():
    import asyncio, select, threading
    works('epoll with a timeout', lambda: select.epoll().poll(0.01) == [])
    works('a sleep of asyncio', lambda: asyncio.run(asyncio.sleep(0.01, True)))
    async def child():
        process = await asyncio.create_subprocess_exec('/bin/sleep', '60')
        try:
            await asyncio.wait_for(process.wait(), 0.01)
        except TimeoutError:
            process.kill()
        return await process.wait() == -signal.SIGKILL
    works('a child that is not awaited for ever', lambda: asyncio.run(child()))
    def timer():
        rang = threading.Event()
        threading.Timer(0.01, rang.set).start()
        return rang.wait()
    works('a timer of threads', timer)
    def alarm():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return signal.sigwait([signal.SIGALRM]) == signal.SIGALRM
    works('setitimer and sigwait', alarm)

def processes_walked():
    must_fail('kill of everybody', os.kill, -1, 0)
    must_fail('a priority of a user', os.getpriority, os.PRIO_USER, os.getuid())
    must_fail('priorities of a user', os.setpriority, os.PRIO_USER, os.getuid(), 19)
    must_fail('the priority of init', os.setpriority, os.PRIO_PROCESS, 1, 19)

def processes_own():
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.kill(0, signal.SIGABRT)
    works('a signal to its group', lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGABRT)
    works('a priority', lambda: os.nice(5) == os.getpriority(os.PRIO_PROCESS, 0))

def counts_seen():
    must_fail('pidfd_open', os.pidfd_open, os.getpid())

def group_number():
    paths = [line.split(':', 2)[2].strip() for line in open('/proc/self/cgroup')]
    counting = [path for path in paths if any(each.isdigit() for each in path)]
    say(f'{"ESCAPED" if counting else "DENIED"} a number in {set(paths)}')

def counts_own():
    import asyncio, socket
    async def child():
        process = await asyncio.create_subprocess_exec('/bin/sh', '-c', 'exit 7')
        return await process.wait() == 7
    works('a child of asyncio', lambda: asyncio.run(child()))
    near, far = socket.socketpair()
    works('SO_TYPE', lambda: near.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM)

def network_tables():
    if os.stat('/proc/self/net/unix').st_uid == 65534:
        return say('DENIED nothing: this box has no root, and cannot hide its tables')
    for table in os.listdir('/proc/self/net'):
        must_fail(table, open, '/proc/self/net/' + table)

def descriptor_passed():
    import asyncio, multiprocessing, socket
    near, far = socket.socketpair()
    works('send_fds', lambda: socket.send_fds(near, [b'x'], [1]) == 1 and len(socket.recv_fds(far, 1, 1)[1]) == 1)
    async def stream():
        near, far = socket.socketpair()
        reader, _ = await asyncio.open_connection(sock=near)
        _, writer = await asyncio.open_connection(sock=far)
        writer.writelines([b'x' * 1000] * 4000)
        return len(await reader.readexactly(4_000_000)) == 4_000_000
    works('4 MB over a socket of asyncio', lambda: asyncio.run(stream()))
    def pool():
        with multiprocessing.get_context('fork').Pool(2) as workers:
            return workers.map(abs, [-1, -2]) == [1, 2]
    works('a pool of processes', pool)

def sockets_kept():
    import socket
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    memory = os.open('/tmp', os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(memory, b'x' * (32 << 20))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind('\0kept')
    listener.listen()
    works('a cycle', lambda: socket.send_fds(near, [b'x'], [memory, listener.fileno()] + [near.fileno(), far.fileno()] * 29) == 1)

def sockets_found():
    import socket
    must_fail('a name of the run before', lambda: socket.socket(socket.AF_UNIX).connect('\0kept'))
    listener = socket.socket(socket.AF_UNIX)
    works('the name is free', lambda: listener.bind('\0kept') is None)
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    works('the limit is unused', lambda: socket.send_fds(near, [b'x'], [0] * 60) == 1)
