import socket

def socket_families():
    denials = 0
    for family in range(64):
        if family == socket.AF_UNIX:
            continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                socket.socket(family, kind)
            except OSError:
                denials += 1
                continue
            say(f'ESCAPED socket family {family} {kind}')
    say(f'DENIED {denials} kinds of socket')

def tcp_connect():
    for where in sys.argv[1:]:
        host, port = where.rsplit(':', 1)
        must_fail(where, socket.create_connection, (host.strip('[]'), int(port)), 2)

def dns_ask():
    must_fail('getaddrinfo', socket.getaddrinfo, 'example.com', 443)
    must_fail('gethostbyname', socket.gethostbyname, 'example.com')

def http_get():
    import urllib.request
    must_fail('urlopen', urllib.request.urlopen, 'http://' + sys.argv[1] + '/', None, 2)

def unix_pair():
    near, far = socket.socketpair()
    works('socketpair', lambda: near.send(b'abc') == 3 and far.recv(3) == b'abc')

def unix_own():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind('\0own')
    listener.listen()
    works('abstract socket', lambda: socket.socket(socket.AF_UNIX).connect('\0own'))

def unix_connect():
    for name in sys.argv[1:]:
        must_fail(name, lambda: socket.socket(socket.AF_UNIX).connect(name.replace('@', '\0')))

def hostname_set():
    must_fail('sethostname', socket.sethostname, 'evil')

def hostname_get():
    say(('ESCAPED' if socket.gethostname() == sys.argv[1] else 'OK') + ' hostname ' + socket.gethostname())

def asyncio_own():
    import asyncio
    async def main():
        await asyncio.sleep(0.01)
        return True
    works('asyncio', lambda: asyncio.run(main()))
