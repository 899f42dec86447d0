import { readFile } from 'node:fs/promises';
import type { HeadFile } from '../../domain/seal_chain.ts';
import { type Verification, verify } from '../../store/verify.ts';
import { type Command, type Context, JSON_OPTION, UsageError } from '../command.ts';
import { oldSigner } from '../signing.ts';

export const command: Command = {
  summary:
    'prove that the log is complete and unchanged since it was sealed, and that all derived tables match it; exit 1 if not',
  options: {
    head: { value: 'FILE', help: 'prove the log against this signed head, too' },
    signer: { value: 'KEY,...', help: 'public keys of earlier signers to accept besides our own' },
    json: JSON_OPTION,
  },
  example: 'verify --head head.json',
  async run(context) {
    const head = await readHead(context.options['head']);
    const report = await verify(await context.database(), {
      head,
      signers: await signersOf(context),
    });
    if (context.json) context.answer(report);
    else context.answer(linesOf(report).join('\n'));
    return report.well ? 0 : 1;
  },
};

async function readHead(path: string | boolean | undefined): Promise<HeadFile | null> {
  if (typeof path !== 'string') return null;
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new UsageError(`--head ${path}: ${error.message}`);
  });
  const wrong = new UsageError(`--head ${path}: not a head; \`./runledger seal\` prints one`);
  try {
    const head = JSON.parse(text) as HeadFile;
    if (head?.format !== 'runledger head 1') throw wrong;
    return head;
  } catch {
    throw wrong;
  }
}

/** Our own key, and earlier ones that --signer names. */
async function signersOf(context: Context): Promise<string[]> {
  const named = context.options['signer'];
  const own = (await oldSigner(context))?.name;
  return [...(own ? [own] : []), ...(typeof named === 'string' ? named.split(',') : [])];
}

const PROBLEMS_SHOWN = 20;

function linesOf({ well, events, problems, seals, comparisons }: Verification): string[] {
  const { head } = seals;
  const lines = [
    `${events} events, ${seals.sealed_events} sealed in ${seals.seals} seals, ${seals.unsealed_events} not sealed yet`,
    `${comparisons.reduce((sum, { rows }) => sum + rows, 0)} derived rows compared with the log`,
  ];
  if (head) {
    const proven = head.proven ? 'proven' : 'NOT PROVEN';
    lines.push(`head ${head.number} over ${head.total} events: ${proven}`);
  }
  if (seals.detached.length > 0) lines.push(`detached by retention: ${seals.detached.join(', ')}`);
  if (well) return [...lines, 'all is well'];
  const more = problems.length - PROBLEMS_SHOWN;
  const rest = more > 0 ? [`… and ${more} more`] : [];
  return [
    ...lines,
    `first difference: ${problems[0]}`,
    ...problems.slice(1, PROBLEMS_SHOWN),
    ...rest,
  ];
}
