/**
 * Judges an example submission with the bare commands of this machine, as the documents of the format say it. It is no part
 * of the service and shares only the pure rules with it, so the two can be compared.
 *
 * Nothing here depends on time: a program has a minute, but for one that its package expects to be too slow.
 */
import { execFile, spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Verdict } from '../../src/domain/verdicts.ts';
import { type CheckerEnd, checkerEnd } from '../../src/judging/checker_end.ts';
import { equalOutput } from '../../src/judging/compare.ts';
import { groupTree } from '../../src/judging/groups.ts';
import type { ExampleSubmission } from '../../src/judging/packages/example_submissions.ts';
import type { Program } from '../../src/judging/packages/programs.ts';
import type { CheckedPackage } from '../../src/judging/packages/read_package.ts';
import type { JudgedSubmission } from '../../src/judging/packages/submission_check.ts';
import { scoreOf } from '../../src/judging/score.ts';
import { needs } from '../../src/judging/stopping.ts';
import type { Group, SetTest } from '../../src/judging/test_set.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';

/** Not the first one in PATH: that can be a script, which takes longer to start than most of these programs run. */
const PYTHON = (await findToolchains()).toolchains.get('python')?.at ?? 'python3';
/** With these a short run takes half of the CPU time. */
const SHORT_JVM = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];

export type Named = { stdin_file?: string; stdout_file?: string };
type Bytes = (sha256: string) => Uint8Array;
type Run = { code: number | null; signal: string | null; late: boolean; stdout: Buffer };

export class BareJudge {
  readonly #read: CheckedPackage;
  readonly #bytes: Bytes;
  readonly #named: Named;
  readonly #folder: string;
  /** the validator, and its arguments behind those of the protocol */
  #judge: { argv: string[]; args: string[] } | null = null;

  private constructor(read: CheckedPackage, bytes: Bytes, named: Named, folder: string) {
    this.#read = read;
    this.#bytes = bytes;
    this.#named = named;
    this.#folder = folder;
  }

  static async open(read: CheckedPackage, bytes: Bytes, named: Named): Promise<BareJudge> {
    const judge = new BareJudge(read, bytes, named, await mkdtemp(join(tmpdir(), 'bare-judge-')));
    const program = read.set.checker ?? read.set.interactor;
    if (program !== null) judge.#judge = { argv: await judge.#build(program), args: program.args };
    return judge;
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }

  async judge({ path, program }: ExampleSubmission): Promise<JudgedSubmission> {
    if (program === null) throw new Error(`${path} has no program`);
    const { set } = this.#read;
    const argv = await this.#build(program);
    const late_ms = path.startsWith('time_limit_exceeded/') ? 500 : 60_000;
    const verdicts: (Verdict | null)[] = set.tests.map(() => null);
    const outcomes: Outcome[] = [];
    const stop = set.scoring === 'score' ? 'first' : 'never';
    for (const [index, test] of set.tests.entries()) {
      const root = groupTree(set.groups, set.tests);
      const skip = needs(root, set.tests, verdicts, stop)[index] === 'skip';
      const found = skip ? NOT_RUN : await this.#test(test, argv, late_ms);
      verdicts[index] = found.verdict;
      outcomes.push({ n: index + 1, name: test.name, group: test.group, ...found });
    }
    const first = outcomes.find(({ verdict }) => verdict !== null && verdict !== 'AC');
    const { score, problem } = scoreOf(set, outcomes);
    if (problem !== null) throw new Error(problem);
    return { verdict: first?.verdict ?? 'AC', score, tests: outcomes };
  }

