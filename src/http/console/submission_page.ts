/** One submission: what happened to it, as a picture and as a list, and what its account sent and received. */

import { renderTests } from '../../domain/judged_record.ts';
import type { TestFacts } from '../../domain/judging_facts.ts';
import { bytesText, durationText } from '../../domain/units_text.ts';
import {
  HEAD_BYTES,
  type ShownEvent,
  type ShownPayload,
  type ShownSubmission,
} from '../../store/console.ts';
import { parseUuid } from '../wire/header_values.ts';
import { badge, CONSOLE, consolePage, messagePage, table, terms, time } from './console_page.ts';
import type { ConsoleCall, Visit } from './console_parts.ts';
import { replayForm } from './delivery_pages.ts';
import { type Html, html, type Shown } from './markup.ts';
import { deliveryPicture, runPicture } from './submission_picture.ts';

export const submissionPage: ConsoleCall = {
  path: '/submissions/{id}',
  kind: 'page',
  async handler({ store }, visit) {
    const id = parseUuid(visit.exchange.params['id'] ?? '');
    const shown = id && (await store.submission(visit.asking, id));
    if (!shown) {
      const why = 'There is no submission with this id, or retention has removed it.';
      return messagePage(visit, 404, 'No such submission', why);
    }
    return consolePage(visit, {
      title: 'Submission',
      section: '/submissions',
      main: html`<p class="id">${shown.record.id}</p>
${facts(shown)}
<h2>What happened</h2>
${runPicture(shown.events, Date.now())}
${table('Events', EVENT_COLUMNS, shown.events)}
${leftOut(shown.events)}
${tests(shown)}
${delivery(visit, shown)}
<h2>What was sent and printed</h2>
${shown.payloads.length === 0 && html`<p>Nothing is stored: it was purged.</p>`}
${shown.payloads.map((each) => payload(shown.record.id, each))}`,
    });
  },
};

function facts({ record, account, proof }: ShownSubmission): Html {
  const text = (name: string): Shown => shownFact(record[name]);
  const number = (name: string) => record[name] as number | null;
  return terms([
    ['verdict', badge(record.verdict ?? record.status)],
    ['status', record.status],
    ['account', html`<a href="${CONSOLE}/accounts/${record.account_id}">${account}</a>`],
    ['key', html`<span class="id">${record.key_id}</span>`],
    ['language', record.language],
    ['accepted', time(record.created_at)],
    ['ended', time(record['completed_at'] as string | null)],
    ['executions', text('attempts')],
    ['CPU time', durationText(number('cpu_time_us'))],
    ['wall time', durationText(number('wall_time_us'))],
    ['memory', bytesText(number('memory_peak_bytes'))],
    ['exit code', text('exit_code')],
    ['signal', text('signal')],
    ['limit exceeded', text('limit_exceeded')],
    ['score', text('score')],
    [
      'proof',
      proof === null
        ? 'its end is not sealed yet'
        : `leaf ${proof.index}, in the checkpoint of ${proof.checkpoint} leaves`,
    ],
  ]);
}

const shownFact = (value: unknown): string =>
  value === null || value === undefined
    ? '–'
    : typeof value === 'object'
      ? JSON.stringify(value)
      : String(value);

function leftOut(events: readonly ShownEvent[]): Shown {
  const count = (events.at(-1)?.version ?? 0) - events.length;
  return (
    count > 0 && html`<p>${count} events between the first and the last ones are left out.</p>`
  );
}

const EVENT_COLUMNS = [
  { name: '#', kind: 'number' as const, cell: ({ version }: ShownEvent) => version },
  { name: 'at (UTC)', cell: ({ at }: ShownEvent) => preciseTime(at) },
  { name: 'event', cell: ({ type }: ShownEvent) => type },
  { name: 'attempt', kind: 'number' as const, cell: ({ attempt }: ShownEvent) => attempt ?? '–' },
  { name: 'by', kind: 'wide' as const, cell: ({ actor }: ShownEvent) => actor },
  { name: 'facts', kind: 'text' as const, cell: ({ facts }: ShownEvent) => factList(facts) },
];

/** To the millisecond: a run takes less than a second. */
const preciseTime = (text: string) =>
  html`<time datetime="${text}">${new Date(text).toISOString().slice(0, 23).replace('T', ' ')}</time>`;

/** What is worth a glance comes first; the rest unfolds. */
function factList(facts: Record<string, unknown>): Html {
  const entries = Object.entries(facts).filter(([, value]) => value !== null);
  const [short, long] = [
    entries.filter(([, value]) => typeof value !== 'object'),
    entries.filter(([, value]) => typeof value === 'object'),
  ];
  const shown = short.map(([name, value]) => `${name} ${value}`).join(', ');
  if (long.length === 0) return html`${shown}`;
  const rest = JSON.stringify(Object.fromEntries(long), null, 1);
  return html`${shown}<details><summary>more</summary><pre tabindex="0">${rest}</pre></details>`;
}

function tests({ record, tests }: ShownSubmission): Shown {
  if (!record.tests) return null;
  const rendered = renderTests(record.tests as TestFacts[], tests, () => '');
  type Row = (typeof rendered)[number];
  const columns = [
    { name: 'test', kind: 'number' as const, cell: ({ n }: Row) => n },
    { name: 'name', cell: ({ name }: Row) => name ?? '–' },
    { name: 'verdict', cell: ({ verdict }: Row) => badge(verdict) },
    {
      name: 'CPU',
      kind: 'number' as const,
      cell: ({ cpu_time }: Row) => durationText(cpu_time && cpu_time * 1e6),
    },
    {
      name: 'memory',
      kind: 'wide number' as const,
      cell: ({ memory_peak }: Row) => bytesText(memory_peak),
    },
    {
      name: 'message',
      kind: 'wide' as const,
      cell: ({ message }: Row) => message ?? '',
    },
  ];
  return html`<h2>Tests</h2>${table('Tests', columns, rendered)}
${tests === null && html`<p>Names and messages are not shown: with the outputs they are too large for a page, or they were purged. What is stored can be saved below.</p>`}`;
}

function delivery(visit: Visit, { record, delivery, events }: ShownSubmission): Shown {
  if (delivery === null) return null;
  return html`<h2>Delivery</h2>
${terms([
  ['status', delivery.status],
  ['to', delivery.host ?? 'an address that was purged'],
  ['attempts', delivery.attempts],
  ['next', time(delivery.next_at)],
])}
${deliveryPicture(events)}
${replayForm(visit, record.id, delivery.status)}`;
}

/** These are archives and lists of ours; their bytes can be saved. */
const NOT_SHOWN = ['tests', 'files'];

/** Text, whatever the bytes are. HTML takes away the first line break of a `pre`. */
function payload(id: string, { kind, size, head }: ShownPayload): Html {
  const text = Buffer.from(head).toString().replaceAll('\r\n', '\n');
  const shown = html`<pre tabindex="0">
${text}</pre>
${size > HEAD_BYTES && html`<p>These are the first ${bytesText(HEAD_BYTES)}.</p>`}`;
  return html`<section aria-label="${kind}">
<h3>${kind} <small>${bytesText(size)}, <a href="${CONSOLE}/submissions/${id}/bytes/${kind}" download="${id}.${kind}">all bytes</a></small></h3>
${!NOT_SHOWN.includes(kind) && shown}
</section>
`;
}
