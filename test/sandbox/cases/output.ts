/** Programs that attack through their output, and by how they use their input. */
import { ALL, BOTH, type Case, CPP, denied, ends, PYTHON, type Seen, works } from '../case.ts';
import { SLOWNESS } from '../slowness.ts';

const topic = 'output';
const KiB = 1024;
const WALL = { wall_ms: 3_000 };
const STDOUT = { stdout_bytes: 64 * KiB };

const ALL_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => byte);
const INVALID = Uint8Array.from([
  0x61, 0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0xf4, 0x90, 0x80, 0x80, 0x7a,
]);
const INPUT = Uint8Array.from({ length: 64 * KiB }, (_, at) => (at * 7) % 251);

const printed = (bytes: Uint8Array) => (seen: Seen) =>
  Buffer.compare(seen.report.stdout, bytes) === 0
    ? null
    : `stdout differs: ${seen.report.stdout.length} bytes`;
/** Exactly as many bytes as the limit are kept. */
function cut({ report, limits }: Seen): string | null {
  return report.stdout.length === limits.stdout_bytes ? null : `${report.stdout.length} bytes kept`;
}
const flooded = (program: string) =>
  ends(program, 'OLE', { limits: STDOUT, killed_for: 'output', evidence: cut });
function sum(bytes: Uint8Array): number {
  return bytes.reduce((total, byte) => (total * 31 + byte) % 1_000_003, 0);
}

