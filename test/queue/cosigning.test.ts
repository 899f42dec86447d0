/** Web's side of witnesses: real sockets, a real witness, a real log; and witnesses that are away, slow or lying. */
import { once } from 'node:events';
import { copyFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import { additionText, SIZE_TYPE } from '../../src/proof/addition.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import {
  NoteSigner,
  noteText,
  parseNote,
  signatureBy,
  signatureLine,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { judgeCheckpoint, policyFor } from '../../src/proof/policy.ts';
import { cosign } from '../../src/queue/cosign.ts';
import { createCosigning } from '../../src/queue/cosigning.ts';
import { sealing } from '../../src/queue/sealing.ts';
import { createSealer, lastCheckpoint, noteWithCosignatures } from '../../src/store/checkpoints.ts';
import { putCosignature } from '../../src/store/cosignatures.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { aWitness, type RunningWitness, temporaryFolder } from '../witness/a_witness.ts';
import { copyOf } from './copy_of.ts';
import {
  aLog,
  append,
  aStranger,
  aWeb,
  cosignatures,
  KEY,
  NEVER,
  STRANGER,
  sealAll,
  type Witness,
} from './witnessed_log.ts';

aloneOnItsServer();

const textIn = (body: string) => parseNote(body.slice(body.indexOf('\n\n') + 2)).text;

t.test('each checkpoint is cosigned, and the policy accepts it', async (t) => {
  const { db, w, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  const mine = web([witness]);
  const { round, cosigning } = mine;
  const policy = policyFor([KEY.signer.verifier], [{ key: witness.key, url: null }]);
  await round();
  t.equal(cosigning.states()[0]!.cosigned, null, 'there is no checkpoint yet');
  for (const events of [1, 300, 1, 700, 2000]) {
    await append(events);
    await sealAll(w.db, db, mine);
    const bare = await lastCheckpoint(db);
    t.match(judgeCheckpoint(policy, parseNote(bare!.note)).problem, /too few witnesses/);
    await round();
    const last = await lastCheckpoint(db);
    const judged = judgeCheckpoint(policy, parseNote(noteWithCosignatures(last!)));
    t.equal(judged.problem, null, `${last!.size} events`);
    t.match(cosigning.states(), [
      {
        name: 'witness.test',
        problem: null,
        forked: false,
        cosigned: { size: last!.size, behind: 0, behind_s: 0 },
      },
    ]);
  }
  t.equal(await cosignatures(w.db), 5);
  await round();
  t.equal(await cosignatures(w.db), 5, 'nothing is asked twice');
});

t.test('a process that starts asks each witness, about a cosigned checkpoint, too', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(5);
  await sealAll(w.db, db, web([]));
  await web([witness]).round();
  const seen: string[] = [];
  const between = await aStranger(t, (res, body) => {
    seen.push(body);
    witness.add(body).then((answer) => res.writeHead(answer.status).end(answer.body));
  });
  const again = web([{ key: witness.key, url: between.url }]);
  await again.round();
  await again.round();
  t.equal(seen.length, 1);
  t.equal(again.cosigning.states()[0]!.problem, null);
});

t.test('nothing is sealed before each witness has answered, or failed to', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(5);
  const empty = web([witness]);
  await t.rejects(empty.sealer.seal(db), /^the witness witness\.test was not asked yet$/);
  await empty.round();
  t.equal(await lastCheckpoint(db), null, 'it was asked about the empty tree');
  t.match(empty.cosigning.states(), [{ problem: null, forked: false }]);
  await sealAll(w.db, db, empty);
  await append(5);
  const sealed = async () => (await lastCheckpoint(db))!.size;
  const before = await sealed();
  const log = createLog({ level: 'silent', process: 'web' });
  for (const status of [200, 500]) {
    const asked = Promise.withResolvers<{ res: ServerResponse; body: string }>();
    const between = await aStranger(t, (res, body) => asked.resolve({ res, body }));
    const again = web([{ key: witness.key, url: between.url }]);
    const seal = sealing(again.sealer, log);
    const round = again.round();
    const { res, body } = await asked.promise;
    await seal(db);
    t.equal(await sealed(), before, 'it waits for the answer');
    t.equal(again.sealer.problem(), 'the witness witness.test was not asked yet');
    const answer = await witness.add(body);
    res.writeHead(status).end(answer.body);
    await round;
    await again.sealer.check(db);
    t.equal(again.sealer.problem(), null, `${status}`);
  }
  const none = web([]);
  const isSealed = async () => {
    await sealing(none.sealer, log)(db);
    return (await sealed()) > before;
  };
  t.ok(await eventually(isSealed), 'without witnesses it waits for nobody');
});

