/** The log: how far it is sealed, its checkpoints, and what operators did. */

import { durationText } from '../../domain/units_text.ts';
import type { ShownLog } from '../../store/console.ts';
import { unsealedText } from '../../store/service_health.ts';
import { CONSOLE, consolePage, submissionLink, table, terms, time } from './console_page.ts';
import type { ConsoleCall } from './console_parts.ts';
import { html } from './markup.ts';

const PATH = '/log';

export const logPage: ConsoleCall = {
  path: PATH,
  kind: 'page',
  async handler({ store, live }, visit) {
    const { lag, checkpoints, operators, commands } = await store.log(visit.asking);
    const log = live.log();
    const seconds = (value: number | null) => durationText(value && value * 1e6);
    return consolePage(visit, {
      title: 'Log',
      section: PATH,
      main: html`${log.problem !== null && html`<p class="problem" role="alert">This process signs no checkpoints: ${log.problem}</p>`}
${terms([
  ['events that no checkpoint covers', unsealedText(lag)],
  ['the oldest of them is from', html`${seconds(lag.unsealed_s)} ago`],
  ['age of the newest checkpoint', seconds(lag.checkpoint_age_s)],
])}
${table('Witnesses', WITNESS_COLUMNS, log.witnesses)}
${table('Checkpoints', CHECKPOINT_COLUMNS, checkpoints)}
${table('Commands', COMMAND_COLUMNS, commands)}
${table('Operators', OPERATOR_COLUMNS, operators)}`,
    });
  },
};

type Witness = {
  readonly name: string;
  readonly cosigned: { readonly behind: number; readonly behind_s: number } | null;
  readonly problem: string | null;
};

const WITNESS_COLUMNS = [
  { name: 'name', cell: ({ name }: Witness) => name },
  {
    name: 'leaves behind',
    kind: 'number' as const,
    cell: ({ cosigned }: Witness) => cosigned?.behind ?? '–',
  },
  {
    name: 'for',
    kind: 'number' as const,
    cell: ({ cosigned }: Witness) => durationText(cosigned && cosigned.behind_s * 1e6),
  },
  { name: 'problem', cell: ({ problem }: Witness) => problem ?? '–' },
];

type Checkpoint = ShownLog['checkpoints'][number];

const CHECKPOINT_COLUMNS = [
  { name: 'signed (UTC)', cell: ({ sealed_at }: Checkpoint) => time(sealed_at) },
  { name: 'leaves', kind: 'number' as const, cell: ({ size }: Checkpoint) => size },
  {
    name: 'cosignatures',
    kind: 'number' as const,
    cell: ({ cosignatures }: Checkpoint) => cosignatures,
  },
  {
    name: 'root',
    kind: 'wide' as const,
    cell: ({ root }: Checkpoint) => html`<span class="id">${root}</span>`,
  },
  { name: 'log', kind: 'wide' as const, cell: ({ origin }: Checkpoint) => origin },
];

type Command = ShownLog['commands'][number];

const COMMAND_COLUMNS = [
  { name: 'at (UTC)', cell: ({ at }: Command) => time(at) },
  { name: 'by', cell: ({ actor }: Command) => actor },
  { name: 'event', cell: ({ type }: Command) => type },
  { name: 'of', cell: ofCommand },
  {
    name: 'facts',
    kind: 'wide' as const,
    cell: ({ facts }: Command) =>
      Object.entries(facts)
        .map(
          ([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : value}`,
        )
        .join(', '),
  },
];

function ofCommand({ submission_id, account_id }: Command) {
  if (submission_id !== null) return submissionLink(submission_id);
  return account_id && html`<a href="${CONSOLE}/accounts/${account_id}">account</a>`;
}

type Operator = ShownLog['operators'][number];

const OPERATOR_COLUMNS = [
  { name: 'name', cell: ({ name }: Operator) => name },
  { name: 'created (UTC)', cell: ({ created_at }: Operator) => time(created_at) },
  { name: 'revoked (UTC)', cell: ({ revoked_at }: Operator) => time(revoked_at) },
  { name: 'sessions', kind: 'number' as const, cell: ({ sessions }: Operator) => sessions },
];
