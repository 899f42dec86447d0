/**
 * The checker or the interactor of an execution: compiled once, and run on each test in a box of its own, under its own
 * limits. It is a customer's code like any other. Whatever it does wrong ends in a CheckerEnd that failed, and never counts
 * against the program that it judges.
 *
 * Its box has its own files in the work folder, the test's input and answer, and a folder for what it leaves. Contents of
 * a test set are mounted; the others are files below a folder whose name none of its own files has.
 */

import type { LeftFile } from '../domain/judged_record.ts';
import {
  type LimitOverrides,
  type LimitPolicy,
  limitsFor,
  type RunLimits,
  type RuntimeNeeds,
} from '../domain/limits.ts';
import { judge as judgeRun, type RuntimeMemory } from '../domain/verdict.ts';
import {
  type CheckerEnd,
  type CheckerRun,
  checkerEnd,
  FEEDBACK_FILES,
  MESSAGE_BYTES,
  MESSAGE_FILES,
  messageText,
} from '../judging/checker_end.ts';
import type { JudgeProgram as JudgeOrder, Judging } from '../judging/judging.ts';
import { SECOND_LOAD_FOLDER, WORK_FOLDER } from '../languages/common/box.ts';
import { cutDiagnostics } from './compile_limits.ts';
import type { BoxContent, HeldContents } from './held_contents.ts';
import { Unsendable } from './launcher_wire.ts';
import { Program, type ProgramParts, type ProgramRun } from './program.ts';
import type { RunReport } from './sandbox.ts';

const MiB = 1024 * 1024;
/** So many folders deep may be what a checker leaves for its next pass. */
const STATE_DEPTH = 8;
const OF_ANY_DEPTH = Array.from({ length: STATE_DEPTH + 1 }, (_, n) => `${'*/'.repeat(n)}*`);

/** Of a checker that names none. An operator's bounds apply. */
const JUDGE_LIMITS: LimitOverrides = {
  cpu_time_ms: 15_000,
  memory_bytes: 512 * MiB,
  output_bytes: 4 * MiB,
};

/** Twice its CPU time if that is more. */
const JUDGE_WALL_MS = 30_000;

function judgeLimits(needs: RuntimeNeeds, own: LimitOverrides | null, policy: LimitPolicy) {
  const asked = { ...JUDGE_LIMITS, ...own };
  const { cpu_ms } = limitsFor(needs, asked, policy);
  const wall_time_ms = Math.max(JUDGE_WALL_MS, 2 * cpu_ms);
  return limitsFor(needs, { wall_time_ms, ...asked }, policy);
}

/** What it may leave in its folder. The input of a next pass is among it. */
const FEEDBACK_BYTES = 1 * MiB;
const FEEDBACK_BYTES_OF_PASSES = 4 * MiB;
const FEEDBACK_MOST_FILES = 64;
/** Many checkers quote what the program printed. The record has less of a message than this (MESSAGE_BYTES). */
const MESSAGE_KEPT_BYTES = 64 * 1024;
/** The most output that a program with a checker may have: a request to the launcher has room for it, besides its files. */
export const CHECKED_OUTPUT_BYTES = 8 * MiB;

/**
 * Many checkers print what the program printed. If their words could tell that memory ran out, a program could choose such
 * words and turn its wrong answer into a failure of the service. So only how a checker ends tells it: the kernel kills it, a
 * signal ends it, or Java exits with a code of its own (`fails_at_full_heap`).
 */
const SAYS_NOTHING: RuntimeMemory = { out_of_memory_words: [] };

export type Role = 'checker' | 'interactor';

/** What it judges: one pass of a test. */
export type JudgedPass = {
  input: BoxContent;
  answer: BoxContent | null;
  /** null for an interactor, which reads what the program prints */
  output: Uint8Array | null;
  args: readonly string[];
  /** what it left in the pass before */
  left: readonly LeftFile[];
};

export type JudgeParts = ProgramParts & { policy: LimitPolicy };

/** Null where the judging has neither. Its sources are read; it is not compiled yet. */
export async function judgeOf(
  parts: JudgeParts,
  account_id: string,
  judging: Judging,
  contents: HeldContents,
): Promise<Judge | null> {
  const { checker, interactor, passes } = judging;
  const order = interactor ?? checker;
  if (order === null) return null;
  const files = await Promise.all(
    order.files.map(async ({ path, content }) => ({
      path,
      bytes: await contents.bytesOf(content),
    })),
  );
  const program = new Program(parts, {
    account_id,
    language: order.language,
    ...sourcesOf(order, files, parts.toolchains.get(order.language)?.language.source),
  });
  const role = interactor === null ? 'checker' : 'interactor';
  return new Judge(parts, program, order, role, passes);
}

/** A single file gets the name that the language has for it: only then can it be started in the fastest way. */
function sourcesOf({ source }: JudgeOrder, files: readonly LeftFile[], usual = source) {
  const main = files.find(({ path }) => path === source);
  if (main === undefined) throw new Error('the main source of a checker is not one of its files');
  const others = files.filter((file) => file !== main);
  return { main: others.length === 0 ? usual : source, code: main.bytes, others };
}

export class Judge {
  readonly role: Role;
  readonly program: Program;
  readonly #order: JudgeOrder;
  readonly #limits: RunLimits;
  readonly #degraded: boolean;
  readonly #passes: number;
  /** its folder for what is not its own, below the work folder */
  readonly #folder: string;

