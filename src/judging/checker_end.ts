/**
 * Reads how the run of a checker or an interactor ended. Its protocol says what its exit code and its files mean.
 *
 * `icpc`, the problem package format's output validator: it exits with 42 for a right output and with 43 for a wrong one.
 * It may leave files in its feedback folder: messages for the judge and for the team, a score or a share of the test's
 * score, and, in a test of several passes, the input of the next pass. Only an output that is right has a score or a next
 * pass: beside 43, `nextpass.in` is a failure. So is a score by the newer versions of the format; in the legacy one it is
 * ignored.
 *
 * `testlib`: it exits with 0 for a right output, with 1 or 2 for a wrong one, with 3 for a failure of its own, and with 7
 * for points, which it prints on stderr as `points 12.5 message`, before anything else. Points above 0 make the output
 * right, 0 points make it wrong. Its message is what it printed on stderr.
 *
 * Every other end is a failure of the checker and never the program's fault: another exit code, a signal, a limit of its
 * own, a score that is no number.
 */
import type { Judgement } from '../domain/verdict.ts';
import { decimalFrom } from './decimals.ts';

export type CheckerEnd = {
  kind: 'right' | 'wrong' | 'failed';
  /** for the judge; empty if there is none */
  message: string;
  /** for the author of the program; empty if there is none */
  team_message: string;
  /** null: the group of the test says what it scores */
  points: number | null;
  /** The program runs again, with `nextpass.in` as its input. */
  next_pass: boolean;
};

export type CheckerRun = {
  role: 'checker' | 'interactor';
  protocol: 'icpc' | 'testlib';
  /** of its own run, under its own limits */
  judgement: Pick<Judgement, 'verdict' | 'exit_code' | 'signal' | 'limit_exceeded'>;
  stderr: Uint8Array;
  /** Where stderr has more than is kept: its last bytes. */
  stderr_end: Uint8Array;
  /** The files that it left, by name: those of FEEDBACK_FILES, or less. */
  feedback: ReadonlyMap<string, Uint8Array>;
  /** Those of them that were there before, from an earlier pass, and are the same still. */
  unchanged: ReadonlySet<string>;
  /** Without scoring, outputs have no scores. */
  scoring: {
    /** of a right output without a score of its own, null where only the checker can say it */
    accept_score: number | null;
    /** A score beside 43 is a failure. */
    only_beside_42: boolean;
  } | null;
  /** How many passes may follow this one; null for a test of one pass. */
  passes_left: number | null;
};

const JUDGE_MESSAGE = 'judgemessage.txt';
const TEAM_MESSAGE = 'teammessage.txt';
const SCORE = 'score.txt';
const MULTIPLIER = 'score_multiplier.txt';
export const NEXT_PASS = 'nextpass.in';
export const MESSAGE_FILES = [JUDGE_MESSAGE, TEAM_MESSAGE] as const;
export const FEEDBACK_FILES = [...MESSAGE_FILES, SCORE, MULTIPLIER, NEXT_PASS] as const;

/** A message is cut after this many bytes. */
export const MESSAGE_BYTES = 4_096;

export function checkerEnd(run: CheckerRun): CheckerEnd {
  const { verdict, exit_code } = run.judgement;
  if (verdict !== 'AC' && verdict !== 'RE') return failed(run, notByItself(run));
  return run.protocol === 'icpc' ? icpcEnd(run, exit_code) : testlibEnd(run, exit_code);
}

function notByItself({ judgement: { limit_exceeded, signal } }: CheckerRun): string {
  if (limit_exceeded !== null) return `exceeded its limit of ${limit_exceeded}`;
  return signal === null ? 'did not end by itself' : `was ended by ${signal}`;
}

function icpcEnd(run: CheckerRun, exit_code: number | null): CheckerEnd {
  const { feedback, unchanged, passes_left } = run;
  const next_pass = passes_left !== null && feedback.has(NEXT_PASS);
  if (exit_code !== 42 && exit_code !== 43) {
    return failed(run, `exited with ${exit_code}: right is 42 and wrong is 43`);
  }
  if (exit_code === 43) {
    if (next_pass) return failed(run, `left ${NEXT_PASS} and exited with 43`);
    const score = [SCORE, MULTIPLIER].find((name) => feedback.has(name) && !unchanged.has(name));
    if (run.scoring?.only_beside_42 && score !== undefined)
      return failed(run, `left ${score} and exited with 43`);
    return { ...messagesOf(run), kind: 'wrong', points: null, next_pass: false };
  }
  if (next_pass && passes_left === 0) return failed(run, 'asks for more passes than the set has');
  const read = next_pass || run.scoring === null ? null : pointsLeft(feedback, run.scoring);
  if (typeof read === 'string') return failed(run, read);
  return { ...messagesOf(run), kind: 'right', points: read, next_pass };
}

