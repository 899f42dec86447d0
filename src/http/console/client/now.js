// @ts-check
/**
 * Keeps the first page of the console at the state of the service: asks for it, shows it, and asks again two seconds later. A page
 * that nobody sees asks for nothing. Everything is set as text.
 */
import { createPlots } from './plots.js';

/** @typedef {import('../live.ts').LiveState} LiveState */

const REFRESH_MS = 2_000;
/** More than the service takes. A connection can die without a word, and a browser then waits for minutes. */
const ANSWER_MS = 10_000;
/** Points of the plot of the queue: half an hour. */
const KEPT = 900;

const plots = createPlots((name) => /** @type {HTMLElement} */ (find(`[data-plot="${name}"]`)));
/** @type {number[][]} Times, and what plots.js names. */
const queue = [[], [], [], []];

/** @param {string} selector */
function find(selector) {
  return /** @type {HTMLElement} */ (document.querySelector(selector));
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch('/console/live', {
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    // Signed out: the sign-in page comes in place of this one.
    if (answer.type === 'opaqueredirect') return location.reload();
    if (!answer.ok) throw new Error(`the service answers ${answer.status}`);
    show(await answer.json());
    problem(null);
  } catch (error) {
    problem(`Not up to date: ${error instanceof Error ? error.message : error}.`);
  }
}

/** @param {string | null} text */
function problem(text) {
  const element = find('[data-problem]');
  element.hidden = text === null;
  setText(element, text ?? '');
}

/** @param {HTMLElement} element @param {string} text */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {LiveState} state */
function show(state) {
  const { queue: now, log } = state;
  const values = {
    waiting: `${count(now.waiting)} of ${count(now.capacity)}`,
    again: count(now.again),
    oldest: now.waiting + now.again > 0 ? seconds(now.oldest_wait_s) : '–',
    running: `${count(now.running)} in ${count(now.slots)} slots`,
    workers: count(now.workers),
    deliveries: count(now.deliveries_waiting),
    unsealed: `${count(now.unsealed)}${now.unsealed_more ? ' or more' : ''}${log.problem === null ? '' : '; nothing is signed'}`,
    checkpoint: now.checkpoint_age_s === null ? '–' : `${seconds(now.checkpoint_age_s)} old`,
    at: state.at.slice(11, 19),
  };
  for (const [name, text] of Object.entries(values)) setText(find(`[data-value="${name}"]`), text);
  rows(
    'languages',
    state.languages.map((each) => [each.language, count(each.running), count(each.slots)]),
  );
  rows(
    'workers',
    state.workers.map((each) => [
      each.host,
      count(each.running),
      count(each.slots),
      Object.keys(each.toolchains).sort().join(', '),
      each.isolation ?? '–',
      `${seconds(each.heartbeat_s)} ago`,
    ]),
  );
  const more = find('[data-more="workers"]');
  more.hidden = state.workers.length >= now.workers;
  const first = count(state.workers.length);
  setText(
    more,
    more.hidden ? '' : `These are the first ${first} of ${count(now.workers)}, by host.`,
  );
  rows(
    'witnesses',
    log.witnesses.map(({ name, cosigned, problem }) => [
      name,
      cosigned === null ? '–' : `${count(cosigned.behind)} leaves`,
      problem ?? (cosigned === null ? 'not known yet' : 'cosigns'),
    ]),
  );
  find('[data-sampled]').hidden = !state.hour.sampled;
  const at = [Date.parse(state.at) / 1000, now.waiting, now.again, now.running];
  for (const [n, column] of queue.entries()) {
    column.push(at[n] ?? 0);
    if (column.length > KEPT) column.shift();
  }
  plots.show(state.hour, queue);
}

/** @param {string} name @param {string[][]} cells */
function rows(name, cells) {
  const lines = cells.length > 0 ? cells : [['none']];
  find(`[data-rows="${name}"]`).replaceChildren(
    ...lines.map((line) => {
      const row = document.createElement('tr');
      for (const text of line) row.insertCell().textContent = text;
      return row;
    }),
  );
}

/** @param {number} value */
function count(value) {
  return value.toLocaleString('en');
}

/** @param {number} value */
function seconds(value) {
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return value < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}

/** One after the other: the next refresh waits for the one before it. */
async function forever() {
  await refresh();
  setTimeout(forever, REFRESH_MS);
}

document.addEventListener('visibilitychange', refresh);
forever();