t.test('the database cannot keep a process from asking the witnesses', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(5);
  await sealAll(w.db, db, web([]));
  await web([witness]).round();
  /** Replaces a function of ours by one that ends like this. Returns what puts it back. */
  const lying = async (name: string, ends: string) => {
    const [row] = await w.db<{ honest: string }[]>`
      select pg_get_functiondef(p.oid) as honest from pg_proc p
      where p.pronamespace = 'runledger'::regnamespace and p.proname = ${name}`;
    const header = row!.honest.slice(0, row!.honest.search(/\sAS \$/));
    await w.db.unsafe(
      `${header.replace(/LANGUAGE \w+/, 'LANGUAGE plpgsql')} as $f$ begin ${ends} end $f$`,
    );
    return () => w.db.unsafe(row!.honest);
  };
  const asked: string[] = [];
  const between = await aStranger(t, (res, body) => {
    asked.push(body);
    witness
      .add(body)
      .then(({ status, type, body }) =>
        res.writeHead(status, { 'Content-Type': type ?? '' }).end(body),
      );
  });
  const start = () => web([{ key: witness.key, url: between.url }]);
  const silent = start();
  let honest = await lying('cosigned', 'return;');
  await silent.round();
  t.ok(asked.length > 0, 'that it says nothing of the witness is no answer of the witness');
  await silent.sealer.check(db);
  await honest();

  const failing = start();
  honest = await lying('cosigned', `raise 'no';`);
  await t.rejects(failing.round());
  const reason = "the witness witness.test was not asked yet: web's log says why";
  await t.rejects(failing.sealer.check(db), { message: reason });
  t.equal(failing.sealer.problem(), reason, 'health says so, and not what the database said');
  await honest();
  await failing.round();
  await failing.sealer.check(db);

  const empty = start();
  honest = await lying('last_checkpoint', 'return;');
  await empty.round();
  await t.rejects(
    empty.sealer.check(db),
    /another tree \(our tree has 0 events, and it has cosigned/,
  );
  await honest();
  const goesOn = async () => {
    await empty.round();
    return empty.cosigning.states()[0]!.problem === null;
  };
  t.ok(await eventually(goesOn));
  await empty.sealer.check(db);
});

t.test('a database that was emptied is not built on', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(5);
  const before = web([witness]);
  await before.round();
  await sealAll(w.db, db, before);
  await before.round();
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  for (const table of ['checkpoints', 'cosignatures', 'log_tiles', 'log_sketch']) {
    await root.unsafe(`alter table runledger.${table} disable trigger all`);
    await root.unsafe(`delete from runledger.${table}`);
  }
  const after = web([witness]);
  await t.rejects(after.sealer.seal(db), /was not asked yet/);
  await after.round();
  await t.rejects(
    after.sealer.seal(db),
    /^the log has forked: the witness witness\.test has another/,
  );
  t.equal(await lastCheckpoint(db), null);
});

