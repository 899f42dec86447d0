# System calls by number, which every Python program can make through ctypes. The numbers are those of x86-64.
import ctypes

def ptrace_any():
    must_fail('PTRACE_TRACEME', syscall, 101, 0, 0, 0, 0)
    must_fail('PTRACE_ATTACH init', syscall, 101, 16, 1, 0, 0)

def process_memory():
    buffer = ctypes.create_string_buffer(8)
    class Piece(ctypes.Structure):
        _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
    piece = Piece(ctypes.addressof(buffer), 8)
    must_fail('process_vm_readv', syscall, 310, 1, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0)
    must_fail('process_vm_writev', syscall, 311, os.getpid(), ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0)

def honest_processes():
    import subprocess
    works('subprocess', lambda: subprocess.run(['/bin/true']).returncode == 0)

def mount_any():
    libc = ctypes.CDLL(None, use_errno=True)
    def mount():
        if libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) < 0:
            raise OSError(ctypes.get_errno(), 'mount')
    must_fail('mount', mount)
    must_fail('umount', syscall, 166, b'/proc', 2)
    must_fail('pivot_root', syscall, 155, b'.', b'.')

def files_honest():
    import tempfile
    def attempt():
        with tempfile.NamedTemporaryFile('w+') as file:
            file.write('hello')
            file.seek(0)
            return file.read() == 'hello'
    works('temporary file', attempt)

def unshare_each():
    for name, flag in {'user': 0x10000000, 'mount': 0x20000, 'network': 0x40000000, 'pid': 0x20000000, 'ipc': 0x8000000, 'uts': 0x4000000, 'cgroup': 0x2000000}.items():
        must_fail('unshare ' + name, syscall, 272, flag)
        must_fail('unshare user and ' + name, syscall, 272, flag | 0x10000000)

def threads_honest():
    import threading
    done = []
    thread = threading.Thread(target=lambda: done.append(1))
    thread.start()
    thread.join()
    works('thread', lambda: done == [1])

def setns_init():
    for kind in ('user', 'mnt', 'net', 'pid', 'ipc', 'uts', 'cgroup'):
        must_fail('setns ' + kind, lambda: syscall(308, os.open('/proc/1/ns/' + kind, os.O_RDONLY), 0))

def keys():
    must_fail('add_key', syscall, 248, b'user', b'k', b'v', 1, -3)
    must_fail('keyctl', syscall, 250, 1, b'evil', 0, 0, 0)
    must_fail('request_key', syscall, 249, b'user', b'k', None, -3)

def bpf_any():
    attributes = (ctypes.c_uint32 * 32)(2, 4, 8, 1)
    must_fail('bpf', syscall, 321, 0, ctypes.byref(attributes), ctypes.sizeof(attributes))

def uring():
    must_fail('io_uring_setup', syscall, 425, 8, ctypes.create_string_buffer(120))

def perf():
    attributes = ctypes.create_string_buffer(b'\x01\0\0\0\x70\0\0\0', 112)
    must_fail('perf_event_open', syscall, 298, attributes, 0, -1, -1, 0)

def userfaults():
    must_fail('userfaultfd', syscall, 323, 1)

def secret_memory():
    must_fail('memfd_secret', syscall, 447, 0)

def personality_any():
    must_fail('personality', syscall, 135, 0x0040000)

def memory_executed():
    must_fail('a file in memory', os.memfd_create, 'run')
    for path in 0, '/proc/self/fd/0':
        try:
            os.execve(path, ['x'], {})
        except OSError as error:
            # ENOEXEC: the kernel has looked for a format.
            say(f'{"DENIED" if error.errno == errno.EACCES else "ESCAPED"} its input {name_of(error)}')

def memory_mapped():
    import mmap, tempfile
    works('its input', lambda: os.read(0, 8) == b'')
    works('a file without a name', lambda: tempfile.TemporaryFile().write(b'x') == 1)
    works('shared memory', lambda: mmap.mmap(-1, 4096).write(b'x') == 1)

def memory_honest():
    import mmap
    works('mmap', lambda: mmap.mmap(-1, 8192).write(b'x') == 1)

def clocks_honest():
    works('time', lambda: time.time() > 1.6e9 and time.perf_counter() > 0)

def clock_set():
    must_fail('clock_settime', time.clock_settime, time.CLOCK_REALTIME, time.time())

def become_root():
    for name, attempt in {'setuid': lambda: os.setuid(0), 'setgid': lambda: os.setgid(0), 'setresuid': lambda: os.setresuid(0, 0, 0), 'setgroups': lambda: os.setgroups([0])}.items():
        must_fail(name, attempt)

def ids_honest():
    works('getuid', lambda: os.getuid() == os.geteuid())

def kexec():
    must_fail('kexec_load', syscall, 246, 0, 0, None, 0)

def modules():
    must_fail('init_module', syscall, 175, b'x', 1, b'')
    must_fail('delete_module', syscall, 176, b'nothing', os.O_NONBLOCK)
