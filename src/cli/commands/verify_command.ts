import { agoText, timeText } from '../../domain/clocks.ts';
import { printable } from '../../domain/printable.ts';
import { parseRemovals, type Removals } from '../../domain/removals.ts';
import type { HeadFile } from '../../domain/seal_chain.ts';
import { parseStrictly } from '../../domain/strict_json.ts';
import { faultLine } from '../../fault.ts';
import { verifierKeys } from '../../proof/log_key.ts';
import { decode } from '../../proof/note.ts';
import { type Policy, parsePolicy } from '../../proof/policy.ts';
import { exportLog } from '../../store/export_log.ts';
import { oneLine } from '../../store/problems.ts';
import { OtherSchema, schemaOf } from '../../store/schema_version.ts';
import { type Kept, witnessKeys } from '../../store/signed_notes.ts';
import { type Verification, VerifyEnded, type VerifyOptions, verify } from '../../store/verify.ts';
import { type FileOptions, type FileVerification, verifyFile } from '../../store/verify_file.ts';
import { type Command, CommandFailed, type Context, JSON_OPTION, UsageError } from '../command.ts';
import { logKey, oldSigner } from '../installation_keys.ts';
import { readOption } from '../read_text.ts';
import { type Asked, askWitnesses } from '../verify_witnesses.ts';

export const command: Command = {
  summary:
    'check that nobody changed the log, and that everything else follows from it; with a policy, prove it; exit 1 if not',
  words: [{ name: 'FILE', help: 'check an exported log, without a database', optional: true }],
  options: {
    policy: { value: 'FILE', help: 'whom to believe: `./runledger policy` prints one' },
    removals: { value: 'FILE', help: 'what retention may have removed; without it: nothing' },
    checkpoint: {
      value: 'FILE',
      help: 'prove the log against this checkpoint, too; `./runledger seal` prints one',
    },
    export: {
      value: 'FILE',
      help: 'write the log to this file, and check nothing; cosignatures of the witnesses in the policy come first',
    },
    offline: {
      help: 'for a restored dump or an earlier copy: do not ask the witnesses of the policy, and let events be old that are not sealed',
    },
    head: {
      value: 'FILE',
      help: 'prove the log against this head, from before there were checkpoints',
    },
    signer: {
      value: 'KEY,...',
      help: 'public keys that may have signed the head, besides our own',
    },
    json: JSON_OPTION,
  },
  example: 'verify --policy policy.txt --checkpoint checkpoint.json',
  async run(context) {
    const options = await optionsOf(context);
    const [file] = context.words;
    if (file !== undefined) {
      const unused = ['export', 'head', 'signer'].find((name) => name in context.options);
      if (unused) throw new UsageError(`--${unused} is for a database, and not for a FILE`);
      return answer(context, await checkFile(file, options), fileLines);
    }
    const db = await context.database({ unpinned: true, any_schema: true });
    const schema = await schemaOf(db);
    // Who can change the log can also change this row. So verify goes on, and finds what there is.
    if (schema instanceof OtherSchema) context.say(faultLine(schema));
    const target = context.options['export'];
    if (typeof target === 'string') {
      const { entries, bytes, sha256 } = await exportLog(db, target, [
        ...witnessKeys(options),
        ...(context.config.witnesses ?? []).map(({ key }) => key),
      ]);
      context.answer(`${entries} events in ${bytes} bytes; SHA-256 ${sha256}`);
      return 0;
    }
    const signers = await signersOf(context);
    const live = !context.options['offline'];
    const head = await readHead(context);
    const report = await verify(db, { ...options, live, head, signers }).catch(asFailure);
    const asked = live
      ? await askWitnesses(db, options.policy, report.newest, report.earlier).catch((error) =>
          asFailure(beside(error, report.problems)),
        )
      : { problems: [], unanswered: [] };
    return answer(context, withWitnesses(report, asked), linesOf);
  },
};

/** Who runs the database can end this connection, too. It must not hide what was found before. */
function beside(error: unknown, problems: readonly string[]): unknown {
  if (!(error instanceof VerifyEnded)) return error;
  return new VerifyEnded(error.message, [...problems, ...error.problems], { cause: error });
}

/** What was found before verify could not go on counts. The last line says that it is not all. */
function asFailure(error: unknown): never {
  if (!(error instanceof VerifyEnded)) throw error;
  const { message, problems } = error;
  const found = problems.map((problem) => `found so far: ${problem}`);
  throw new CommandFailed([...found, message].map(printable).join('\n'));
}

async function optionsOf(context: Context) {
  const policy = await readOption<Policy>(context, 'policy', parsePolicy);
  const key = await logKey(context).catch(() => null);
  return {
    policy,
    keys: key ? verifierKeys(key) : [],
    removals: await readOption<Removals>(context, 'removals', parseRemovals),
    kept: await readOption<Kept>(context, 'checkpoint', parseKept),
  } satisfies VerifyOptions;
}

