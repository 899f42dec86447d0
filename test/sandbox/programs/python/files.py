def read_paths():
    for path in sys.argv[1:]:
        try:
            content = look(path)
        except OSError as error:
            say(f'DENIED {path} {name_of(error)}')
            continue
        say(f'ESCAPED {path} {content[:60]!r}' if content else f'DENIED {path} empty')

def read_own():
    for path in sys.argv[1:]:
        works(path, lambda: len(look(path)) > 0)

def write_paths():
    for path in sys.argv[1:]:
        def attempt():
            with open(path, 'r+b', buffering=0) as file:
                return file.write(b'1')
        must_fail(path, attempt)

def create_in():
    for directory in sys.argv[1:]:
        must_fail(directory, lambda: open(directory + '/planted', 'w').close())

def create_own():
    for directory in sys.argv[1:]:
        def attempt():
            open(directory + '/own', 'w').close()
            os.unlink(directory + '/own')
        works(directory, attempt)

def up_and_out():
    up = '/'.join(['..'] * 64)
    for path in sys.argv[1:]:
        for root in (up, '/proc/self/root/..', '/proc/1/root', '/proc/self/cwd/../..', '/proc/1/cwd'):
            try:
                look(root + path)
            except OSError:
                continue
            say(f'ESCAPED {root}{path}')
    say('DENIED nothing above /')

def links_out():
    for path in sys.argv[1:]:
        def attempt():
            os.symlink(path, 'soft')
            try:
                return look('soft')
            finally:
                os.unlink('soft')
        must_fail(path, attempt)
    must_fail('hard link', os.link, sys.executable, 'hard')

def chroot_out():
    os.mkdir('jail')
    must_fail('chroot', os.chroot, 'jail')

def processes_seen():
    others = [int(each) for each in os.listdir('/proc') if each.isdigit() and int(each) not in (1, os.getpid(), os.getppid())]
    say(f'{"ESCAPED" if others else "DENIED"} processes of others {others}')

def secrets_of_processes():
    for each in os.listdir('/proc'):
        if not each.isdigit() or int(each) == os.getpid():
            continue
        for what in ('environ', 'mem', 'maps', 'fd/0', 'fd/3', 'cwd/.', 'root/etc/shadow', 'exe'):
            try:
                content = look(f'/proc/{each}/{what}')
            except OSError as error:
                say(f'DENIED /proc/{each}/{what} {name_of(error)}')
                continue
            say(f'ESCAPED /proc/{each}/{what} {content[:40]!r}' if content else f'DENIED /proc/{each}/{what} empty')
    say('DENIED end of list')

def descriptors():
    extra = []
    for each in range(3, 4096):
        try:
            os.fstat(each)
            extra.append((each, os.readlink(f'/proc/self/fd/{each}')))
        except OSError:
            pass
    say(f'{"ESCAPED" if extra else "DENIED"} descriptors beyond 0, 1 and 2 {extra}')

def devices_seen():
    usual = {'null', 'zero', 'full', 'random', 'urandom', 'fd', 'stdin', 'stdout', 'stderr', 'shm', 'mqueue'}
    for each in set(os.listdir('/dev')) - usual:
        say(f'ESCAPED /dev has {each}')
    say('DENIED other devices')

def devices_own():
    works('/dev/null', lambda: open('/dev/null', 'wb').write(b'x') == 1)
    works('/dev/urandom', lambda: len(os.urandom(16)) == 16 and len(look('/dev/urandom', 16)) == 16)

def devices_make():
    import stat
    must_fail('mknod mem', os.mknod, 'mem', stat.S_IFCHR | 0o666, os.makedev(1, 1))
    must_fail('mknod disk', os.mknod, 'disk', stat.S_IFBLK | 0o666, os.makedev(254, 0))

def fifo_make():
    works('mkfifo', os.mkfifo, 'fifo')

def suid_file():
    import shutil
    must_fail('chown to root', lambda: (open('suid', 'w').close(), os.chown('suid', 0, 0)))
    say('ESCAPED uid is 0' if os.getuid() == 0 else 'DENIED uid')

def exe_overwrite():
    must_fail('own program opened for writing', lambda: os.open('/proc/self/exe', os.O_WRONLY))
    must_fail('own program removed', os.unlink, os.path.realpath('/proc/self/exe'))
    must_fail('own library changed', lambda: open(os.__file__, 'a').write('\n'))

def runtime_planted():
    # files that the next Python process would import
    import site, sysconfig
    for directory in {sysconfig.get_path('stdlib'), sysconfig.get_path('purelib'), '/usr/lib/python3/dist-packages', os.path.expanduser('~')} | set(filter(None, sys.path)):
        if os.path.isdir(directory) and os.path.realpath(directory) != os.getcwd():
            must_fail(directory, lambda: open(directory + '/sitecustomize.py', 'w').close())
    say('DENIED end of list')

def cgroup_write():
    for path in ('/sys/fs/cgroup/cgroup.procs', '/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/fs/cgroup/pids/pids.max'):
        must_fail(path, lambda: os.open(path, os.O_WRONLY))

def exec_from():
    import shutil, subprocess
    for directory in sys.argv[1:]:
        def attempt():
            path = shutil.copyfile('/bin/true', directory + '/program')
            os.chmod(path, 0o755)
            return subprocess.run([path]).returncode
        must_fail(directory, attempt)

def environment():
    for name, value in os.environ.items():
        say(f'{"OK" if name in sys.argv[1:] else "ESCAPED"} environment {name}={value}')
    say('OK environment listed')

def main_file():
    # a submission may read its own files
    works('own source', lambda: 'def main_file' in open(__file__).read())

def arguments():
    for each in sys.argv[1:]:
        say(f'OK <{each}>')

def fd_some():
    kept = []
    works('40 descriptors', lambda: kept.extend(open('/dev/null') for _ in range(40)))

def commands_some():
    import subprocess
    works('os.system', lambda: os.system('echo OK echo && ls -a > listed && cat listed > copied && test -s copied') == 0)
    works('subprocess with a shell', lambda: subprocess.check_output('echo $((6 * 7))', shell=True) == b'42\n')
