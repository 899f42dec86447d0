/** Room for uploads: who may send, and whose archive is stored when. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import t from 'tap';
import { UPLOAD_BYTES_PER_S } from '../../src/domain/upload_pace.ts';
import { type Arrival, createUploads, STORED, type Uploads } from '../../src/http/api/uploads.ts';
import type { Answer } from '../../src/http/wire/answer.ts';
import { type Exchange, openExchange } from '../../src/http/wire/exchange.ts';

const DONE: Answer = { status: 201 };
const WINDOW_MS = 10_000;
const LEAST = (UPLOAD_BYTES_PER_S * WINDOW_MS) / 1_000;

function exchange(): Exchange {
  const req = new IncomingMessage(new Socket());
  return openExchange(req, new ServerResponse(req), { trust_router: false });
}

/** Those that are being stored, in order, and how each ends. */
function storing(uploads: Uploads) {
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<Answer | null>>();
  const store = (account: string, asked = exchange()) =>
    uploads.inTurn(asked, account, () => {
      begun.push(account);
      const end = Promise.withResolvers<Answer | null>();
      ends.set(account, end);
      return end.promise;
    });
  return { begun, ends, store };
}

/** Afterwards every promise that can settle has settled, because nothing here waits for I/O. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** The test says when the time of an upload is over. */
function timed(received: number) {
  const looks = new Map<string, () => void>();
  const cuts: string[] = [];
  let newest = '';
  const uploads = createUploads({
    window_ms: WINDOW_MS,
    received,
    every(look, ms) {
      if (ms !== WINDOW_MS) throw new Error(`${ms}`);
      const account = newest;
      looks.set(account, look);
      return () => looks.delete(account);
    },
  });
  const enter = (account: string) => {
    newest = account;
    return uploads.enter(account, (why) => cuts.push(`${account}: ${why}`));
  };
  /** It has to have room. */
  const admit = (account: string): Arrival => {
    const arrival = enter(account);
    if (typeof arrival === 'string') throw new Error(`${account}: ${arrival}`);
    return arrival;
  };
  return { uploads, looks, cuts, enter, admit };
}

t.test('a process receives some uploads at once, and of an account one', async (t) => {
  const { enter, admit } = timed(2);
  const first = admit('a');
  t.equal(enter('a'), 'own');
  admit('b');
  t.equal(enter('c'), 'full');
  first.leave();
  const again = admit('a');
  first.leave();
  t.equal(enter('c'), 'full', 'leaving twice frees nothing of the next one');
  again.leave();
  admit('c');
});

t.test('an upload that brings too little in one of its times is cut', async (t) => {
  const { enter, admit, looks, cuts } = timed(3);
  const [steady, , whole] = ['steady', 'slow', 'whole'].map(admit);
  whole!.arrived();
  t.notOk(looks.has('whole'), 'one that has arrived is watched no longer');
  for (let n = 0; n < 3; n += 1) {
    steady!.came(LEAST - 1);
    steady!.came(1);
    looks.get('steady')!();
  }
  t.same(cuts, []);
  t.equal(enter('slow'), 'own');
  looks.get('slow')!();
  t.same(cuts, ['slow: too slow']);
  t.notOk(looks.has('slow'));
  steady!.came(LEAST - 1);
  looks.get('steady')!();
  t.same(cuts, ['slow: too slow', 'steady: too slow'], 'what came before does not count');
  // Neither keeps room.
  for (const account of ['slow', 'other']) admit(account);
  t.equal(enter('one more'), 'full', 'that of one that has arrived is kept');
});

t.test('where all room is taken, the slowest of those over their time makes some', async (t) => {
  const { enter, admit, looks, cuts } = timed(4);
  const [fast, slow, young, whole] = ['fast', 'slow', 'young', 'whole'].map(admit);
  const pass = (account: string, arrival: typeof fast, bytes: number) => {
    arrival!.came(bytes);
    looks.get(account)!();
  };
  t.equal(enter('a'), 'full', 'all are in their first time');
  pass('fast', fast, 3 * LEAST);
  pass('slow', slow, 2 * LEAST);
  pass('whole', whole, LEAST);
  whole!.arrived();
  t.equal(enter('fast'), 'own', 'an account makes no room for itself');
  t.same(cuts, []);
  admit('a');
  t.same(cuts, ['slow: its room was needed']);
  slow!.leave();
  admit('b');
  t.same(cuts.slice(1), ['fast: its room was needed']);
  t.equal(enter('c'), 'full', 'those in their first time, and those that have arrived, stay');
  young!.leave();
  admit('c');
});

t.test('two are stored at once, and the others in the order in which they came', async (t) => {
  const { begun, ends, store } = storing(createUploads({ window_ms: WINDOW_MS }));
  const answers = ['a', 'b', 'c', 'd'].map((account) => store(account));
  await settled();
  t.same(begun, ['a', 'b']);
  ends.get('b')!.reject(new Error('no'));
  await t.rejects(answers[1]!, { message: 'no' });
  await settled();
  t.same(begun, ['a', 'b', 'c'], 'one that fails leaves, too');
  for (const account of ['a', 'c']) ends.get(account)!.resolve(DONE);
  t.equal(await answers[0], DONE);
  await settled();
  ends.get('d')!.resolve(DONE);
  t.equal(await answers[3], DONE);
});

t.test('who waits for too long comes again, and who has gone is not stored', async (t) => {
  const stored = { ...STORED, most: 1, patience_ms: 1 };
  const { begun, ends, store } = storing(createUploads({ window_ms: WINDOW_MS, stored }));
  const first = store('a');
  const busy = await store('b');
  t.match(busy, { status: 503, headers: { 'Retry-After': Number } });
  const cut = exchange();
  const third = store('c', cut);
  cut.onCut!();
  t.equal(await third, null);
  ends.get('a')!.resolve(DONE);
  t.equal(await first, DONE);
  t.same(begun, ['a']);
});
