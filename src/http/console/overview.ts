/** The first page: how the service is at this moment, and how it was in the last hour. A script fills it (client/now.js). */
import { STATUS } from '../wire/answer.ts';
import { consolePage, terms } from './console_page.ts';
import type { ConsoleCall } from './console_parts.ts';
import { html } from './markup.ts';

const value = (name: string) => html`<span data-value="${name}">–</span>`;

const plot = (name: string, title: string, note: string) => html`<figure>
<figcaption>${title} <small>${note}</small></figcaption>
<div class="plot" data-plot="${name}" role="img" aria-label="${title} ${note}"></div>
</figure>
`;

const rows = (
  name: string,
  caption: string,
  heads: readonly string[],
) => html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}"><table>
<caption>${caption}</caption>
<thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody data-rows="${name}"></tbody>
</table></div>
`;

export const overview: ConsoleCall = {
  path: '',
  kind: 'page',
  handler: async (_, visit) =>
    consolePage(visit, {
      title: 'Now',
      section: '',
      script: 'now.js',
      main: html`<noscript><p class="problem">This page needs JavaScript; the others do not.</p></noscript>
<p class="problem" role="alert" data-problem="" hidden="hidden"></p>
<section aria-label="Figures" class="figures">
${terms([
  ['waiting', value('waiting')],
  ['lost, to be run again', value('again')],
  ['oldest waits', value('oldest')],
  ['running', value('running')],
  ['workers', value('workers')],
  ['deliveries waiting', value('deliveries')],
  ['events not sealed', value('unsealed')],
  ['newest checkpoint', value('checkpoint')],
  ['at (UTC)', value('at')],
])}
</section>
<section aria-label="Plots" class="plots">
${plot('per_s', 'Submissions accepted', 'a second, by minute')}${plot('latency', 'From acceptance to end', 'seconds')}${plot('verdicts', 'Verdicts', 'in each whole minute')}${plot('queue', 'Queue', 'since this page was opened')}
</section>
<p data-sampled="" hidden="hidden">Some minutes had more than 1,000 submissions: their figures are computed from the first 1,000.</p>
<section aria-label="Workers">
${rows('languages', 'Languages', ['language', 'running', 'slots'])}${rows('workers', 'Workers', ['host', 'running', 'slots', 'languages', 'isolation', 'heartbeat'])}<p data-more="workers" hidden="hidden"></p>
${rows('witnesses', 'Witnesses', ['name', 'behind', 'state'])}
</section>`,
    }),
};

/** What the script asks for. */
export const liveState: ConsoleCall = {
  path: '/live',
  kind: 'page',
  handler: async ({ live }) => ({ status: STATUS.ok, body: await live.state() }),
};
