/** Room for uploads: who may send, and whose archive is stored when. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import t from 'tap';
import { createUploads, STORED, type Uploads } from '../../src/http/api/uploads.ts';
import type { Answer } from '../../src/http/wire/answer.ts';
import { type Exchange, openExchange } from '../../src/http/wire/exchange.ts';

const DONE: Answer = { status: 201 };

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

t.test('a process receives some uploads at once, and of an account one', async (t) => {
  const uploads = createUploads(2);
  const leave = uploads.enter('a');
  t.ok(leave);
  t.equal(uploads.enter('a'), null);
  t.ok(uploads.enter('b'));
  t.equal(uploads.enter('c'), null);
  leave!();
  const again = uploads.enter('a');
  t.ok(again);
  leave!();
  t.equal(uploads.enter('c'), null, 'leaving twice frees nothing of the next one');
  again!();
  t.ok(uploads.enter('c'));
});

t.test('two are stored at once, and the others in the order in which they came', async (t) => {
  const { begun, ends, store } = storing(createUploads());
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
  const { begun, ends, store } = storing(createUploads(9, { ...STORED, most: 1, patience_ms: 1 }));
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