t.test(
  'a copy from before a change of the name signs no second tree under the new one',
  async (t) => {
    const { w, db, web, append: appendToIt } = await aLog(t);
    const renamed = createLogKey(Buffer.alloc(32, 9), 'log.test/two', [KEY.signer.verifier]);
    const witness = await aWitness(t, [KEY.signer.verifier, renamed.signer.verifier]);
    await appendToIt(20);
    const before = web([witness]);
    await before.round();
    await sealAll(w.db, db, before);
    await before.round();
    const copy = await copyOf(t, w);
    const after = aWeb(db, renamed, [witness]);
    await after.round();
    await appendToIt(5);
    await sealAll(w.db, db, after);
    await after.round();
    t.match(after.cosigning.states(), [{ problem: null, forked: false }]);
    await append(copy.db, 7);
    let fails = false;
    const way = createServer(async (req, res) => {
      const body = await text(req);
      // It answers about the old name alone.
      if (fails && body.includes(renamed.origin)) return void res.writeHead(500).end();
      const answer = await fetch(`${witness.url}${req.url}`, { method: 'POST', body });
      const headers = { 'content-type': answer.headers.get('content-type') ?? '' };
      res.writeHead(answer.status, headers).end(await answer.text());
    });
    await once(way.listen(0, '127.0.0.1'), 'listening');
    t.teardown(() => {
      way.close();
      way.closeAllConnections();
    });
    const url = `http://127.0.0.1:${(way.address() as AddressInfo).port}`;
    const wrong = aWeb(copy.db, renamed, [{ key: witness.key, url }]);
    for (const n of [1, 2, 3]) {
      fails = n === 2;
      await wrong.round();
      const why = /^the log has forked: the witness witness\.test has another tree/;
      await t.rejects(wrong.sealer.seal(copy.db), why, `round ${n}`);
      await wait(10);
    }
    t.equal((await lastCheckpoint(copy.db))!.origin, KEY.origin);
  },
);

t.test('a log goes back to an earlier name, whose tree it extends', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const other = createLogKey(Buffer.alloc(32, 9), 'log.test/two', [KEY.signer.verifier]);
  const again = createLogKey(Buffer.alloc(32, 7), KEY.origin, [other.signer.verifier]);
  const witness = await aWitness(t, [KEY.signer.verifier, other.signer.verifier]);
  for (const process of [web([witness]), aWeb(db, other, [witness]), aWeb(db, again, [witness])]) {
    await append(5);
    await process.round();
    await sealAll(w.db, db, process);
    await process.round();
    t.match(process.cosigning.states(), [{ problem: null, forked: false }]);
  }
  t.equal((await lastCheckpoint(db))!.origin, KEY.origin);
});