  async #build({ language, source, files }: Program): Promise<string[]> {
    const folder = await mkdtemp(join(this.#folder, 'program-'));
    for (const { path, file } of files) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), this.#bytes(file.sha256));
    }
    const sources = (...endings: string[]) =>
      files.map(({ path }) => path).filter((path) => endings.includes(extname(path)));
    const build = (command: string, ...args: string[]) =>
      promisify(execFile)(command, args, { cwd: folder });
    if (language === 'python') return [PYTHON, join(folder, source)];
    if (language === 'java') {
      await build('javac', ...SHORT_JVM.map((flag) => `-J${flag}`), ...sources('.java'));
      return ['java', ...SHORT_JVM, '-cp', folder, basename(source, '.java')];
    }
    await build('g++', '-std=gnu++17', '-o', 'program', ...sources('.cpp', '.cc'));
    return [join(folder, 'program')];
  }

  async #test(test: SetTest, argv: string[], late_ms: number): Promise<Found> {
    const { set } = this.#read;
    const place = await mkdtemp(join(this.#folder, 'test-'));
    const given = { input: join(place, 'input'), answer: join(place, 'answer') };
    await writeFile(given.input, this.#bytes(test.input.sha256));
    await writeFile(given.answer, this.#bytes(test.answer.sha256));
    await mkdir(join(place, 'feedback'));
    const group = set.groups.find(({ name }) => name === test.group)!;
    const args = test.checker_args ?? group.args;
    const { argv: validator = [], args: flags = [] } = this.#judge ?? {};
    const feedback = `${join(place, 'feedback')}/`;
    let input = given.input;
    for (let pass = 1; ; pass += 1) {
      const full = [...validator, input, given.answer, feedback, ...flags, ...args];
      const work = await mkdtemp(join(place, 'work-'));
      const interactor = set.interactor === null ? null : full;
      const [ran, judged] = await this.#pass(test, argv, input, work, late_ms, interactor);
      const crash = crashOf(ran);
      if (crash !== null && (set.interactor === null || ran.late)) return { ...NOT_RUN, ...crash };
      if (this.#judge === null) return this.#compared(test, work, ran);
      const end = judged ?? (await spawned(full, place, await this.#output(work, ran), 60_000));
      const found = await this.#ended(end, place, group, pass);
      if (found.kind === 'failed') throw new Error(`${test.name}: ${found.message}`);
      const { message, points: score } = found;
      if (found.kind === 'wrong') {
        return { verdict: 'WA', message, score: null, exit_code: ran.code, signal: ran.signal };
      }
      if (crash !== null) return { ...NOT_RUN, ...crash };
      if (!found.next_pass) return { verdict: 'AC', message, score };
      input = join(place, `pass-${pass + 1}.in`);
      await cp(join(place, 'feedback', 'nextpass.in'), input);
      await rm(join(place, 'feedback', 'nextpass.in'));
    }
  }

  async #pass(
    test: SetTest,
    argv: string[],
    input: string,
    work: string,
    late_ms: number,
    interactor: string[] | null,
  ): Promise<[program: Run, interactor: Run | null]> {
    const command = [...argv, ...(test.args ?? [])];
    const bytes = await readFile(input);
    if (this.#named.stdin_file) await writeFile(join(work, this.#named.stdin_file), bytes);
    if (interactor === null) return [await spawned(command, work, bytes, late_ms), null];
    return await talking(command, interactor, work, late_ms);
  }

  async #output(work: string, run: Run): Promise<Buffer> {
    const { stdout_file } = this.#named;
    if (stdout_file === undefined) return run.stdout;
    const left = (await readdir(work)).includes(stdout_file);
    return left ? await readFile(join(work, stdout_file)) : Buffer.alloc(0);
  }

  async #compared(test: SetTest, work: string, run: Run): Promise<Found> {
    const answer = this.#bytes(test.answer.sha256);
    const compare = test.compare ?? this.#read.set.compare;
    const equal = equalOutput(compare, await this.#output(work, run), answer);
    return { ...NOT_RUN, verdict: equal ? 'AC' : 'WA' };
  }

  async #ended(run: Run, place: string, group: Group, pass: number): Promise<CheckerEnd> {
    const { set } = this.#read;
    const feedback = new Map<string, Uint8Array>();
    for (const name of await readdir(join(place, 'feedback'))) {
      feedback.set(name, await readFile(join(place, 'feedback', name)));
    }
    return checkerEnd({
      role: set.interactor === null ? 'checker' : 'interactor',
      protocol: 'icpc',
      judgement: { verdict: 'RE', exit_code: run.code, signal: run.signal, limit_exceeded: null },
      stderr: new Uint8Array(),
      stderr_end: new Uint8Array(),
      feedback,
      scoring:
        set.scoring === 'score'
          ? { accept_score: group.accept_score, only_beside_42: false }
          : null,
      unchanged: new Set(),
      passes_left: set.passes > 1 ? set.passes - pass : null,
    });
  }
}

type Found = {
  verdict: Verdict | null;
  message: string | null;
  score: number | null;
  exit_code?: number | null;
  signal?: string | null;
};
type Outcome = Found & { n: number; name: string; group: string };
const NOT_RUN: Found = { verdict: null, message: null, score: null };

function crashOf({ code, signal, late }: Run): { verdict: Verdict } | null {
  if (late) return { verdict: 'TLE' };
  if (signal !== null) return { verdict: 'SIG' };
  return code === 0 ? null : { verdict: 'RE' };
}

function start([command, ...args]: string[], cwd: string, late_ms: number) {
  const child = spawn(command!, args, { cwd, stdio: ['pipe', 'pipe', 'ignore'] });
  // A program may end before it has read its input.
  child.stdin.on('error', () => {});
  const output: Buffer[] = [];
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, late_ms);
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  const ended = new Promise<Run>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, late, stdout: Buffer.concat(output) });
    });
  });
  return { child, ended };
}

async function spawned(argv: string[], cwd: string, input: Uint8Array, late_ms: number) {
  const { child, ended } = start(argv, cwd, late_ms);
  child.stdin.end(input);
  return await ended;
}

async function talking(
  argv: string[],
  interactor: string[],
  work: string,
  late_ms: number,
): Promise<[Run, Run]> {
  const judge = start(interactor, work, 60_000);
  const program = start(argv, work, late_ms);
  program.child.stdout.pipe(judge.child.stdin);
  judge.child.stdout.pipe(program.child.stdin);
  const run = await program.ended;
  if (run.late) judge.child.kill('SIGKILL');
  return [run, await judge.ended];
}