export const output: readonly Case[] = [
  {
    name: 'flood of stdout',
    topic,
    claim: 'a program cannot make the worker keep more of its stdout than the limit',
    because: 'the slot reads the pipe up to the limit, then the launcher kills the run',
    languages: ALL,
    hostile: flooded('flood_stdout'),
    honest: ends('print_all_bytes', 'AC', { evidence: printed(ALL_BYTES) }),
  },
  {
    name: 'flood of NUL',
    topic,
    claim: 'a flood of NUL is handled like any other',
    because: 'the slot counts bytes and does not interpret them',
    languages: CPP,
    hostile: flooded('flood_nul'),
    honest: ends('print_all_bytes', 'AC', { evidence: printed(ALL_BYTES) }),
  },
  {
    name: 'flood of stderr',
    topic,
    claim: 'a flood on stderr is truncated, and does not affect the verdict',
    because: 'bytes over the limit are read and dropped',
    languages: BOTH,
    hostile: ends('flood_stderr', 'AC', {
      says: /^OK \d+ MiB to stderr/m,
      evidence: ({ report, limits }) =>
        report.stderr.length === limits.stderr_bytes && report.stderr_seen_bytes >= 8 << 20
          ? null
          : `${report.stderr.length} of ${report.stderr_seen_bytes} bytes kept`,
    }),
    honest: ends('stdout_closed', 'AC', { says: /^OK/m }),
  },
  {
    name: 'flood of both',
    topic,
    claim: 'two floods at once do not block each other',
    because: 'the slot polls both pipes, and its reads do not wait for bytes',
    languages: CPP,
    hostile: flooded('flood_both'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood that ignores SIGPIPE',
    topic,
    claim: 'a program that ignores SIGPIPE cannot run on after its limit',
    because: 'the launcher kills it, and does not only close the pipe',
    languages: CPP,
    hostile: flooded('flood_ignoring_pipe'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood without blocking',
    topic,
    claim: 'a program cannot disturb its slot by O_NONBLOCK on its stdout',
    because: 'the slot’s end of the pipe is another file description',
    languages: CPP,
    hostile: flooded('flood_nonblocking'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood by a child',
    topic,
    claim: 'a child that floods after the program ended cannot delay the answer',
    because:
      'all processes are killed when the program ends, and then the pipe is read at most to the limit',
    languages: CPP,
    hostile: ends('flood_child', ['AC', 'OLE'], {
      limits: STDOUT,
      evidence: ({ report, limits }) =>
        report.stdout.length <= limits.stdout_bytes && report.wall_us < 3_000_000 * SLOWNESS
          ? null
          : 'too much or too late',
    }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood by vmsplice',
    topic,
    claim: 'pages given to the pipe count as bytes',
    because: 'the slot copies the bytes that it reads',
    languages: CPP,
    hostile: ends('flood_vmsplice', ['OLE', 'AC'], { limits: STDOUT }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'one byte over',
    topic,
    claim: 'the limit of stdout is exact: one byte over it gives OLE',
    because: 'the slot counts every byte, also beyond the limit',
    languages: CPP,
    hostile: ends('print_size', 'OLE', { args: ['65537'], limits: STDOUT, evidence: cut }),
    honest: ends('print_size', 'AC', { args: ['65536'], limits: STDOUT, evidence: cut }),
  },
  {
    name: 'stderr over its limit',
    topic,
    claim: 'one byte too many on stderr is dropped and counted',
    because: 'the report counts seen and kept bytes separately',
    languages: CPP,
    hostile: ends('print_size_stderr', 'AC', {
      args: ['1025'],
      limits: { stderr_bytes: 1024 },
      evidence: ({ report }) =>
        report.stderr.length === 1024 && report.stderr_seen_bytes === 1025
          ? null
          : `${report.stderr.length} of ${report.stderr_seen_bytes}`,
    }),
    honest: ends('print_size_stderr', 'AC', {
      args: ['1024'],
      limits: { stderr_bytes: 1024 },
      evidence: ({ report }) =>
        report.stderr.length === 1024 && report.stderr_seen_bytes === 1024
          ? null
          : `${report.stderr.length} of ${report.stderr_seen_bytes}`,
    }),
  },
  {
    name: 'invalid UTF-8 and NUL',
    topic,
    claim: 'bytes that are not text arrive unchanged',
    because: 'output is handled as bytes from the pipe to the stored result',
    languages: PYTHON,
    hostile: ends('print_invalid_utf8', 'AC', { evidence: printed(INVALID) }),
    honest: ends('print_unicode', 'AC', { says: /世界/ }),
  },
  {
    name: 'every byte',
    topic,
    claim: 'each of the 256 byte values arrives, including NUL',
    because: 'output is handled as bytes from the pipe to the stored result',
    languages: ALL,
    hostile: ends('print_all_bytes', 'AC', { evidence: printed(ALL_BYTES) }),
    honest: ends('stdin_counted', 'AC', { says: /^OK 0 bytes/m }),
  },
  {
    name: 'slow output',
    topic,
    claim: 'a program that prints slowly cannot keep its slot, and its output is kept',
    because: 'the wall limit does not depend on output',
    languages: BOTH,
    hostile: ends('drip', 'TLE', { limits: WALL, says: /^\.+$/m }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'stdout closed early',
    topic,
    claim: 'a program that closes stdout keeps running',
    because: 'the run ends with the process, and not with the pipe',
    languages: BOTH,
    hostile: ends('stdout_closed', 'AC', { says: /^OK went on/m }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'all streams closed',
    topic,
    claim: 'the exit code of a program that closed all streams is reported',
    because: 'it comes from the wait status of the process',
    languages: CPP,
    hostile: ends('streams_closed', 'RE', { exit_code: 7 }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'enlarging a pipe',
    topic,
    claim: 'a program cannot enlarge its pipes',
    because: 'fs.pipe-max-size limits it, and the program has no CAP_SYS_RESOURCE',
    languages: CPP,
    hostile: denied('pipe_size'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'streams in the wrong direction',
    topic,
    claim: 'a program cannot read its stdout or write its stdin',
    because: 'its stdout is one end of a pipe, and its stdin is sealed',
    languages: CPP,
    hostile: denied('stdout_read'),
    honest: works('stdin_counted', { stdin: INPUT }),
  },
  {
    name: 'reopening its own stdout',
    topic,
    claim: 'a program that opens its stdout for reading cannot find other runs’ bytes',
    because: 'each run has its own pipes',
    languages: CPP,
    hostile: denied('stdout_reopened'),
    honest: works('stdin_counted', { stdin: INPUT }),
  },
  {
    name: 'stdin never read',
    topic,
    claim: 'a program that does not read its input cannot block its slot',
    because: 'stdin is a file',
    languages: BOTH,
    hostile: works('stdin_ignored', { stdin: INPUT }),
    honest: ends('stdin_counted', 'AC', {
      stdin: INPUT,
      says: new RegExp(`^OK 65536 bytes ${sum(INPUT)}`, 'm'),
    }),
  },
  {
    name: 'stdin closed at once',
    topic,
    claim: 'a program that closes its stdin cannot harm its slot',
    because: 'stdin is a file, which the slot has written before',
    languages: CPP,
    hostile: works('stdin_closed', { stdin: INPUT }),
    honest: ends('stdin_counted', 'AC', {
      stdin: INPUT,
      says: new RegExp(`^OK 65536 bytes ${sum(INPUT)}`, 'm'),
    }),
  },
  {
    name: 'stdin without input',
    topic,
    claim: 'a program that reads an empty stdin gets end of file and does not wait',
    because: 'stdin is a file of no bytes',
    languages: ALL,
    hostile: ends('stdin_counted', 'AC', { says: /^OK 0 bytes/m }),
    honest: ends('stdin_counted', 'AC', {
      stdin: INPUT,
      says: new RegExp(`^OK 65536 bytes ${sum(INPUT)}`, 'm'),
    }),
  },
  {
    name: 'arguments that look like options',
    topic,
    claim: 'arguments arrive unchanged, whatever they look like',
    because: 'they follow the program’s name in argv, and no shell interprets them',
    languages: BOTH,
    hostile: works('arguments', { args: ['--help', '-c', '; rm -rf /', '$(id)', '', 'a\nb', '*'] }),
    honest: works('arguments', { args: ['one'] }),
  },
  {
    name: 'a forged report',
    topic,
    claim: 'a program cannot forge a report, wherever it writes',
    because: 'the report uses a descriptor that the program never has',
    languages: BOTH,
    hostile: ends('forged_report', 'RE', {
      exit_code: 3,
      says: /^DENIED wrote to 0 descriptors/m,
      evidence: ({ report }) =>
        report.cpu_us > 1 && report.oom_kills === 0 ? null : 'the report is the forged one',
    }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'pages shared with the launcher',
    topic,
    claim: 'a program cannot write to the pages that measurements are in',
    because:
      'execve drops every mapping, and a run that is forked from a warm interpreter unmaps them first',
    languages: BOTH,
    hostile: denied('memory_shared_with'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'streams by their paths',
    topic,
    claim:
      'a program that opens its standard streams again gets no other stream, and cannot resize a pipe or make packets of it',
    because: 'they belong to its user, and the filter denies F_SETPIPE_SZ and O_DIRECT',
    languages: ['cpp', 'python', 'java', 'c', 'javascript'],
    hostile: denied('streams_of_others'),
    honest: works('streams_by_path', { stdin: Buffer.from('1 2 3') }),
  },
  {
    name: 'packets in pipes',
    topic,
    claim:
      'a program cannot send packets through a pipe, so that its output is lost and not counted',
    because: 'the filter denies O_DIRECT when a pipe is made, opened or changed',
    languages: CPP,
    hostile: denied('pipes_of_packets'),
    honest: works('pipes_of_bytes'),
  },
  {
    name: 'input kept open',
    topic,
    claim: 'a program that opens its input for writing cannot change it, or keep it from ending',
    because: 'it is a file that is sealed',
    languages: CPP,
    hostile: ends('stdin_kept_open', 'AC', {
      says: /^OK end of input/m,
      stdin: Buffer.from('x'),
    }),
    honest: works('stdin_as_a_file', { stdin: Buffer.from('1 2 3') }),
  },
];
