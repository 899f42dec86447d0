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
    [
      'a compile has the room of contents',
      'if (report.store_full) await makeRoom(rooms);',
      'await cache.makeRoom();',
    ],
    [
      'who is cancelled does not wait for the steps',
      'await orAborted(Promise.resolve(open.steps(order)), signal)',
      'await open.steps(order)',
    ],
    [
      'a resident compiler says no more than the plain one',
      'answer.said.subarray(0, most)',
      'answer.said',
    ],
    ['an interrupted compile has no result to share', '.catch(() => null)', '.then((one) => one)'],
    ['a shared compile counts once', '...SPENT_ELSEWHERE, cached: true }', 'cached: true }'],
    [
      'a resident compiler that ended is charged',
      'let spent = before;',
      'let spent = NOTHING_SPENT;',
    ],
  ),
  ...inFile('src/executor/preparation.ts', 'test/executor/preparation.test.ts', [
    'a preparation has the room of contents',
    'await makeRoom(this.#parts.rooms);',
    '',
  ]),
  ...inFile(
    'src/executor/compile_limits.ts',
    COMPILE,
    [
      'the line that names the limit is never cut off',
      'Math.max(most - limit_line.length - 1, 0)',
      'most',
    ],
    ['the limit of memory is named', 'return oom_kills > 0 ?', 'return oom_kills > 1e9 ?'],
    ['the end of long diagnostics is read', 'Buffer.concat([said, stderr_end])', 'said'],
    ['the tools’ own account of a limit is dropped', 'said.subarray(0, met?.said_until)', 'said'],
  ),
  ...inFile(
    'src/executor/compile_cache.ts',
    'test/executor/compile_cache.test.ts',
    ['the number of entries is bounded', '|| this.#entries.size > entries', ''],
    ['a use is marked', '> MARK_EVERY_MS) this.#mark(', '> Infinity) this.#mark('],
    ['not at each use', '> MARK_EVERY_MS) this.#mark(', '>= 0) this.#mark('],
    [
      'a restart counts the same',
      'stored.disk_bytes + diskBytesOf(own)',
      'stored.disk_bytes + 0 * diskBytesOf(own)',
    ],
  ),
  ...inFile('src/executor/cache_files.ts', 'test/executor/compile_cache.test.ts', [
    'the bound counts blocks',
    'return Math.max(blocks * STAT_BLOCK_BYTES, size) + INODE_BYTES;',
    'return blocks * 0 + size + INODE_BYTES;',
  ]),
  ...inFile('src/executor/cache_files.ts', 'test/executor/content_cache.test.ts', [
    'the bound of contents counts blocks, too',
    'return Math.max(blocks * STAT_BLOCK_BYTES, size) + INODE_BYTES;',
    'return blocks * 0 + size + INODE_BYTES;',
  ]),
  ...inFile(
    'src/executor/content_cache.ts',
    'test/executor/content_cache.test.ts',
    ['a full disk is tried again', 'await makeRoom([this, ...this.#at.others]);', 'throw error;'],
    [
      'the caches make room together',
      'await makeRoom([this, ...this.#at.others]);',
      'await makeRoom([this]);',
    ],
    ['the number of contents is bounded', '|| this.#total_files > max_entries', ''],
    ['bytes are those of the hash', "&& hash.digest('hex') === file.sha256) return;", ') return;'],
    [
      'a file is hashed for every run',
      'entry.working ??= this.#provide(',
      'entry.working = entry.on_disk ? Promise.resolve(null) : this.#provide(',
    ],
    ['what is held stays', '=> holds === 0 && on_disk;', '=> (holds, on_disk);'],
    [
      'a file gets its name when it is whole',
      "const handle = await open(this.#pathOf(half), 'wx', 0o444);",
      "const handle = await open(this.#pathOf(entry.key), 'wx', 0o444);",
    ],
    ['one fetch serves all that wait', 'entry.working ??=', 'entry.working ='],
  ),
  ...inFile(
    'src/executor/tests_in_turn.ts',
    'test/executor/tests_in_turn.test.ts',
    ['tests stop at the first that is rejected', "while (need[turn] === 'skip') turn++;", ''],
    ['the time of all tests is bounded', 'if (turn < count && left_ms <= 0) endOutOfTime();', ''],
    [
      'a test that is not needed is not rejected when the time is spent',
      "if (index >= turn && each === 'run')",
      'if (index >= turn)',
    ],
    [
      'a test is needed if those that it waited for were accepted',
      'of tests.needs().entries())',
      'of need.entries())',
    ],
    [
      'the end of the time ends what runs ahead',
      'if (turn >= count) {\n        stopAhead();',
      'if (turn >= count) {',
    ],
    [
      'what runs ahead has the time that is left',
      'tests.run(index, leftMs, any)',
      'tests.run(index, () => Number.POSITIVE_INFINITY, any)',
    ],
    ['what is not needed is ended', "if (need[index] === 'skip') each.ahead?.abort();", ';'],
    [
      'a slot that is wanted is left at once',
      'AbortSignal.any([ahead.signal, ...wanted])',
      'ahead.signal',
    ],
    [
      'a test ahead had no more time than in its turn',
      'if (ahead !== null && left_ms < run.least_left_ms) break;',
      '',
    ],
    ['nothing runs after the end', 'await Promise.all(lanes);', ''],
    [
      'after a failure nothing runs ahead',
      'test.end = { error };\n        may_run_ahead = false;',
      'test.end = { error };',
    ],
    [
      'a failure ahead fails the execution',
      '        test.end = { error };\n',
      '        taken.delete(index);\n',
    ],
    ['few are ahead', 'Math.min(turn + 1 + MOST_AHEAD, count)', 'count'],
  ),
  ...inFile(
    'src/executor/judged_execution.ts',
    'test/executor/judged_execution.test.ts',
    [
      'the first that failed is shown',
      "if (shown === null || shown.outcome.verdict === 'AC') shown = run;",
      'shown = run;',
    ],
    [
      'a test has limits of its own',
      'const asked = { ...judging.limits, ...limits, ...test?.limits };',
      'const asked = { ...judging.limits, ...limits };',
    ],
    [
      'those of the request go before those of the set',
      'const asked = { ...judging.limits, ...limits, ...test?.limits };',
      'const asked = { ...limits, ...judging.limits, ...test?.limits };',
    ],
  ),
  ...inFile(
    'src/executor/test_run.ts',
    'test/executor/test_run.test.ts',
    [
      'no pass is run when the time of all tests is spent',
      'if (so_far !== null && left_ms <= 0) {',
      'if (so_far !== null && left_ms <= -2000) {',
    ],
    [
      'what is left is looked at before each pass',
      'const all_left_ms = order.leftMs();',
      'const all_left_ms = so_far === null ? order.leftMs() : 9000;',
    ],
    [
      'a pass that had all that was left is the same if as much is left in its turn',
      'Math.min(spent_ms + order.limits.wall_ms, all_left_ms)',
      'spent_ms + order.limits.wall_ms',
    ],
  ),
  ...inFile('src/executor/judged_execution.ts', 'test/executor/judged_execution.test.ts', [
    'a test that is not run for want of time says how much there was',
    'tests_wall_ms: parts.tests_wall_ms });',
    'tests_wall_ms: 0 });',
  ]),
  ...inFile(
    'src/executor/compare_outputs.ts',
    'test/executor/compare_outputs.test.ts',
    [
      'a large comparison has its own thread',
      'output.length + size > smallBytes(compare)',
      'size < 0',
    ],
    ['numbers are many soon', '    ? SMALL_BYTES_OF_NUMBERS', '    ? SMALL_BYTES'],
    [
      'accounts take turns',
      'waiting.delete(account_id);\n    const work',
      'if (line.length === 1) waiting.delete(account_id);\n    const work',
    ],
    ['who is cancelled stops waiting', 'return orAborted(promise, signal);', 'return promise;'],
    [
      'it ends with its execution',
      "once(worker, 'message', { signal })",
      "once(worker, 'message')",
    ],
    ['its memory is given back', '&& thread.read_bytes < READ_MOST_BYTES', ''],
    ['the next one uses the same thread', 'if (is_well && ', 'if (false && '],
    ['one that was cut answers nobody', 'if (is_well && ', 'if ('],
  ),
  ...inFile(
    'src/executor/held_contents.ts',
    'test/executor/content_cache.test.ts',
    [
      'who is cancelled does not wait for a content',
      'await orAborted(holding, this.#signal)',
      'await holding',
    ],
    ['what comes after the release is let go', 'this.#is_released = true;', ''],
  ),
  ...inFile(
    'src/executor/test_run.ts',
    ['test/executor/judge_program.test.ts'],
    ['a test may have no score of its own', "group?.points === 'required'", 'false'],
    [
      'only what ended well is judged',
      'if (judge === null || !endedWell(order, ended))',
      'if (judge === null)',
    ],
    [
      'a pass follows only on one that went well',
      "const goes_on = outcome.verdict === 'AC' && judged?.end.next_pass;",
      'const goes_on = judged?.end.next_pass;',
    ],
    [
      'the next pass has the input that was left',
      'return { input: { bytes }, left:',
      'return { input: { bytes: new Uint8Array() }, left:',
    ],
    [
      'an interactor that cannot be sent is no failure of the sandbox',
      'if (!(error instanceof NoPair)) throw error;',
      'throw error;',
    ],
  ),
  ...inFile(
    'src/executor/judge_program.ts',
    'test/executor/judge_program.test.ts',
    [
      'no file of a checker is in the way',
      'const is_used = paths.some(',
      'const is_used = false && paths.some(',
    ],
    [
      'a state outlives its pass',
      'return this.#passes > 1 ? [...FEEDBACK_FILES, ...OF_ANY_DEPTH] : FEEDBACK_FILES;',
      'return FEEDBACK_FILES;',
    ],
    ['a state may be in folders', 'const STATE_DEPTH = 8;', 'const STATE_DEPTH = 1;'],
    [
      'a judge that cannot be sent is no failure of the sandbox',
      'if (!(error instanceof Unsendable)) throw error;',
      'throw error;',
    ],
  ),
  ...inFile('src/executor/compile_cache.ts', 'test/languages/several_files.test.ts', [
    'other files are another program',
    'const more = others.length === 0 ? [] : [main, ...files];',
    'const more = others.length === 0 ? [] : [main];',
  ]),
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
  ...inFile('src/languages/java/resident_compilers.ts', RESIDENT, [
    'one account that asks needs no spare beside its own',
    'if (this.#byAccount.size > 0 && !this.#are_several) return;',
    '',
  ]),
  ...inFile(
    'src/languages/java/resident_compiler.ts',
    RESIDENT,
    ['a cancelled compile ends', 'setTimeout(kill, CANCELLED_MS)', 'setTimeout(kill, ANSWER_MS)'],
    ['no answer writes outside its program', '!FILE_NAME.test(name.part.toString())', 'false'],
    ['an answer has few files', 'files.size === PROGRAM_MOST_FILES || ', ''],
    ['no file of an answer comes twice', ' || files.has(path)', ''],
    [
      'an ended compiler’s last report is charged',
      'this.#total_cpu_us = total_cpu_us;',
      'this.#total_cpu_us = total_cpu_us && null;',
    ],
  ),
  ...inFile('src/languages/java/Compile.java', RESIDENT, [
    'words of a source do not end the compiler',
    'return end != Result.OK && end != Result.ERROR;',
    'return !compiled && words.getBuffer().indexOf("An exception has occurred in the compiler (") >= 0;',
  ]),
  ...inFile('src/languages/common/probing.ts', 'test/languages/toolchains.test.ts', [
    'another file of a compiler is another compiler',
    '? path :',
    '? path : true ? path :',
  ]),
  ...inFile('src/languages/common/gnu.ts', 'test/languages/cpp.test.ts', [
    'words of a source are no limit',
    String.raw`/^[^\s:|]+: (.*)$/gm`,
    '/(.+)/g',
  ]),
];
