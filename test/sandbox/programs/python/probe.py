# The start of every Python program of the suite; ../cpp/probe.hpp explains the lines. The runner appends the file of the
# topic and a call of the program.
import errno, os, signal, sys, time

def say(line):
    os.write(1, (line + '\n').encode('utf-8', 'replace'))

def name_of(error):
    return errno.errorcode.get(getattr(error, 'errno', None), type(error).__name__)

def must_fail(what, attempt, *values):
    try:
        result = attempt(*values)
    except (OSError, ValueError, ImportError, AttributeError, MemoryError) as error:
        say(f'DENIED {what} {name_of(error)}')
        return True
    say(f'ESCAPED {what} {result!r}'[:200])
    return False

def works(what, attempt, *values):
    try:
        result = attempt(*values)
    except Exception as error:
        say(f'FAILED {what} {name_of(error)} {error}')
        return
    say(f'OK {what}' if result is not False else f'FAILED {what}')

def until_it_fails(what, most, more):
    for count in range(most):
        try:
            more(count)
        except (OSError, RuntimeError, MemoryError) as error:
            say(f'DENIED {what} {name_of(error)} after {count}')
            return
    say(f'ESCAPED {what} {most}')

def syscall(number, *values):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *values)
    if result < 0:
        raise OSError(ctypes.get_errno(), 'the call failed')
    return result

def look(path, most=4096):
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