t.test('why a witness was not asked is said only while it is so', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(5);
  const { cosigning, round } = web([witness]);
  await w.db.unsafe('alter function runledger.last_checkpoint rename to hidden');
  await t.rejects(round());
  t.match(cosigning.waitsFor(), { reason: /not asked yet: web's log says why$/, failed: true });
  await w.db.unsafe('alter function runledger.hidden rename to last_checkpoint');
  // A round that is stopped while it asks leaves the question open.
  const stopping = new AbortController();
  stopping.abort();
  await cosigning.chores[0]!.run(db, stopping.signal);
  t.match(cosigning.waitsFor(), { reason: /not asked yet$/, failed: false });
  await round();
  t.equal(cosigning.waitsFor(), null);
});

t.test('a witness that has more or less than the database says is followed', async (t) => {
  const { db, w, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(10);
  const mine = web([witness]);
  const { round, cosigning } = mine;
  await round();
  await sealAll(w.db, db, mine);
  const stored = await lastCheckpoint(db);
  const asked = { db, key: witness.key, url: witness.url, checkpoint: stored!, stopping: NEVER };
  t.match(await cosign(asked, 0), { kind: 'cosigned', size: stored!.size });
  await append(10);
  await sealAll(w.db, db, mine);
  t.match(await cosign({ ...asked, checkpoint: (await lastCheckpoint(db))! }, 3), {
    kind: 'cosigned',
  });
  t.match(await cosign(asked, stored!.size), { kind: 'outrun' }, 'an older checkpoint');
  const fresh = await aWitness(t, [KEY.signer.verifier], { name: 'fresh.test' });
  t.match(
    await cosign({ ...asked, key: fresh.key, url: fresh.url }, 7),
    { kind: 'cosigned' },
    'a witness that has nothing, whatever we know',
  );
  await round();
  t.equal(cosigning.states()[0]!.problem, null);
  t.equal(await cosignatures(w.db), 3);
});

t.test('a witness that has gone back is a problem, and is not led on', async (t) => {
  const { db, w, web, append } = await aLog(t);
  const honest = await aWitness(t, [KEY.signer.verifier]);
  // The folder of the other one is as it was before it cosigned anything.
  const dir = await temporaryFolder(t);
  await copyFile(join(honest.dir, 'key'), join(dir, 'key'));
  await append(10);
  const mine = web([honest]);
  await mine.round();
  await sealAll(w.db, db, mine);
  await mine.round();
  t.match(mine.cosigning.states(), [{ problem: null, cosigned: { behind: 0 } }]);
  const { size } = (await lastCheckpoint(db))!;
  await honest.stop();
  const restored = await aWitness(t, [KEY.signer.verifier], { dir });
  t.same(restored.key, honest.key);
  const lost = {
    problem: `it says that it has signed a tree of 0 events, and has signed one of ${size}: it has lost its file and may sign another tree, or somebody answers in its place`,
    forked: false,
  };
  const later = web([restored]);
  await later.round();
  t.match(later.cosigning.states(), [lost], 'at a start');
  await append(5);
  await sealAll(w.db, db, later);
  await wait(10);
  await later.round();
  t.match(later.cosigning.states(), [{ ...lost, cosigned: { size } }], 'and it stays one');
  const newest = (await lastCheckpoint(db))!;
  t.match(
    await restored.add(additionText(newest.size, [], newest.note)),
    { status: 409, body: '0\n' },
    'it got no proof',
  );
});

t.test('a witness that another process leads on in between has not gone back', async (t) => {
  const { db, w, web, append } = await aLog(t);
  await append(10);
  const mine = web([]);
  await sealAll(w.db, db, mine);
  const checkpoint = (await lastCheckpoint(db))!;
  let asks = 0;
  const stranger = await aStranger(t, async (res, body) => {
    asks += 1;
    const { text } = parseNote(checkpoint.note);
    // It answered with its size, and cosigned for another process before the answer was read.
    if (asks === 1) {
      await putCosignature(db, checkpoint, STRANGER.verifier, STRANGER.sign(text));
      res.writeHead(409, { 'Content-Type': SIZE_TYPE }).end('0\n');
    } else res.end(signatureLine(STRANGER.sign(textIn(body))));
  });
  const asked = { db, ...stranger, checkpoint, stopping: NEVER };
  t.match(await cosign(asked, checkpoint.size), { kind: 'cosigned' });
  t.equal(asks, 2);
});

t.test('damaged tiles are our own problem, and not a fork', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(20);
  const mine = web([witness]);
  await mine.round();
  await sealAll(w.db, db, mine);
  await mine.round();
  await append(20);
  await sealAll(w.db, db, mine);
  await w.db.unsafe(`
    alter table runledger.log_tiles disable trigger only_grow;
    update runledger.log_tiles set hashes = set_byte(hashes, 5, get_byte(hashes, 5) # 1)`);
  const later = web([witness]);
  await later.round();
  t.match(later.cosigning.states(), [{ forked: false, problem: /our tiles do not give the root/ }]);
});

t.test(
  'a witness that is away, slow, lying or mad stops neither sealing nor another witness',
  async (t) => {
    const away = { key: STRANGER.verifier, url: 'http://127.0.0.1:9' };
    const other = new NoteSigner('stranger.test', WITNESS_KEY, Buffer.alloc(32, 9));
    const line = (signer: NoteSigner, text: string, at?: number) =>
      signatureLine(signer.sign(text, at));
    const answers: Record<string, [RegExp, (res: ServerResponse, body: string) => void]> = {
      'a signature by another key': [
        /no signature by stranger/,
        (res, body) => res.end(line(other, textIn(body))),
      ],
      'a signature of another text': [
        /no signature by stranger/,
        (res) => res.end(line(STRANGER, 'x\n')),
      ],
      'more of the text before a signature of it': [
        /no signature by stranger/,
        (res, body) => res.end(`x\n\n${line(STRANGER, `${textIn(body)}\nx\n`)}`),
      ],
      'a signature with its key id by another key': [
        /no signature by stranger/,
        (res, body) =>
          res.end(signatureLine({ ...other.sign(textIn(body)), id: STRANGER.verifier.id })),
      ],
      'a time to come': [
        /its clock is \d+ minutes ahead of ours/,
        (res, body) =>
          res.end(line(STRANGER, textIn(body), Math.floor(Date.now() / 1000) + 90_000)),
      ],
      'a time that is over': [
        /its clock is \d+ minutes behind ours/,
        (res, body) => res.end(line(STRANGER, textIn(body), Math.floor(Date.now() / 1000) - 600)),
      ],
      'a time beyond all': [
        /no signature|clock/,
        (res, body) => res.end(line(STRANGER, textIn(body), 2 ** 53 - 1)),
      ],
      nothing: [/no signature by stranger/, (res) => res.end()],
      garbage: [/no signature by stranger/, (res) => res.end(Buffer.alloc(5000, 0xfe))],
      'an endless answer': [
        /an answer over 16384 bytes/,
        (res) => {
          const more = () => {
            while (res.write('A'.repeat(60_000)));
          };
          res.on('drain', more);
          more();
        },
      ],
      'no HTTP': [/./, (res) => res.socket!.end('hello\r\n\r\n')],
      'a connection that is cut': [/./, (res) => res.socket!.destroy()],
      'a redirect': [
        /answered 307/,
        (res) => res.writeHead(307, { Location: `${away.url}/` }).end(),
      ],
      'no leave': [/answered 403: "who\?"/, (res) => res.writeHead(403).end('who?\n')],
      'an unknown origin': [/answered 404/, (res) => res.writeHead(404).end()],
      'a breakdown': [/answered 500/, (res) => res.writeHead(500).end('\x1b[2Jboom')],
      '409 without a type': [/409 without a size/, (res) => res.writeHead(409).end('9\n')],
      '409 with a word': [
        /409 without a size/,
        (res) => res.writeHead(409, { 'Content-Type': 'text/x.tlog.size' }).end('many\n'),
      ],
      '409 with the size that was sent': [
        /409 with the size that it was sent, 0/,
        (res) => res.writeHead(409, { 'Content-Type': 'text/x.tlog.size' }).end('0\n'),
      ],
      '409 with another size each time': [
        /another size each time/,
        (res, body) =>
          res
            .writeHead(409, { 'Content-Type': 'text/x.tlog.size' })
            .end(`${(Number(/^old (\d+)/.exec(body)![1]) + 1) % 7}\n`),
      ],
    };
    const { w, db, web, append } = await aLog(t);
    const honest = await aWitness(t, [KEY.signer.verifier]);
    const check = async (name: string, bad: Witness, problem: RegExp) => {
      const mine = web([bad, honest]);
      const { sealer, round, cosigning, metrics } = mine;
      await append(9);
      await sealAll(w.db, db, web([]));
      await round();
      const [state, good] = cosigning.states();
      t.match(
        state,
        { name: 'stranger.test', forked: false, problem, cosigned: { size: 0 } },
        name,
      );
      t.ok(state!.cosigned!.behind >= 9, `${name}: the lag`);
      t.match(good, { problem: null, cosigned: { behind: 0 } }, `${name}: another witness goes on`);
      t.match(await metrics(), /^runledger_witness_lag_leaves\{witness="stranger\.test"\} \d+$/m);
      await sealer.seal(db);
      t.equal(sealer.problem(), null, `${name}: sealing goes on`);
    };
    await check('away', away, /ECONNREFUSED|bad port/);
    for (const [name, [problem, answer]] of Object.entries(answers))
      await check(name, await aStranger(t, answer), problem);
  },
);

t.test('a witness may not be far from the database, though it is near to us', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const { now } = Date;
  const BEHIND_MS = 240_000;
  Date.now = () => now() - BEHIND_MS;
  t.teardown(() => {
    Date.now = now;
  });
  const behind = await aStranger(t, (res, body) =>
    res.end(
      signatureLine(STRANGER.sign(textIn(body), Math.floor((Date.now() - BEHIND_MS) / 1000))),
    ),
  );
  const mine = web([behind]);
  await append(9);
  await mine.round();
  await sealAll(w.db, db, mine);
  await mine.round();
  t.match(mine.cosigning.states(), [
    { problem: /its clock is [89] minutes behind the database's/ },
  ]);
  t.equal(await cosignatures(w.db), 0);
});

t.test('a witness that never answers is given up, and a stop does not wait for it', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const silent = await aStranger(t, () => {});
  const { round, cosigning } = web([silent]);
  await append(3);
  await sealAll(w.db, db, web([]));
  await round();
  t.match(cosigning.states(), [{ problem: /no answer within 10 s/ }]);
  const stopping = new AbortController();
  const again = web([silent]);
  const stopped = again.cosigning.chores[0]!.run(db, stopping.signal);
  while (silent.asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  stopping.abort();
  await stopped;
  t.match(again.cosigning.states(), [{ problem: null }], 'a stop is not its problem');
});

t.test('a witness that fails is asked less and less often', async (t) => {
  const { db, w, web, append } = await aLog(t);
  const asked_ms: number[] = [];
  const bad = await aStranger(t, (res) => {
    asked_ms.push(performance.now());
    res.writeHead(500).end();
  });
  const sealer = createSealer(KEY);
  const log = createLog({ level: 'silent', process: 'web' });
  const every_ms = 20;
  const { chores } = createCosigning({
    witnesses: [bad],
    sealer,
    log,
    metrics: createMetrics(),
    every_ms,
  });
  await append(3);
  await sealAll(w.db, db, web([]));
  while (asked_ms.length < 6) {
    await chores[0]!.run(w.web, NEVER);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  // A slow machine makes pauses longer only.
  for (const [n, began_ms] of asked_ms.slice(0, -1).entries()) {
    const [pause_ms, least_ms] = [asked_ms[n + 1]! - began_ms, every_ms * 2 ** n];
    t.ok(pause_ms >= least_ms, `pause ${n + 1}: ${pause_ms} ms of at least ${least_ms}`);
  }
});

t.test('two installations that watch each other', async (t) => {
  const keys = [KEY, createLogKey(Buffer.alloc(32, 6), 'log.test/two')] as const;
  const logs = [await aLog(t, keys[0]), await aLog(t, keys[1])] as const;
  const witnesses: RunningWitness[] = [];
  for (const [n, other] of [keys[1], keys[0]].entries())
    witnesses.push(await aWitness(t, [other.signer.verifier], { name: `witness.test/${n}` }));
  for (const [n, log] of logs.entries()) {
    const mine = log.web([witnesses[1 - n]!]);
    await log.append(30);
    await mine.round();
    await sealAll(log.w.db, log.db, mine);
    await mine.round();
    const last = parseNote(noteWithCosignatures((await lastCheckpoint(log.db))!));
    t.ok(signatureBy(last, witnesses[1 - n]!.key), `log ${n} is cosigned by the other's witness`);
    t.match(noteText(last), new RegExp(`^log.test/${n === 0 ? 'one' : 'two'}\n`));
  }
});
