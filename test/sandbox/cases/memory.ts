/** Programs that try to get more memory than their limit, to falsify what they used, or to spoil the next run's. */
import { BOTH, type Case, CPP, ends, PYTHON, type Seen, works } from '../case.ts';
import { SLOWNESS } from '../slowness.ts';

const MiB = 1024 * 1024;
const PAGE = 4096;
const topic = 'bombs';
const SHORT = { cpu_ms: 1_000, wall_ms: 3_000 };
/** Names of 200 characters: the kernel keeps half a KiB for each. An emulated file system is slow. */
const NAMES = [SLOWNESS > 1 ? '5000' : '120000'];
const LIMIT = 256 * MiB;

function withinLimit({ report, limits }: Seen): string | null {
  return report.memory_peak_bytes <= limits.memory_bytes
    ? null
    : `peak ${report.memory_peak_bytes}`;
}

const WORDS = /std::bad_alloc|^MemoryError/m;
const REFUSED = /^DENIED 6 GiB ENOMEM/m;

function wasRefused({ report }: Seen): string | null {
  return report.memory_refused > 0 ? null : 'no refusal was counted';
}

function wasNotRefused({ report }: Seen): string | null {
  return report.memory_refused === 0 ? null : 'a refusal was counted';
}

/** A signal can make the program ask again after an answer was already sent. */
function countedAll({ report, stdout }: Seen): string | null {
  const refused = Number(/refused (\d+)/.exec(stdout)?.[1]);
  return report.memory_refused >= refused ? null : `${report.memory_refused} of ${refused}`;
}

export const memory: readonly Case[] = [
  {
    name: 'a page over the memory limit',
    topic,
    needs_box: true,
    claim: 'a program cannot use a page more than its limit',
    because: 'its group has its memory and nothing else, so its limit is the group’s',
    languages: CPP,
    hostile: ends('memory_bytes', 'MLE', { args: [`${LIMIT + PAGE}`], evidence: withinLimit }),
    honest: works('memory_in_all', { args: [`${Math.floor(LIMIT * 0.99)}`] }),
  },
  {
    name: 'memory that ran out in words',
    topic,
    needs_box: true,
    claim: 'a program cannot get MLE by printing that its memory ran out',
    because: 'the message counts only when the program used nearly all of its limit',
    languages: PYTHON,
    hostile: ends('memory_words', 'RE', { exit_code: 1 }),
    honest: ends('memory_words_near', 'MLE', { args: ['232'] }),
  },
  {
    name: 'a refusal of its own making',
    topic,
    needs_box: true,
    claim: 'a program cannot get MLE by making the kernel refuse it memory, and reporting that',
    because: 'only requests over four times the limit count, and the launcher counts them itself',
    languages: BOTH,
    hostile: ends('memory_refusal_forged', ['RE', 'SIG'], {
      says: WORDS,
      evidence: wasNotRefused,
    }),
    honest: ends('memory_refused', 'MLE', { says: WORDS, evidence: wasRefused }),
  },
  {
    name: 'refused memory, caught',
    topic,
    needs_box: true,
    claim: 'a program cannot use memory that was refused, and goes on without it',
    because: 'a refusal is evidence, and no verdict',
    languages: BOTH,
    hostile: ends('memory_refused_caught', 'AC', { says: /^OK/m, evidence: wasRefused }),
    honest: works('memory_touch'),
  },
  {
    name: 'refusals without end',
    topic,
    needs_box: true,
    claim: 'a program cannot keep the launcher busy with requests for memory, or hide one',
    because: 'after 8 answers the slot leaves further questions unread for 10 ms',
    languages: CPP,
    hostile: ends('memory_refused_often', 'AC', { says: /^DENIED/m, evidence: countedAll }),
    honest: ends('memory_sparse', 'AC', { says: /^OK less/m, evidence: wasNotRefused }),
  },
  {
    name: 'more than four times the limit',
    topic,
    needs_box: true,
    claim: 'a program cannot have more than four times its limit in one piece, from 4 GiB on',
    because: 'the kernel asks the launcher, which knows the limit of the run',
    languages: CPP,
    hostile: ends('memory_grown', 'AC', { limits: { memory_bytes: 1024 * MiB }, says: REFUSED }),
    honest: works('memory_grown', { limits: { memory_bytes: 2048 * MiB } }),
  },
  {
    name: 'names that do not exist, then a loop',
    topic,
    needs_box: true,
    claim:
      'a program cannot turn its verdict into a failure of the service by what it leaves in the kernel',
    because: 'the launcher answers when init is reaped, and memory is reclaimed after that',
    languages: CPP,
    hostile: ends('names_then_loop', 'TLE', { args: NAMES, limits: SHORT }),
    honest: works('names', { args: ['1000'] }),
  },
  {
    name: 'names that do not exist, then an orphan',
    topic,
    needs_box: true,
    claim: 'a program that leaves names and a process cannot do that either',
    because: 'init’s death is the end of all its processes, and is enough for an answer',
    languages: CPP,
    hostile: works('names_then_orphan', { args: NAMES }),
    honest: works('names', { args: ['1000'] }),
  },
  {
    name: 'memory that the run before left',
    topic,
    needs_box: true,
    claim: 'a run cannot raise the memory limit of the next one',
    because: 'each run has a group of its own, and its limit is what was asked for',
    languages: CPP,
    before: works('names', { args: NAMES }),
    hostile: ends('memory_bytes', 'MLE', { args: [`${LIMIT + 16 * MiB}`], evidence: withinLimit }),
    honest: works('memory_bytes', { args: [`${LIMIT - 16 * MiB}`] }),
  },
];
