/** GET /api/result/{id} */
import { type ResultEncoding, renderResult } from '../domain/record.ts';
import { hasEnded } from '../domain/statuses.ts';
import type { Exchange } from './exchange.ts';
import { parseUuid } from './header_values.ts';
import { hold, readWish, refuseUnknownParameters } from './hold.ts';
import { type Answer, type FieldFault, invalid, problem, STATUS } from './problem.ts';
import { refusedAnswer, spendThen } from './spend.ts';
import type { Web } from './web.ts';

export async function result(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
): Promise<Answer | null> {
  const faults: FieldFault[] = [];
  const id = parseUuid(exchange.params['id'] ?? '');
  if (id === null) faults.push({ path: 'id', message: 'must be a UUID' });
  const query = new URLSearchParams(exchange.query);
  refuseUnknownParameters(query, ['wait', 'encoding'], faults);
  const prefer = exchange.req.headers['prefer'];
  const wish = readWish(
    query,
    Array.isArray(prefer) ? prefer.join(', ') : prefer,
    web.config.wait_cap_ms,
    faults,
  );
  const encoding = readEncoding(query, faults);
  if (id === null || faults.length > 0) return spendThen(web, exchange, digest, invalid(faults));

  const outcome = await web.results.read(digest, id);
  if (outcome.kind === 'unauthorized' || outcome.kind === 'rate_limited') {
    return refusedAnswer(web, exchange, digest, outcome);
  }
  exchange.caller = outcome.caller;
  if (outcome.kind === 'not_found') return problem('not_found');
  exchange.submission_id = id;
  let row = outcome.record;
  const ended = hasEnded(row.status);
  if (!ended && wish.hold_ms !== null) {
    const waited = await hold(web, exchange, id, { timeout_ms: wish.hold_ms }).row;
    if (waited === 'gone') return null;
    row = waited ?? (await web.results.record(id)) ?? row;
  }
  return { status: STATUS.ok, body: renderResult(row, encoding), headers: wish.applied };
}

function readEncoding(query: URLSearchParams, faults: FieldFault[]): ResultEncoding {
  const given = query.getAll('encoding');
  const [encoding = 'utf8'] = given;
  if (given.length <= 1 && (encoding === 'utf8' || encoding === 'base64')) return encoding;
  faults.push({ path: '?encoding', message: 'must be utf8 or base64, once' });
  return 'utf8';
}
