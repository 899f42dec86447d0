/** Mutants of how programs are compiled. */
import { inFile, type Mutant } from './mutant.ts';

const COMPILE = 'test/executor/compile.test.ts';
const RESIDENT = 'test/languages/resident_compilers.test.ts';

export const executorMutants: readonly Mutant[] = [
  ...inFile(
    'src/executor/compile.ts',
    COMPILE,
    [
      'equal sources at the same moment are compiled once',
      'this.#under_way.set(key, settled);',
      '',
    ],
    ['an interrupted compile has no result to share', '.catch(() => null)', '.then((one) => one)'],
    ['a shared compile counts once', '...SPENT_ELSEWHERE, cached: true }', 'cached: true }'],
    [
      'a resident compiler that ended is charged',
      'let spent = before;',
      'let spent = NOTHING_SPENT;',
    ],
  ),
  ...inFile(
    'src/executor/compile_limits.ts',
    COMPILE,
    [
      'the line that names the limit is never cut off',
      'Math.max(most - limit_line.length - 1, 0)',
      'most',
    ],
    ['the limit of memory is named', 'return oom_kills > 0 ?', 'return oom_kills > 1e9 ?'],
    ['the tools’ own account of a limit is dropped', 'said.subarray(0, met?.said_until)', 'said'],
  ),
  ...inFile(
    'src/executor/compile_cache.ts',
    'test/executor/compile_cache.test.ts',
    [
      'the bound counts blocks',
      'return Math.max(blocks * STAT_BLOCK_BYTES, size);',
      'return blocks * 0 + size;',
    ],
    ['the number of entries is bounded', '|| this.#entries.size > entries', ''],
    [
      'a restart counts the same',
      'stored.disk_bytes + diskBytesOf(own)',
      'stored.disk_bytes + 0 * diskBytesOf(own)',
    ],
  ),
  ...inFile(
    'src/executor/preparation.ts',
    'test/executor/preparation.test.ts',
    [
      'a preparation that failed is made at the next request',
      'made.catch(() => this.#made.delete(key));',
      '',
    ],
    ['another compiler makes another artefact', 'load, profile, made_by]', 'load, profile]'],
  ),
  ...inFile('src/languages/java/resident_compilers.ts', RESIDENT, [
    'an account that broke its compiler gets no spare at once',
    'if (reply.answer === null && reply.cpu_us) this.#bar(account_id);',
    '',
  ]),
  ...inFile('src/languages/java/resident_compiler.ts', RESIDENT, [
    'an ended compiler’s last report is charged',
    'this.#total_cpu_us = total_cpu_us;',
    'this.#total_cpu_us = total_cpu_us && null;',
  ]),
  ...inFile('src/languages/java/Compile.java', RESIDENT, [
    'words of a source do not end the compiler',
    'return end != Result.OK && end != Result.ERROR;',
    'return !compiled && words.getBuffer().indexOf("An exception has occurred in the compiler (") >= 0;',
  ]),
  ...inFile('src/languages/common/gnu.ts', 'test/languages/cpp.test.ts', [
    'words of a source are no limit',
    String.raw`/^[^\s:|]+: (.*)$/gm`,
    '/(.+)/g',
  ]),
];