/** The score that the checker left, null for none, or what is wrong with it. */
function pointsLeft(
  feedback: CheckerRun['feedback'],
  { accept_score }: NonNullable<CheckerRun['scoring']>,
): number | null | string {
  const [score, multiplier] = [feedback.get(SCORE), feedback.get(MULTIPLIER)];
  if (score !== undefined && multiplier !== undefined) return `left ${SCORE} and ${MULTIPLIER}`;
  if (score !== undefined) return numberIn(score) ?? `left no number in ${SCORE}`;
  if (multiplier === undefined) return null;
  if (accept_score === null) return `left ${MULTIPLIER}, and the score of its test is unbounded`;
  const share = numberIn(multiplier);
  if (share === null || share < 0 || share > 1)
    return `left no number from 0 to 1 in ${MULTIPLIER}`;
  return share * accept_score;
}

/** In all of its bytes, white space around it aside. */
function numberIn(file: Uint8Array): number | null {
  return decimalFrom(Buffer.from(file).toString('utf8').trim());
}

const TESTLIB_KINDS: Readonly<Record<number, CheckerEnd['kind']>> = {
  0: 'right',
  1: 'wrong',
  2: 'wrong',
};

function testlibEnd(run: CheckerRun, exit_code: number | null): CheckerEnd {
  const messages = { message: messageText(run.stderr), team_message: '' };
  const kind = TESTLIB_KINDS[exit_code ?? -1];
  if (kind !== undefined) return { ...messages, kind, points: null, next_pass: false };
  if (exit_code === 3) return failed(run, 'reports a failure of its own (exit code 3)');
  if (exit_code !== 7) {
    return failed(run, `exited with ${exit_code}: right is 0, wrong is 1 or 2, points are 7`);
  }
  const points = pointsPrinted(run);
  if (typeof points === 'string') return failed(run, `exited with 7 and ${points}`);
  if (points === 0) return { ...messages, kind: 'wrong', points: null, next_pass: false };
  return { ...messages, kind: 'right', points: run.scoring && points, next_pass: false };
}

/**
 * The points, or what is wrong with them. testlib writes its message last on stderr: `points`, the number, a comment. A
 * careless checker prints words of the program before it, and the comment may hold such words, too, line breaks included. So
 * neither the first place nor the last one that looks like the message is the checker's for certain. The message has to begin
 * stderr, which a checker that prints nothing else always meets. Where anything else looks like it, one of the two may be the
 * program's: the first is believed only if it gives the least. So no words of a program raise its points.
 */
function pointsPrinted({ stderr, stderr_end }: CheckerRun): number | string {
  if (stderr_end.length > 0)
    return 'printed more on stderr than is kept, so its points may be lost';
  const text = Buffer.from(stderr).toString('latin1');
  const [, first = ''] = /^points (\S*)/.exec(text) ?? [];
  const points = decimalFrom(first);
  if (points === null || points < 0)
    return 'printed no points from 0 on stderr as the first thing there, as in `points 12.5`';
  // Words of the program may stand right before the message, without a line break or a blank.
  const all = [...text.matchAll(/points (?=(\S*))/g)].map(([, word]) => word!);
  if (all.some((word) => isLess(word, points)))
    return 'printed `points` twice on stderr: the later, which are less, may be the true ones';
  return points;
}

/** testlib prints digits after the word, or the name of what is no number. Other words are those of a comment. */
const isLess = (word: string, points: number): boolean =>
  Number.parseFloat(word) < points || /^[-+]?(nan|inf)|^message$/i.test(word);

function messagesOf({ feedback }: CheckerRun): { message: string; team_message: string } {
  return {
    message: messageText(feedback.get(JUDGE_MESSAGE)),
    team_message: messageText(feedback.get(TEAM_MESSAGE)),
  };
}

/** The message begins with the reason, and goes on with what the checker wrote itself. */
function failed(run: CheckerRun, reason: string): CheckerEnd {
  const written = messagesOf(run).message || messageText(run.stderr);
  const message = `the ${run.role} ${reason}${written === '' ? '' : `\n${written}`}`;
  return { kind: 'failed', message, team_message: '', points: null, next_pass: false };
}

/** The first bytes as text, with U+FFFD for what is not UTF-8. A character that the cut goes through is left out. */
export function messageText(bytes: Uint8Array = new Uint8Array()): string {
  const kept = bytes.subarray(0, MESSAGE_BYTES);
  const isCut = kept.length === MESSAGE_BYTES;
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(kept, { stream: isCut });
}