  constructor(
    { policy, sandbox }: JudgeParts,
    program: Program,
    order: JudgeOrder,
    role: Role,
    passes: number,
  ) {
    this.role = role;
    this.program = program;
    this.#order = order;
    this.#degraded = sandbox.isolation.degraded;
    this.#passes = passes;
    this.#folder = unusedName('.judging', program.paths);
    const { needs } = program.installed.language;
    this.#limits = judgeLimits(needs, order.limits, policy);
  }

  /** Null, or the message that it cannot judge. */
  async prepare(signal: AbortSignal): Promise<string | null> {
    try {
      if (await this.program.prepare(signal)) return null;
    } catch (error) {
      return this.notSent(error).message;
    }
    const said = cutDiagnostics(this.program.compiled!, MESSAGE_BYTES).bytes;
    return `the ${this.role} does not compile:\n${messageText(said)}`;
  }

  runOn({ input, answer, output, args, left }: JudgedPass): ProgramRun {
    const { protocol, args: own_args } = this.#order;
    const placed = [
      this.#place('input', input),
      this.#place('answer', answer ?? { bytes: new Uint8Array() }),
    ];
    const [input_path, answer_path] = placed.map(({ path }) => path) as [string, string];
    const files = placed.flatMap(({ file }) => file ?? []);
    const load = placed.flatMap(({ loaded }) => loaded ?? []);
    const common = { limits: this.#limits, load, fails_at_full_heap: true };
    if (protocol === 'testlib') {
      const out = this.#place('output', { bytes: output ?? new Uint8Array() });
      return {
        ...common,
        args: [input_path, out.path, answer_path, ...own_args, ...args],
        files: [...files, out.file!],
      };
    }
    const feedback = `${this.#folder}/feedback`;
    const kept = left.map(({ path, bytes }) => ({ path: `${feedback}/${path}`, bytes }));
    return {
      ...common,
      // The format says that the name of the folder ends with a slash.
      args: [input_path, answer_path, `${WORK_FOLDER}/${feedback}/`, ...own_args, ...args],
      files: [...files, ...kept],
      folders: [feedback],
      ...(output !== null && { stdin: output }),
      keep: {
        patterns: this.#kept().map((name) => `${feedback}/${name}`),
        max_bytes: this.#passes > 1 ? FEEDBACK_BYTES_OF_PASSES : FEEDBACK_BYTES,
        max_files: FEEDBACK_MOST_FILES,
        cut: { patterns: MESSAGE_FILES.length, bytes: MESSAGE_KEPT_BYTES },
        refuses_others: true,
      },
    };
  }

  /** What it left in its folder; for the next pass. */
  leftBy({ kept = [] }: RunReport): LeftFile[] {
    const start = `${this.#folder}/feedback/`;
    return kept
      .filter(({ path }) => path.startsWith(start))
      .map(({ path, bytes }) => ({ path: path.slice(start.length), bytes }));
  }

  /** `run` is the one that was sent: an interactor has more time than its own limit. */
  endOf(
    report: RunReport,
    { limits }: Pick<ProgramRun, 'limits'>,
    { left, ...rules }: Pick<JudgedPass, 'left'> & Pick<CheckerRun, 'scoring' | 'passes_left'>,
  ): CheckerEnd {
    if (report.keep_refused !== undefined)
      return this.failed(`left files that cannot be read: ${report.keep_refused}`);
    const judgement = judgeRun({
      compile: null,
      run: report,
      limits,
      isWrong: null,
      runtime: SAYS_NOTHING,
      degraded: this.#degraded,
    });
    const feedback = new Map(this.leftBy(report).map(({ path, bytes }) => [path, bytes]));
    return checkerEnd({
      role: this.role,
      protocol: this.#order.protocol,
      judgement,
      stderr: report.stderr,
      stderr_end: report.stderr_end ?? new Uint8Array(),
      feedback,
      unchanged: new Set(left.filter((file) => isSame(feedback, file)).map(({ path }) => path)),
      ...rules,
    });
  }

  failed(reason: string): CheckerEnd {
    const message = `the ${this.role} ${reason}`;
    return { kind: 'failed', message, team_message: '', points: null, next_pass: false };
  }

  /** A request that cannot be sent, because of its size, is the mistake of the judge. Every other error is the caller's. */
  notSent(error: unknown): CheckerEnd {
    if (!(error instanceof Unsendable)) throw error;
    return this.failed(`cannot be run: ${error.message}`);
  }

  release(): void {
    this.program.release();
  }

  /** A state of its own may be in the folder, if there are several passes. */
  #kept(): readonly string[] {
    return this.#passes > 1 ? [...FEEDBACK_FILES, ...OF_ANY_DEPTH] : FEEDBACK_FILES;
  }

  #place(name: string, content: BoxContent) {
    if ('key' in content) {
      const path = `${SECOND_LOAD_FOLDER}/${name}`;
      return { path, loaded: { key: content.key, at: path } };
    }
    const path = `${this.#folder}/${name}`;
    return { path: `${WORK_FOLDER}/${path}`, file: { path, bytes: content.bytes } };
  }
}

function isSame(feedback: ReadonlyMap<string, Uint8Array>, { path, bytes }: LeftFile): boolean {
  const now = feedback.get(path);
  return now !== undefined && Buffer.compare(now, bytes) === 0;
}

function unusedName(name: string, paths: readonly string[]): string {
  const is_used = paths.some((path) => path.split('/', 1)[0] === name);
  return is_used ? unusedName(`${name}_`, paths) : name;
}
