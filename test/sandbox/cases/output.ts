/** Programs whose weapon is what they print, or how; and what they are given to read. */
import { ALL, BOTH, type Case, CPP, ends, PYTHON, refused, type Seen, works } from '../case.ts';

const topic = 'output';
const KiB = 1024;
const WALL = { wall_ms: 1_000 };
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
/** Kept to the limit, and not a byte more; how much was seen says what the program had time for. */
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
    claim: 'ten gigabytes on stdout cost the worker its limit and no more',
    because: 'the pipe is read to the limit, then the run is killed',
    languages: ALL,
    hostile: flooded('flood_stdout'),
    honest: ends('print_all_bytes', 'AC', { evidence: printed(ALL_BYTES) }),
  },
  {
    name: 'flood of NUL',
    topic,
    claim: 'a flood of NUL is a flood',
    because: 'bytes are counted, never looked at',
    languages: CPP,
    hostile: flooded('flood_nul'),
    honest: ends('print_all_bytes', 'AC', { evidence: printed(ALL_BYTES) }),
  },
  {
    name: 'flood of stderr',
    topic,
    claim: 'a flood on stderr is drained and cut, and is no verdict',
    because: 'what is over the limit is read and thrown away',
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
    claim: 'two floods at once do not block each other, nor the launcher',
    because: 'both pipes are watched, and neither is waited for',
    languages: CPP,
    hostile: flooded('flood_both'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood that ignores SIGPIPE',
    topic,
    claim: 'a program that does not mind a closed pipe ends all the same',
    because: 'it is killed, not merely cut off',
    languages: CPP,
    hostile: flooded('flood_ignoring_pipe'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood without blocking',
    topic,
    claim: 'O_NONBLOCK on stdout changes nothing for the reader',
    because: 'the launcher’s end is another description, or does not rely on it',
    languages: CPP,
    hostile: flooded('flood_nonblocking'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood by a child',
    topic,
    claim: 'a child that floods after the program ended does not keep the reader busy',
    because:
      'everybody is killed when the program ends, and the pipe then read at most to the limit',
    languages: CPP,
    hostile: ends('flood_child', ['AC', 'OLE'], {
      limits: STDOUT,
      evidence: ({ report, limits }) =>
        report.stdout.length <= limits.stdout_bytes && report.wall_us < 3_000_000
          ? null
          : 'too much or too late',
    }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'flood by vmsplice',
    topic,
    claim: 'pages given to the pipe instead of bytes are bytes',
    because: 'the launcher copies what it reads',
    languages: CPP,
    hostile: ends('flood_vmsplice', ['OLE', 'AC'], { limits: STDOUT }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'one byte over',
    topic,
    claim: 'the limit of stdout is exact: one byte over is OLE',
    because: 'the launcher counts before it keeps',
    languages: CPP,
    hostile: ends('print_size', 'OLE', { args: ['65537'], limits: STDOUT, evidence: cut }),
    honest: ends('print_size', 'AC', { args: ['65536'], limits: STDOUT, evidence: cut }),
  },
  {
    name: 'stderr over its limit',
    topic,
    claim: 'one byte too many on stderr is cut and flagged',
    because: 'seen and kept bytes are counted apart',
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
    claim: 'bytes that are no text come through as they are',
    because: 'output is bytes from the pipe to the record',
    languages: PYTHON,
    hostile: ends('print_invalid_utf8', 'AC', { evidence: printed(INVALID) }),
    honest: ends('print_unicode', 'AC', { says: /世界/ }),
  },
  {
    name: 'every byte',
    topic,
    claim: 'each of the 256 bytes comes through, NUL too',
    because: 'output is bytes from the pipe to the record',
    languages: ALL,
    hostile: ends('print_all_bytes', 'AC', { evidence: printed(ALL_BYTES) }),
    honest: ends('stdin_counted', 'AC', { says: /^OK 0 bytes/m }),
  },
  {
    name: 'a byte now and then',
    topic,
    claim: 'a program that prints slowly cannot hold its slot, and what it printed is kept',
    because: 'the wall limit runs whatever is read',
    languages: BOTH,
    hostile: ends('drip', 'TLE', { limits: WALL, says: /^\.{3,}$/m }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'stdout closed early',
    topic,
    claim: 'a program that closes stdout is not over, nor is one that closes all three',
    because: 'the run ends with the process, not with the pipe',
    languages: BOTH,
    hostile: ends('stdout_closed', 'AC', { says: /^OK went on/m }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'all streams closed',
    topic,
    claim: 'the exit code of a program that closed everything is still seen',
    because: 'it is the wait status of the process',
    languages: CPP,
    hostile: ends('streams_closed', 'RE', { exit_code: 7 }),
    honest: works('stdin_ignored'),
  },
  {
    name: 'a pipe made larger',
    topic,
    claim: 'a program cannot grow the launcher’s pipe to hold much',
    because: 'fs.pipe-max-size, without CAP_SYS_RESOURCE',
    languages: CPP,
    hostile: refused('pipe_size'),
    honest: works('stdin_ignored'),
  },
  {
    name: 'streams used the wrong way round',
    topic,
    claim: 'a program cannot read its stdout or write its stdin',
    because: 'they are the one ends of pipes or files opened one way',
    languages: CPP,
    hostile: refused('stdout_read'),
    honest: works('stdin_counted', { stdin: INPUT }),
  },
  {
    name: 'its own stdout opened again',
    topic,
    claim: 'a program that opens its stdout for reading finds nothing of others',
    because: 'each run has pipes of its own',
    languages: CPP,
    hostile: refused('stdout_reopened'),
    honest: works('stdin_counted', { stdin: INPUT }),
  },
  {
    name: 'stdin never read',
    topic,
    claim: 'input that nobody reads blocks nobody',
    because: 'the launcher does not wait for stdin to be taken',
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
    claim: 'closing stdin does not hurt the one who writes it',
    because: 'SIGPIPE is ignored and EPIPE expected there',
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
    claim: 'a program that reads where there is nothing gets the end of file, not a wait',
    because: 'stdin is closed when its bytes are written',
    languages: ALL,
    hostile: ends('stdin_counted', 'AC', { says: /^OK 0 bytes/m }),
    honest: ends('stdin_counted', 'AC', {
      stdin: INPUT,
      says: new RegExp(`^OK 65536 bytes ${sum(INPUT)}`, 'm'),
    }),
  },
  {
    name: 'arguments like options',
    topic,
    claim: 'arguments are the program’s, whatever they look like',
    because: 'they stand behind the program’s name in argv, and no shell reads them',
    languages: BOTH,
    hostile: works('arguments', { args: ['--help', '-c', '; rm -rf /', '$(id)', '', 'a\nb', '*'] }),
    honest: works('arguments', { args: ['one'] }),
  },
  {
    name: 'a forged report',
    topic,
    claim: 'nothing that a program prints or writes anywhere is taken for a report',
    because: 'the report goes out on a descriptor that the program never has',
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
    name: 'memory shared with those who measure',
    topic,
    claim: 'no page of the launcher is mapped in a program, to write a report into',
    because: 'execve drops every mapping; what is forked from a warm interpreter unmaps them first',
    languages: BOTH,
    hostile: refused('memory_shared_with'),
    honest: works('stdin_ignored'),
  },
];
