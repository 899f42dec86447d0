/** The log: how far it is sealed, its checkpoints, and what operators did. */

import { durationText } from '../../domain/units_text.ts';
import { type LogPlace, PAGE_ROWS, type ShownCommand, type ShownLog } from '../../store/console.ts';
import { unsealedText } from '../../store/service_health.ts';
import {
  CONSOLE,
  consolePage,
  nextLink,
  submissionLink,
  table,
  terms,
  time,
} from './console_page.ts';
import type { ConsoleCall } from './console_parts.ts';
import { type Html, html, type Shown } from './markup.ts';

const PATH = '/log';
const COMMANDS = `${PATH}/commands`;

export const logPage: ConsoleCall = {
  path: PATH,
  kind: 'page',
  async handler({ store, live }, visit) {
    const [{ lag, checkpoints, operators }, commands] = await Promise.all([
      store.log(visit.asking),
      store.commands(visit.asking, { with_all: false, before: null }),
    ]);
    const log = live.log();
    const seconds = (value: number | null) => durationText(value && value * 1e6);
    return consolePage(visit, {
      title: 'Log',
      section: PATH,
      main: html`${log.problem !== null && html`<p class="problem" role="alert">This process signs no checkpoints: ${log.problem}</p>`}
${terms([
  ['events that no checkpoint covers', unsealedText(lag)],
  ['the oldest of them is from', lag.unsealed === 0 ? '–' : html`${seconds(lag.unsealed_s)} ago`],
  ['age of the newest checkpoint', seconds(lag.checkpoint_age_s)],
])}
${table('Witnesses', WITNESS_COLUMNS, log.witnesses)}
${table('Checkpoints', CHECKPOINT_COLUMNS, checkpoints)}
${commandList(commands, new URLSearchParams())}
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

const ALL = { name: 'all', shown: 'shown' };
/** What a list of ids may have, to be shown as it is. */
const FEW = 3;

/** What operators did, and nothing else of the log: from any place on. */
export const commandsPage: ConsoleCall = {
  path: COMMANDS,
  kind: 'page',
  async handler({ store }, visit) {
    const { query } = visit;
    const with_all = query.get(ALL.name) === ALL.shown;
    const before = placeOf(query.get('before') ?? '');
    const commands = await store.commands(visit.asking, { with_all, before });
    return consolePage(visit, {
      title: 'Commands',
      section: PATH,
      main: commandList(commands, query),
    });
  },
};

type Commands = { rows: ShownCommand[]; next: LogPlace | null };

/** Most events are looks at a submission, or steps of scheduled retention. So those are asked for. */
function commandList({ rows, next }: Commands, query: URLSearchParams): Html {
  const filter =
    query.get(ALL.name) === ALL.shown
      ? html`<a href="${CONSOLE}${COMMANDS}">Without the submissions that operators looked at, and what was removed by schedule</a>`
      : html`<a href="${CONSOLE}${COMMANDS}?${ALL.name}=${ALL.shown}">With the submissions that operators looked at, and what was removed by schedule</a>`;
  return html`${table('Commands', COMMAND_COLUMNS, rows)}
<p>${filter}</p>
${
  next !== null &&
  html`${rows.length < PAGE_ROWS && html`<p>This page looked through a bounded number of commands; there are more.</p>`}
${nextLink(COMMANDS, query, { before: `${next.at_us}-${next.seq}` })}`
}`;
}

/** What is no place is the beginning. */
function placeOf(text: string): LogPlace | null {
  const [, at_us, seq] = /^(\d{1,16})-(\d{1,18})$/.exec(text) ?? [];
  return at_us && seq ? { at_us, seq } : null;
}

const COMMAND_COLUMNS = [
  { name: 'at (UTC)', cell: ({ at }: ShownCommand) => time(at) },
  { name: 'by', cell: ({ actor }: ShownCommand) => actor },
  { name: 'event', cell: ({ type }: ShownCommand) => type },
  { name: 'about', cell: aboutOf },
  {
    name: 'facts',
    kind: 'wide' as const,
    cell: ({ facts }: ShownCommand) =>
      Object.entries(facts)
        .map(([name, value]) => `${name} ${factText(value)}`)
        .join(', '),
  },
];

/** Of a long list, its length: `audit_commands` has the ids. */
function factText(value: unknown): string {
  if (Array.isArray(value) && value.length > FEW) return String(value.length);
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Everything that it names. Of the log as a whole, the facts say what was done. */
function aboutOf(command: ShownCommand): Shown {
  const { type, about, operator, account_id, account, key_id, tier, submission_id } = command;
  const parts: Shown[] = [
    submission_id && html`submission ${submissionLink(submission_id)}`,
    key_id && html`key <span class="id">${key_id}</span>`,
    type.startsWith('test_set.') && html`test set <span class="id">${about}</span>`,
    account_id && html`account <a href="${CONSOLE}/accounts/${account_id}">${account}</a>`,
    operator && html`operator ${operator}`,
    tier && html`tier <a href="${CONSOLE}/tiers?tier=${tier}">${tier}</a>`,
  ];
  return parts.filter(Boolean).map((part, n) => [n > 0 && ', ', part]);
}

type Operator = ShownLog['operators'][number];

const OPERATOR_COLUMNS = [
  { name: 'name', cell: ({ name }: Operator) => name },
  { name: 'created (UTC)', cell: ({ created_at }: Operator) => time(created_at) },
  { name: 'revoked (UTC)', cell: ({ revoked_at }: Operator) => time(revoked_at) },
  { name: 'sessions', kind: 'number' as const, cell: ({ sessions }: Operator) => sessions },
];
