/** What the witnesses of a policy know, against the log that verify has read. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { askWitnesses } from '../../src/cli/verify_witnesses.ts';
import { additionText } from '../../src/proof/addition.ts';
import { signatureLine } from '../../src/proof/note.ts';
import { createSealer } from '../../src/store/checkpoints.ts';
import { readConsistencyProof } from '../../src/store/tree.ts';
import { verify } from '../../src/store/verify.ts';
import { seal } from '../store/seal_now.ts';
import { alone, LOG_VERIFIER, policy, witnesses } from '../store/verified.ts';
import { world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { matchLists } from '../support/match_lists.ts';
import { BOTH_NAMES, RENAMED } from '../tamper/claim_manipulations.ts';
import { putCosignature } from '../tamper/time_manipulations.ts';
import { aWitness } from '../witness/a_witness.ts';

aloneOnItsServer();

/** A log that is signed by the same key each time, as a copy of one that was restored is. */
async function aLog(t: Test) {
  const w = await world(t);
  return {
    db: w.db,
    superuser: w.connect(w.database.superuser_url, 1),
    /** Connections that the database ended. */
    async ended() {
      const db = w.connect(w.database.superuser_url, 1);
      await db.end();
      return db;
    },
    /** What verify says after events under a later name. */
    async renamed() {
      await w.tier('renamed', 1, 1);
      await createSealer(RENAMED).seal(w.web);
      return verify(w.db, { policy: BOTH_NAMES });
    },
    /** Its newest checkpoint, after some events more. */
    async grown(events: number, name: string) {
      for (let n = 0; n < events; n++) await w.tier(`${name}-${n}`, 1, 1);
      await seal(w.web);
      return (await verify(w.db, { policy: alone })).newest!;
    },
  };
}

t.test('a witness shows that a log was rolled back, also where it has grown again', async (t) => {
  const witness = await aWitness(t, [LOG_VERIFIER]);
  const asked = { ...alone, witnesses: [{ name: 'north', key: witness.key, url: witness.url }] };
  const well = { problems: [], unanswered: [] };
  const says = (what: string) => ({
    problems: [new RegExp(`^the log was rolled back or forked: witness north says that ${what}`)],
    unanswered: [],
  });
  const signs = async (newest: { note: string; size: number }, old: number, proof: Buffer[]) =>
    t.equal((await witness.add(additionText(old, proof, newest.note))).status, 200);
  const log = await aLog(t);
  const first = await log.grown(5, 'a');
  t.same(await askWitnesses(log.db, asked, first), well, 'it has signed none');
  await signs(first, 0, []);
  t.same(await askWitnesses(log.db, asked, first), well, 'it has signed this one');
  const second = await log.grown(300, 'b');
  t.same(await askWitnesses(log.db, asked, second), well, 'it has signed an earlier one');
  await signs(second, first.size, await readConsistencyProof(log.db, first.size, second.size));
  t.same(await askWitnesses(log.db, asked, second), well);
  t.same(await askWitnesses(log.db, asked, first), well, 'the log has grown since it was read');

  const copy = await aLog(t);
  const of_that_size = `it has signed a tree of ${second.size} events, and the log has no checkpoint of that size that fits$`;
  const short = await copy.grown(20, 'c');
  t.match(await askWitnesses(copy.db, asked, short), says(of_that_size));
  const equal = await copy.grown(second.size - short.size, 'd');
  t.equal(equal.size, second.size);
  const another = `it has signed another tree of ${second.size} events$`;
  t.match(await askWitnesses(copy.db, asked, equal), says(another));
  const longer = await copy.grown(10, 'e');
  t.match(
    await askWitnesses(copy.db, asked, longer),
    says(another),
    'by the checkpoint of that size',
  );
  t.match(await askWitnesses(copy.db, asked, first), says(of_that_size), 'of another log');
  t.same(await askWitnesses(log.db, asked, second), well, 'no question moved the witness on');

  await t.rejects(
    askWitnesses(await copy.ended(), asked, longer),
    { name: 'VerifyEnded', problems: [] },
    'so the command can print what it had found before',
  );
});

t.test('a log is not rolled back under a later name', async (t) => {
  const witness = await aWitness(t, [LOG_VERIFIER, RENAMED.signer.verifier]);
  const north = { name: 'north', key: witness.key, url: witness.url };
  const asked = { ...BOTH_NAMES, witnesses: [north] };
  const log = await aLog(t);
  const { note } = await log.grown(20, 'a');
  t.equal((await witness.add(additionText(0, [], note))).status, 200);
  const honest = await log.renamed();
  t.ok(honest.proven);
  const well = await askWitnesses(log.db, asked, honest.newest, honest.earlier);
  t.same(well, { problems: [], unanswered: [] });

  const copy = await aLog(t);
  await copy.grown(5, 'b');
  const { proven, newest, earlier } = await copy.renamed();
  t.ok(proven, 'by itself it is a log that got another name');
  matchLists(t, await askWitnesses(copy.db, asked, newest, earlier), {
    problems: [
      /^the log was rolled back or forked: witness north says that it has signed a tree of \d+ events/,
    ],
    unanswered: [],
  });
});

