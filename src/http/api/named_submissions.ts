/**
 * GET /api/submissions?ids=…: submissions by their ids, and the wait until all of them have ended. It holds no connection while it
 * waits: the ids wait with those of all other requests (store/waiters.ts).
 */
import { renderSummary } from '../../domain/record.ts';
import { hasEnded } from '../../domain/statuses.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { headerText, parseUuid } from '../wire/header_values.ts';
import { type FieldError, invalid } from '../wire/problem.ts';
import type { Web } from './api_call.ts';
import { LIST_PARAMETERS } from './list_query.ts';
import { BATCH_LIMIT } from './read_batch.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import {
  readWaitWish,
  rejectUnknownParameters,
  type WaitWish,
  waitForAll,
} from './waiting_request.ts';

/** As many as one call submits. With %2C for each comma they fit into a request line; as a repeated parameter they would not. */
export const IDS_LIMIT = BATCH_LIMIT;

/** So many are answered at once. */
const LIGHT_ROWS = 10;

export const IDS = 'ids';
/** Of GET /api/submissions. */
export const ALL_PARAMETERS = [IDS, ...LIST_PARAMETERS];

export async function listNamed(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  query: URLSearchParams,
): Promise<Answer | null> {
  const errors: FieldError[] = [];
  const ids = readIds(query, errors);
  const prefer = headerText(exchange.req.headers['prefer']);
  const wish = readWaitWish(new URLSearchParams(), prefer, web.config.wait_cap_ms, errors);
  if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
  const found = await web.lists.named(digest, ids);
  if (found.kind !== 'found') return rejectedKey(web, exchange, digest, found);
  exchange.caller = found.caller;
  const rows = await atTheirEnd(web, exchange, found, wish);
  if (rows === 'gone') return null;
  // The waits of many requests can end with one submission.
  const body = () =>
    Buffer.from(JSON.stringify({ submissions: rows.map(renderSummary), next: null }));
  return { status: STATUS.ok, headers: wish.applied, body, heavy: rows.length > LIGHT_ROWS };
}

function readIds(query: URLSearchParams, errors: FieldError[]): string[] {
  rejectUnknownParameters(query, ALL_PARAMETERS, errors);
  for (const name of LIST_PARAMETERS)
    if (query.has(name)) errors.push({ path: `?${name}`, message: `does not combine with ${IDS}` });
  const [given = '', ...more] = query.getAll(IDS);
  const path = `?${IDS}`;
  if (more.length > 0) {
    errors.push({ path, message: 'is given more than once: separate the ids by commas' });
    return [];
  }
  const texts = given.split(',');
  if (texts.length > IDS_LIMIT) {
    errors.push({ path, message: `has ${texts.length} ids: ${IDS_LIMIT} are the most` });
    return [];
  }
  const ids = new Set<string>();
  for (const text of texts) {
    const id = parseUuid(text);
    const shown = JSON.stringify(text.toWellFormed().slice(0, 64));
    if (id === null) errors.push({ path, message: `has ${shown}, which is not a UUID` });
    else ids.add(id);
  }
  return [...ids];
}

type Found = Extract<Awaited<ReturnType<Web['lists']['named']>>, { kind: 'found' }>;

async function atTheirEnd(
  web: Web,
  exchange: Exchange,
  { rows, caller }: Found,
  { timeout_ms }: WaitWish,
): Promise<Found['rows'] | 'gone'> {
  const open = rows.filter(({ status }) => !hasEnded(status)).map(({ id }) => id);
  if (!timeout_ms || open.length === 0) return rows;
  const waited = await waitForAll(web, exchange, open, timeout_ms).row;
  if (waited === 'gone') return waited;
  const now = waited ?? (await web.lists.summaries(caller.account_id, open));
  const changed = new Map(now.map((row) => [row.id, row]));
  return rows.map((row) => changed.get(row.id) ?? row);
}