/** A file that is damaged is a problem of the log. One that cannot be opened or read is a mistake of the caller. */
async function checkFile(path: string, options: FileOptions): Promise<FileVerification> {
  try {
    return await verifyFile(path, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    throw new UsageError(`${path}: ${(error as Error).message}`);
  }
}

/** A note, or the JSON of `./runledger seal --sketch`. */
function parseKept(text: string): Kept {
  if (!text.startsWith('{')) return { note: text, sketch: null };
  const wrong = new UsageError('not a checkpoint; `./runledger seal` prints one');
  let json: { checkpoint?: unknown; sketch?: unknown; sketch_signature?: unknown };
  try {
    json = parseStrictly(text) as typeof json;
  } catch {
    throw wrong;
  }
  const { checkpoint, sketch, sketch_signature } = json;
  if (typeof checkpoint !== 'string') throw wrong;
  if (typeof sketch !== 'string' || typeof sketch_signature !== 'string') throw wrong;
  const [cells, signature] = [decode(sketch), decode(sketch_signature)];
  if (!cells || !signature) throw wrong;
  return { note: checkpoint, sketch: { cells, signature } };
}

function readHead(context: Context): Promise<HeadFile | null> {
  return readOption(context, 'head', (text) => {
    const wrong = new UsageError('not a head');
    try {
      const head = JSON.parse(text) as HeadFile;
      if (head?.format === 'runledger head 1') return head;
    } catch {
      // answered below
    }
    throw wrong;
  });
}

/** Our own key, and earlier ones that --signer names. */
async function signersOf(context: Context): Promise<string[]> {
  const named = context.options['signer'];
  const own = (await oldSigner(context))?.name;
  return [...(own ? [own] : []), ...(typeof named === 'string' ? named.split(',') : [])];
}

function withWitnesses(report: Verification, { problems: asked, unanswered }: Asked): Verification {
  const unchecked = [...report.unchecked, ...unanswered];
  if (asked.length === 0) return { ...report, unchecked };
  const problems = [...asked, ...report.problems];
  const checkpoints = (report.problem_counts['checkpoints'] ?? 0) + asked.length;
  return {
    ...report,
    ...{
      well: false,
      proven: null,
      unproven: null,
      first_difference: problems[0]!,
      problems,
      unchecked,
    },
    problem_counts: { ...report.problem_counts, checkpoints },
  };
}

function answer<T extends Verification | FileVerification>(
  context: Context,
  report: T,
  lines: (report: T) => string[],
): number {
  const { unchecked } = report;
  const verdict = verdictOf(report);
  if (report.well && unchecked.length > 0) verdict.push(`${verdict.pop()}; not checked: see above`);
  context.answer(context.json ? report : [...lines(report), ...verdict].map(printable).join('\n'));
  return report.well ? 0 : 1;
}

function linesOf(report: Verification): string[] {
  const { seals, comparisons, payloads } = report;
  const rows = comparisons.reduce((sum, { rows }) => sum + rows, 0);
  const lines = [
    ...eventLines(report),
    `${payloads.rows} payloads and ${rows} derived rows compared with the log`,
  ];
  if (payloads.purged > 0) lines.push(`${payloads.purged} payloads were purged`);
  lines.push(...changeLines(report), ...uncheckedLines(report));
  if (seals?.head)
    lines.push(
      `head ${seals.head.number} over ${seals.head.total} events: ${headVerdict(seals.head)}`,
    );
  return lines;
}

function headVerdict({ found, proven }: { found: boolean; proven: boolean }): string {
  if (proven) return 'proven';
  return found
    ? 'the log has it, not proven: nobody checked its signature; name the key with --signer'
    : 'NOT PROVEN';
}

const fileLines = (report: FileVerification): string[] => [
  ...eventLines(report),
  ...changeLines(report),
  ...uncheckedLines(report),
];

const uncheckedLines = ({ unchecked }: FileVerification): string[] =>
  unchecked.map((what) => `not checked: ${what}`);

/** What was done to the log as a whole. */
const changeLines = ({ detached, repaired }: FileVerification): string[] => [
  ...(detached.length > 0 ? [oneLine(`detached by retention: ${detached.join(', ')}`)] : []),
  ...repaired.map((repair) => `repaired: ${repair}`),
];

function eventLines(report: FileVerification): string[] {
  const { events, sealed, unsealed, oldest_unsealed_at: oldest, checkpoints } = report;
  const since = oldest ? `, the oldest of ${agoText(oldest.getTime(), Date.now())}` : '';
  return [
    `${events} events; ${checkpoints} checkpoints, the newest over ${sealed} leaves; ${unsealed} events not sealed yet${since}`,
  ];
}

function verdictOf(report: FileVerification): string[] {
  const { proven, unproven, unaccepted, problems, problem_counts } = report;
  if (problems.length > 0) {
    const counts = Object.entries(problem_counts).map(([name, count]) => `${name} ${count}`);
    return [
      `first difference: ${problems[0]}`,
      ...problems.slice(1),
      `NOT as it was: problems of ${counts.join(', ')}`,
    ];
  }
  if (!proven) return [`consistent, not proven: ${unproven}`];
  const { size, origin, cosigned_at, witnesses } = proven;
  const by =
    witnesses.length > 0 ? `, cosigned by ${witnesses.join(', ')}` : ', cosigned by nobody';
  const when = cosigned_at ? ` of ${timeText(cosigned_at)}` : '';
  const behind = unaccepted ? `, and not the ${unaccepted.leaves} leaves sealed behind it` : '';
  return [`proven up to leaf ${size} (checkpoint${when} of ${origin}${by})${behind}`];
}