t.test('what a witness answers is not believed without its signature', async (t) => {
  const log = await aLog(t);
  const early = await log.grown(5, 'early');
  const newest = await log.grown(10, 'a');
  let status = 409;
  let body = '7\n';
  const bodies: string[] = [];
  let elsewhere = 0;
  let beforeAnswer = async () => {};
  const server = createServer((request, response) => {
    if (request.url === '/elsewhere') elsewhere++;
    request.on('data', (chunk) => bodies.push(String(chunk)));
    request.on('end', async () => {
      await beforeAnswer();
      response.writeHead(status, { Location: '/elsewhere' }).end(body);
    });
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  t.teardown(() => new Promise((closed) => server.close(closed)));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const asked = { ...policy, witnesses: policy.witnesses.map((each) => ({ ...each, url })) };
  const ask = () => askWitnesses(log.db, asked, newest);
  const of_seven = /^the log was .*: witness \w+ says that it has signed a tree of 7 events/;
  matchLists(t, await ask(), { problems: [of_seven, of_seven], unanswered: [] });
  t.equal(bodies[0], `old ${newest.size}\n\n${newest.note}`);
  body = '0\n';
  t.same(await ask(), { problems: [], unanswered: [] }, 'it has signed none');
  const now_s = Math.floor(Date.now() / 1000);
  const textOf = (note: string) => note.slice(0, note.lastIndexOf('\n\n') + 1);
  const text = textOf(newest.note);
  const [north] = witnesses;
  status = 200;
  for (const [seconds, how] of [
    [-630, 'behind'],
    [660, 'ahead of'],
  ] as const) {
    body = signatureLine(north!.sign(text, now_s + seconds));
    t.match(
      (await ask()).unanswered.find((line) => line.startsWith('witness north')),
      new RegExp(`the time of its signature is 1\\d minutes ${how} the clock of this machine`),
    );
  }
  body = signatureLine(north!.sign(text, now_s - 200));
  matchLists(t, await ask(), { problems: [], unanswered: { length: 1 } }, 'south did not sign');
  status = 409;
  body = '0\n';
  const both_asked = Promise.withResolvers<void>();
  let waiting = 0;
  // Both witnesses are asked.
  beforeAnswer = async () => {
    waiting += 1;
    if (waiting === 2) {
      await putCosignature(log.superuser, north!, 2, now_s - 900);
      both_asked.resolve();
    }
    await both_asked.promise;
  };
  t.same(await ask(), { problems: [], unanswered: [] }, 'it cosigned while it was asked');
  beforeAnswer = async () => {};
  for (const size of [0, 1]) {
    body = `${size}\n`;
    t.match(
      (await ask()).unanswered.find((line) => line.startsWith('witness north')),
      new RegExp(
        `says that it has signed a tree of ${size} events, and has signed one of ${newest.size}: `,
      ),
    );
  }
  body = `${early.size}\n`;
  const another = new RegExp(`says that it has signed another tree of ${early.size} events$`);
  const forked = { problems: [another, another], unanswered: [] };
  matchLists(t, await ask(), forked, 'that is worse than a lost file');
  let asks = 0;
  beforeAnswer = async () => {
    asks += 1;
    if (asks < 2) return;
    status = 200;
    body = signatureLine(north!.sign(textOf(early.note), now_s));
  };
  matchLists(
    t,
    await askWitnesses(log.db, { ...asked, witnesses: asked.witnesses.slice(0, 1) }, newest),
    { problems: [], unanswered: [/has lost its file/] },
    'its tree is ours',
  );
  beforeAnswer = async () => {};
  for (const [code, text, why] of [
    [200, '', /its answer has no signature of its own/],
    [200, '— north AAAA\n', /its answer has no signature of its own/],
    [500, '', /it answered 500$/],
    [409, 'many', /it answered 409$/],
    [307, '', /it answered 307$/],
    [409, '9'.repeat(20_000), /an answer over 16384 bytes/],
  ] as const) {
    status = code;
    body = text;
    const { problems, unanswered } = await ask();
    t.same(problems, [], `${code} ${text.slice(0, 10)}`);
    t.match(unanswered, [why, why]);
  }
  t.equal(elsewhere, 0, 'no redirect is followed');
  t.same(await askWitnesses(log.db, policy, newest), { problems: [], unanswered: [] }, 'no URL');
  t.same(await askWitnesses(log.db, null, null), { problems: [], unanswered: [] });
});
