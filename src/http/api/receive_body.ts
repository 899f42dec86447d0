/**
 * Reads the bodies of submissions. A large one takes up to some MiB of memory, some milliseconds to parse, and as long again
 * to store: many at once would delay everybody. So large bodies take turns over keys, first to be read, then to be parsed and
 * stored. Small ones pass by.
 *
 * A body weighs what has come of it. If it weighed what it declares, clients that send nothing would hold all places for
 * nothing. One whose key was found and that does not come to its end counts as a request: else that could be repeated for ever.
 *
 * A key that nobody has could be made up, as many as somebody likes. So the key of a large body is looked up before its turn,
 * unless this process has seen it already. That of a small one is looked up when its body comes slowly: else its connection would
 * be that of a stranger, which makes way for others (connection_room.ts).
 */
import type { Inside, Turn } from '../../store/turns.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { unavailable } from '../wire/problem.ts';
import { BODY_LIMIT_BYTES, closeUnread, readBody } from '../wire/read_body.ts';
import type { Web } from './api_call.ts';
import { rejectedHead, tooLarge, wayOut } from './read_submission.ts';
import { knownAsSpent, rejectedKey, spendThen, unauthorized } from './spend_rate.ts';
import { growTurn, takeTurn } from './take_turn.ts';

/** A body that is parsed within half a millisecond is small. */
const SMALL_BYTES = 32 * 1024;
/** Node reads up to 128 KiB of each body before anybody asks for it. The rest of a request's time is for sending it. */
const WAITING = { waiting: 200, patience_ms: 10_000 };
/**
 * In bytes of memory. One more body may come to its end beside them. A client that sends slowly keeps its place only while
 * nobody waits for it; nobody's patience ends before that.
 */
export const BODIES_READ = {
  ...WAITING,
  most: 6 * 1024 * 1024,
  each: 2 * BODY_LIMIT_BYTES,
  hold_ms: 1_000,
};
/** In bytes: a small submission waits for a batch with so many of large ones. Of one key's, many of 60 KB share a commit. */
export const BODIES_STORED = {
  ...WAITING,
  most: 3 * 1024 * 1024,
  each: 1.5 * 1024 * 1024,
  hold_ms: Number.POSITIVE_INFINITY,
};
const BUSY_RETRY_S = 5;
/** Of a small body. Long before its connection has to make way. */
const SLOW_MS = 1_000;

export type ReceivedBody = {
  /** Empty once it was left. */
  bytes: Uint8Array;
  /** Call it when the submission is stored, or rejected; further calls do nothing. */
  leave: () => void;
};

/** Answers a call that has a body. The answer is null if the client is gone. */
export async function withBody(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  answer: (body: ReceivedBody) => Promise<Answer | null>,
  most_bytes = BODY_LIMIT_BYTES,
): Promise<Answer | null> {
  const rejection = rejectedHead(exchange.req, most_bytes);
  if (rejection !== null) return spendThen(web, exchange, digest, rejection);
  const body = await receiveBody(web, exchange, digest, most_bytes);
  if ('answer' in body) return body.answer;
  try {
    // Its body may have come slowly, and other requests of its key may have spent the rate since then.
    return (await knownAsSpent(web, exchange, digest)) ?? (await answer(body));
  } finally {
    body.leave();
  }
}

async function receiveBody(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  most_bytes: number,
): Promise<ReceivedBody | { answer: Answer | null }> {
  const places = placesOf(web, exchange, digest);
  const refused = async (why: Exclude<Admitted, 'inside'> | 'too_large') => {
    places.leave(why !== 'gone');
    // What was read of it takes no memory while the answer is made.
    if (!exchange.req.complete) closeUnread(exchange.req);
    if (why === 'gone' && exchange.has_known_key) countGone(web, exchange, digest);
    return { answer: await refusal(web, exchange, digest, { why, most_bytes }) };
  };
  // Where the database is away, the body is read all the same, and then the answer says so.
  const slow = setTimeout(() => places.mayRead().catch(() => {}), SLOW_MS);
  try {
    const bytes = await readBody(exchange.req, exchange.res, {
      most_bytes,
      small_bytes: SMALL_BYTES,
      mayRead: places.mayRead,
      mayGrow: places.mayGrow,
    });
    if (typeof bytes === 'string') return await refused(bytes);
    const admitted = await places.mayStore(bytes.length);
    if (admitted !== 'inside') return await refused(admitted);
    const leave = () => {
      places.leave();
      // A request that waits for its result must not keep its body.
      body.bytes = NOTHING;
    };
    const body = { bytes, leave };
    return body;
  } catch (error) {
    places.leave();
    throw error;
  } finally {
    clearTimeout(slow);
  }
}

const NOTHING = new Uint8Array();

type Admitted = Turn['kind'] | 'unauthorized';

/** The places of one body. A small one never asks for any. */
function placesOf(web: Web, exchange: Exchange, digest: Uint8Array) {
  const { reading, storing } = web.large_bodies;
  const owner = Buffer.from(digest).toString('latin1');
  const taken: Inside[] = [];
  let isRead = false;
  let left = false;
  const enter = async (
    ...[turns, weight, onOverdue]: [typeof reading, number, () => boolean]
  ): Promise<Admitted> => {
    const turn = await takeTurn(turns, exchange, owner, weight, onOverdue);
    if (turn.kind === 'inside' && left) turn.leave();
    else if (turn.kind === 'inside') taken.push(turn);
    return turn.kind;
  };
  const cut = () => {
    if (!isRead) exchange.req.socket.destroy();
    return !isRead;
  };
  const mayRead = async (): Promise<Admitted> => {
    exchange.has_known_key ||= await web.known_keys.knows(digest);
    return exchange.has_known_key ? 'inside' : 'unauthorized';
  };
  return {
    mayRead,
    mayGrow(bytes: number): 'inside' | Promise<Admitted> {
      const [turn] = taken;
      if (turn === undefined) {
        return mayRead().then((may) => (may === 'inside' ? enter(reading, bytes, cut) : may));
      }
      return turn.grow(bytes) ? 'inside' : growTurn(turn, exchange, bytes);
    },
    mayStore(bytes: number): Admitted | Promise<Admitted> {
      isRead = true;
      return taken.length === 0 ? 'inside' : enter(storing, bytes, () => false);
    },
    leave(is_done = true): void {
      left = true;
      for (const { leave } of taken.splice(0)) leave(is_done);
    },
  };
}

/** Nobody waits for the answer. If there is none, because the database is away, the request does not count. */
function countGone(web: Web, exchange: Exchange, digest: Uint8Array): void {
  web.results.spend(digest).then(
    (outcome) => {
      if (outcome.kind === 'rate_limited') rejectedKey(web, exchange, digest, outcome);
    },
    () => {},
  );
}

function refusal(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  { why, most_bytes }: { why: Exclude<Admitted, 'inside'> | 'too_large'; most_bytes: number },
): Promise<Answer> | Answer | null {
  switch (why) {
    case 'gone':
      return null;
    case 'unauthorized':
      return unauthorized();
    case 'too_large':
      return spendThen(web, exchange, digest, tooLarge(most_bytes, wayOut(most_bytes)));
    case 'busy':
      return spendThen(web, exchange, digest, unavailable(BUSY, BUSY_RETRY_S));
  }
}

const BUSY =
  'This service reads as many large submissions at once as it may: send it again, or fewer at a time.';
