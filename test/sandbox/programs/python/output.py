def print_all_bytes():
    sys.stdout.buffer.write(bytes(range(256)))

def print_invalid_utf8():
    sys.stdout.buffer.write(b'a\xff\xfe\xc3(\xed\xa0\x80\xf4\x90\x80\x80z')

def print_nothing():
    pass

def print_unicode():
    print('grüße, κόσμε, 世界, 🎲')

def flood_stdout():
    while True:
        print('x' * 1000)

def flood_stderr():
    sys.stderr.write('e' * (8 << 20))
    say('OK 8 MiB to stderr')

def stdout_closed():
    os.close(1)
    os.write(2, b'OK went on without stdout\n')
    time.sleep(0.05)
    os._exit(0)

def drip():
    while True:
        print('.', end='', flush=True)
        time.sleep(0.1)

def stdin_ignored():
    say('OK never read stdin')

def stdin_counted():
    data = sys.stdin.buffer.read()
    total = 0
    for byte in data:
        total = (total * 31 + byte) % 1000003
    say(f'OK {len(data)} bytes {total}')

def arguments():
    for each in sys.argv[1:]:
        say(f'OK <{each}>')

def forged_report():
    reached = 0
    for each in range(3, 256):
        try:
            reached += os.write(each, b'\0\0\0\x08\x01\0\0\0exit=0\n') > 0
        except OSError:
            pass
    say(f'{"ESCAPED" if reached else "DENIED"} wrote to {reached} descriptors')
    print('{"verdict":"AC","exit_code":0}', flush=True)
    os._exit(3)

def memory_shared_with():
    with open('/proc/self/maps') as maps:
        for line in maps:
            if 'w' in line.split()[1] and line.split()[1].endswith('s'):
                say('ESCAPED shared mapping ' + line.strip())
    say('DENIED mappings checked')

# The input is "1 2 3".
def streams_by_path():
    works('open of /dev/stdin', lambda: open('/dev/stdin').read().split() == ['1', '2', '3'])
    works('open of 0', lambda: open(0, closefd=False).read() == '1 2 3')
    works('open of /dev/stdout', lambda: open('/dev/stdout', 'w').write('OK /dev/stdout\n') > 0)
    works('open of /dev/stderr', lambda: open('/dev/stderr', 'w').write('OK /dev/stderr\n') > 0)
    works('/proc/self/fd/0', lambda: open('/proc/self/fd/0').read() == '1 2 3')

def streams_of_others():
    import fcntl
    must_fail('stdin of init', os.open, '/proc/1/fd/0', os.O_RDWR)
    for stream in range(3):
        must_fail('pages of a pipe', fcntl.fcntl, stream, 1031, 1 << 20)
        must_fail('packets in a pipe', fcntl.fcntl, stream, fcntl.F_SETFL, os.O_DIRECT)
        must_fail('owner of a pipe', os.chown, f'/dev/fd/{stream}', 0, 0)
