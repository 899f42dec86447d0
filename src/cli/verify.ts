import { readFile } from 'node:fs/promises';
import { createSigner } from '../domain/seal_chain.ts';
import type { HeadFile } from '../store/seals.ts';
import type { Verification } from '../store/verify.ts';
import { type Command, CommandFailed, type Context, UsageError } from './command.ts';

export const verify: Command = {
  usage: '[--head FILE] [--signer KEY,...] [--json]',
  summary:
    'prove that the log is whole, that it is what was sealed, and that everything else is what the log tells',
  options: { head: { type: 'string' }, signer: { type: 'string' } },
  async run(context) {
    const { verify: verifyLog } = await import('../store/verify.ts');
    const head = await readHead(context.options['head']);
    const report = await verifyLog(await context.database(), { head, signers: signersOf(context) });
    if (context.json) context.answer(report);
    else context.answer(linesOf(report).join('\n'));
    return report.well ? 0 : 1;
  },
};

export const seal: Command = {
  usage: '> HEAD',
  summary: 'seal the log now and print the signed head; keep it where the database cannot reach it',
  async run(context) {
    const { headFile, seal: sealLog } = await import('../store/seals.ts');
    const db = await context.database();
    const signer = signerOf(context);
    if (!signer) context.say('RUNLEDGER_SEAL_KEY is not set: the head is not signed');
    await sealLog(db, signer);
    const head = await headFile(db);
    if (!head) throw new CommandFailed('there is nothing to seal yet');
    context.answer(head);
    return 0;
  },
};

async function readHead(path: string | boolean | undefined): Promise<HeadFile | null> {
  if (typeof path !== 'string') return null;
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new UsageError(`--head ${path}: ${error.message}`);
  });
  const wrong = new UsageError(`--head ${path}: not a head (\`runledger seal\` prints one)`);
  try {
    const head = JSON.parse(text) as HeadFile;
    if (head?.format !== 'runledger head 1') throw wrong;
    return head;
  } catch {
    throw wrong;
  }
}

const signerOf = ({ config }: Context) => (config.seal_key ? createSigner(config.seal_key) : null);

/** Our own key, and earlier ones that --signer names. */
function signersOf(context: Context): string[] {
  const named = context.options['signer'];
  const own = signerOf(context)?.name;
  return [...(own ? [own] : []), ...(typeof named === 'string' ? named.split(',') : [])];
}

const SHOWN = 20;

function linesOf({ well, events, problems, seals, comparisons }: Verification): string[] {
  const { head } = seals;
  const lines = [
    `${events} events, ${seals.sealed_events} sealed in ${seals.seals} seals, ${seals.unsealed_events} not sealed yet`,
    `${comparisons.reduce((sum, { rows }) => sum + rows, 0)} rows compared with what the log tells`,
  ];
  if (head)
    lines.push(
      `head ${head.number} over ${head.total} events: ${head.proven ? 'proven' : 'NOT PROVEN'}`,
    );
  if (seals.detached.length > 0)
    lines.push(`taken away by retention: ${seals.detached.join(', ')}`);
  if (well) return [...lines, 'all is well'];
  const rest = problems.length > SHOWN ? [`… and ${problems.length - SHOWN} more`] : [];
  return [...lines, `first difference: ${problems[0]}`, ...problems.slice(1, SHOWN), ...rest];
}
