/** Variables of the worker: languages, isolation, and a switch for each speed-up. */
import { MOST_SLOTS } from '../domain/launcher_bounds.ts';
import {
  BY_NAME,
  CANONICAL_NAMES,
  LANGUAGES,
  ON_BY_DEFAULT,
} from '../languages/common/registry.ts';
import { bytes, choice, duration, list, onOff, whole } from './parsers.ts';
import { GiB, HOUR, optional, path, row, SECOND, type Variable } from './variable.ts';

export const executor = {
  languages: row('RUNLEDGER_LANGUAGES', list([...BY_NAME.keys()], CANONICAL_NAMES), {
    default: ON_BY_DEFAULT.join(','),
    unit: 'words',
    reason: `the languages of this deployment, of ${[...BY_NAME.keys()].join(', ')}; any other is a 400`,
  }),
  slots: optional('RUNLEDGER_SLOTS', whole(1, MOST_SLOTS), {
    unit: 'slots',
    reason: `programs that run at one time on this worker; one per core where not set, at most ${MOST_SLOTS}`,
  }),
  cpu_reserve_percent: row('RUNLEDGER_CPU_RESERVE_PERCENT', whole(0, 90), {
    default: '5',
    unit: 'percent',
    reason:
      'of the processors, that programs leave to the service; 0: no quotas, so a program can starve the service and others',
  }),
  isolation: row('RUNLEDGER_ISOLATION', choice('auto', 'rlimits'), {
    default: 'auto',
    unit: 'word',
    reason:
      'auto: full isolation, which only `serve` for this machine alone may go without; rlimits: degraded isolation, which health and results report',
  }),
  launcher: row('RUNLEDGER_LAUNCHER', path, {
    default: 'build/launcher',
    unit: 'file',
    reason: 'the program that builds the boxes',
  }),
  compile_cache_bytes: row('RUNLEDGER_COMPILE_CACHE_BYTES', bytes(0, 1024 * GiB), {
    default: '1GiB',
    unit: 'bytes',
    reason:
      'compiled programs kept on disk, by the blocks that they take; 0 keeps none; precompiled headers take up to 300 MB besides',
  }),
  compile_cache_entries: row('RUNLEDGER_COMPILE_CACHE_ENTRIES', whole(1, 10_000_000), {
    default: '20000',
    unit: 'programs',
    reason:
      'the most compiled programs kept on disk; each takes three to eleven inodes, however small it is',
  }),
  content_cache_bytes: row('RUNLEDGER_CONTENT_CACHE_BYTES', bytes(0, 1024 * GiB), {
    default: '1GiB',
    unit: 'bytes',
    reason:
      'files of test sets kept on disk, by the blocks and inodes that they take, besides those that a run needs at the moment',
  }),
  content_cache_entries: row('RUNLEDGER_CONTENT_CACHE_ENTRIES', whole(1, 10_000_000), {
    default: '50000',
    unit: 'files',
    reason:
      'the most files of test sets kept on disk, besides those that a run needs; each takes an inode, however small it is',
  }),
  tests_wall_ms: row('RUNLEDGER_TESTS_WALL', duration(SECOND, HOUR), {
    default: '300s',
    unit: 'time',
    reason: 'the elapsed time of all tests of one submission together, with their checkers',
  }),
};

/** Of all languages, by the switch's name; `languageSwitches` reads their values. */
export const switches: Readonly<Record<string, Variable<boolean>>> = Object.fromEntries(
  LANGUAGES.flatMap((language) => language.switches).map(({ name, variable, reason }) => [
    name,
    row(variable, onOff, { default: 'on', unit: 'on/off', reason }),
  ]),
);
