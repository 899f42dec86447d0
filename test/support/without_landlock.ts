/** As on a kernel without Landlock: a program that runs a command, for which landlock_create_ruleset does not exist. */
export const FILTER_OF_LANDLOCK = `
import ctypes, os, struct, sys
def instruction(*parts): return struct.pack("HBBI", *parts)
# Every other call is allowed.
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(instruction(*row) for row in rows))
class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(rows), ctypes.addressof(text))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0): sys.exit("no filter")
os.execvp(sys.argv[1], sys.argv[1:])`;

export const WITHOUT_LANDLOCK = ['/usr/bin/python3', '-c', FILTER_OF_LANDLOCK] as const;
