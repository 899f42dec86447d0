/** Web's side of witnesses: real sockets, a real witness, a real log; and witnesses that are away, slow or lying. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import type { Context } from '../../src/cli/command.ts';
import { witnesses as witnessCheck } from '../../src/cli/doctor/witness_checks.ts';
import type { Db } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import { createLogKey } from '../../src/proof/log_key.ts';
import {
  keyText,
  NoteSigner,
  noteText,
  parseNote,
  signatureBy,
  signatureLine,
  type VerifierKey,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { judgeCheckpoint, parsePolicy, policyFor } from '../../src/proof/policy.ts';
import { cosign } from '../../src/queue/cosign.ts';
import { type Cosigning, createCosigning } from '../../src/queue/cosigning.ts';
import {
  createSealer,
  lastCheckpoint,
  noteWithCosignatures,
  type Sealer,
} from '../../src/store/checkpoints.ts';
import { runledger } from '../cli/command_line.ts';
import { world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { aWitness, type RunningWitness } from '../witness/a_witness.ts';
import { copyOf } from './copy_of.ts';

aloneOnItsServer();
t.setTimeout(900_000);

type Witness = { key: VerifierKey; url: string };
const NEVER = new AbortController().signal;
const KEY = createLogKey(Buffer.alloc(32, 7), 'log.test/one');

/** A log, and what a web process has of it. */
async function aLog(t: Test, key = KEY) {
  const w = await world(t);
  const web = (witnesses: readonly Witness[]) => aWeb(w.web, key, witnesses);
  return { w, db: w.web, web, append: (count: number) => append(w.db, count) };
}

type Web = {
  sealer: Sealer;
  cosigning: Cosigning;
  metrics: () => Promise<string>;
  round(): Promise<void>;
};

function aWeb(db: Db, key: typeof KEY, witnesses: readonly Witness[]): Web {
  const sealer = createSealer(key);
  const metrics = createMetrics();
  const log = createLog({ level: 'silent', process: 'web' });
  const cosigning = createCosigning({ witnesses, sealer, log, metrics, every_ms: 1 });
  const round = async () => {
    await Promise.all(cosigning.chores.map((chore) => chore.run(db, NEVER)));
  };
  return { sealer, cosigning, metrics: () => metrics.text(), round };
}

/** Seals all events. Other tests' transactions on the same server may hold the last ones up for a moment. */
async function sealAll(owner: Db, db: Db, { sealer }: Web): Promise<void> {
  const [{ n } = { n: 0 }] = await owner<{ n: number }[]>`
    select count(*)::integer as n from runledger.events`;
  const isSealed = async () => {
    await sealer.seal(db);
    return ((await lastCheckpoint(db))?.size ?? 0) >= n;
  };
  if (!(await eventually(isSealed))) throw new Error('not sealed');
}

async function append(db: Db, count: number): Promise<void> {
  await db`
    select runledger.append_events(runledger.permanent_id(), 0, '{account.created}', array['{"name": "x"}'::jsonb])
    from generate_series(1, ${count}::integer)`;
}

const cosignatures = async (db: Db) =>
  Number((await db`select count(*) as n from runledger.cosignatures`)[0]!['n']);

/** The far end of a stranger. */
async function aStranger(
  t: Test,
  answer: (res: ServerResponse, body: string) => void,
): Promise<Witness & { asked: string[] }> {
  const asked: string[] = [];
  const server = createServer(async (req, res) => {
    let body = '';
    for await (const chunk of req) body += chunk;
    asked.push(`${req.url} ${body}`);
    answer(res, body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { key: STRANGER.verifier, url, asked };
}

const STRANGER = new NoteSigner('stranger.test', WITNESS_KEY, Buffer.alloc(32, 8));
const textIn = (body: string) => parseNote(body.slice(body.indexOf('\n\n') + 2)).text;

t.test('each checkpoint is cosigned, and the policy accepts it', async (t) => {
  const { db, w, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  const mine = web([witness]);
  const { round, cosigning } = mine;
  const policy = policyFor([KEY.signer.verifier], [{ name: 'w', key: witness.key, url: null }]);
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

t.test('a witness that has more or less than the database says is followed', async (t) => {
  const { db, w, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(10);
  const mine = web([witness]);
  const { round, cosigning } = mine;
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

async function forkedAfterCopy(t: Test, events: { original: number; copy: number }) {
  const original = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await original.append(20);
  const first = original.web([witness]);
  await sealAll(original.w.db, original.db, first);
  await first.round();
  const copy = await copyOf(t, original.w);
  await original.append(events.original);
  await sealAll(original.w.db, original.db, first);
  await first.round();
  t.equal(first.cosigning.states()[0]!.problem, null);
  await append(copy.db, events.copy);
  return { original, copy, witness, first };
}

const checkpoints = async (db: Db) =>
  Number((await db`select count(*) as n from runledger.checkpoints`)[0]!['n']);

t.test(
  'a ledger that was restored from a copy signs nothing after its first contact',
  async (t) => {
    const { copy, witness, original, first } = await forkedAfterCopy(t, { original: 5, copy: 5 });
    const before = await checkpoints(copy.db);
    for (const start of ['a start', 'a restart']) {
      const web = aWeb(copy.web, KEY, [witness]);
      await web.round();
      t.match(
        web.cosigning.states(),
        [{ forked: true, problem: /has 2\d events, and it has cosigned one of/ }],
        start,
      );
      await t.rejects(
        web.sealer.seal(copy.web),
        /the log has forked: the witness witness\.test has another tree/,
      );
      t.match(web.sealer.problem(), /the log has forked/);
      t.match(await web.metrics(), /^runledger_witness_forked\{witness="witness\.test"\} 1$/m);
    }
    t.equal(await checkpoints(copy.db), before, 'nothing was signed');
    await original.append(1);
    await sealAll(original.w.db, original.db, first);
    await first.round();
    t.match(first.cosigning.states(), [{ forked: false, problem: null }], 'the original goes on');
  },
);

for (const [name, copied] of Object.entries({ 'as large': 5, larger: 600 }))
  t.test(`a restored ledger that was sealed and is ${name} is refused at once`, async (t) => {
    const { copy, witness } = await forkedAfterCopy(t, { original: 5, copy: copied });
    const web = aWeb(copy.web, KEY, [witness]);
    await sealAll(copy.db, copy.web, web);
    const before = await cosignatures(copy.db);
    await web.round();
    t.match(web.cosigning.states(), [{ forked: true }]);
    t.match(web.sealer.problem(), /the log has forked/);
    await append(copy.db, 1);
    await t.rejects(web.sealer.seal(copy.web), /the log has forked/);
    t.equal(await cosignatures(copy.db), before);
    await web.round();
    t.match(web.cosigning.states(), [{ forked: true }], 'it stays so');
    await witness.stop();
    await web.round();
    t.match(web.cosigning.states(), [{ forked: true }], 'and when the witness is away, too');
  });

t.test('a new name is not a fork', async (t) => {
  const { copy, witness } = await forkedAfterCopy(t, { original: 5, copy: 5 });
  const { repair } = await import('../../src/store/repair.ts');
  const renamed = createLogKey(Buffer.alloc(32, 7), 'log.test/two', [KEY.signer.verifier]);
  await repair(copy.db, renamed, { reason: 'restored from a copy', operator: 'test' });
  const dir = witness.dir;
  await witness.stop();
  const knowing = await aWitness(t, [KEY.signer.verifier, renamed.signer.verifier], { dir });
  const web = aWeb(copy.web, renamed, [knowing]);
  await web.round();
  await sealAll(copy.db, copy.web, web);
  await web.round();
  t.match(web.cosigning.states(), [{ forked: false, problem: null, cosigned: { behind: 0 } }]);
});

t.test('damaged tiles are our own problem, and not a fork', async (t) => {
  const { w, db, web, append } = await aLog(t);
  const witness = await aWitness(t, [KEY.signer.verifier]);
  await append(20);
  const mine = web([witness]);
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
      'a signature with its key id by another key': [
        /no signature by stranger/,
        (res, body) =>
          res.end(signatureLine({ ...other.sign(textIn(body)), id: STRANGER.verifier.id })),
      ],
      'a time to come': [
        /its clock is more than an hour ahead/,
        (res, body) =>
          res.end(line(STRANGER, textIn(body), Math.floor(Date.now() / 1000) + 90_000)),
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
      await sealAll(w.db, db, mine);
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
  const bad = await aStranger(t, (res) => res.writeHead(500).end());
  const sealer = createSealer(KEY);
  const log = createLog({ level: 'silent', process: 'web' });
  const every_ms = 60_000;
  const { chores } = createCosigning({
    witnesses: [bad],
    sealer,
    log,
    metrics: createMetrics(),
    every_ms,
  });
  await append(3);
  await sealAll(w.db, db, web([]));
  for (let n = 0; n < 5; n++) await chores[0]!.run(w.web, NEVER);
  t.equal(bad.asked.length, 1);
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
    await sealAll(log.w.db, log.db, mine);
    await mine.round();
    const last = parseNote(noteWithCosignatures((await lastCheckpoint(log.db))!));
    t.ok(signatureBy(last, witnesses[1 - n]!.key), `log ${n} is cosigned by the other's witness`);
    t.match(noteText(last), new RegExp(`^log.test/${n === 0 ? 'one' : 'two'}\n`));
  }
});

t.test('doctor asks each witness', async (t) => {
  const { w, original, copy, witness } = await forkedAfterCopy(t, { original: 5, copy: 5 }).then(
    (found) => ({ ...found, w: found.original.w }),
  );
  const away = { key: STRANGER.verifier, url: 'http://127.0.0.1:9' };
  const look = (db: Db, witnesses: readonly Witness[] | null) =>
    witnessCheck.look({ config: { witnesses }, database: async () => db } as unknown as Context);
  t.match(await look(w.db, null), [{ state: 'ok', found: /^none/ }]);
  t.match(await look((await aLog(t)).w.db, [witness]), [
    { state: 'ok', found: /there is no checkpoint yet/ },
  ]);
  await original.append(4);
  await sealAll(w.db, original.db, original.web([]));
  t.match(await look(w.db, [witness, away]), [
    { state: 'ok', found: /^witness\.test has cosigned \d+ events, 0 events and 0 s behind/ },
    {
      state: 'warn',
      found: /^stranger\.test has cosigned 0 events, \d+ events and \d+ s behind .*: .+/,
    },
  ]);
  t.match(await look(copy.db, [witness]), [
    { state: 'fail', found: /our tree has \d+ events, and it has cosigned one of \d+/ },
  ]);
});

t.test('the command `seal` asks before it signs, and prints the cosignatures', async (t) => {
  const { copy, original, witness } = await forkedAfterCopy(t, { original: 5, copy: 5 });
  const env = (url: string) => ({
    DATABASE_URL: url,
    RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64'),
    RUNLEDGER_LOG_ORIGIN: KEY.origin,
    RUNLEDGER_WITNESSES: `${keyText(witness.key)}=${witness.url}`,
  });
  await original.append(3);
  const printed = await runledger(['seal'], env(original.w.database.urls.owner));
  t.equal(printed.status, 0, printed.stderr);
  t.ok(signatureBy(parseNote(printed.stdout), witness.key), 'the witness has cosigned it');
  const before = await checkpoints(copy.db);
  const refused = await runledger(['seal'], env(copy.urls.owner));
  t.equal(refused.status, 1);
  t.match(refused.stderr, /the log has forked: the witness witness\.test has another tree/);
  t.equal(refused.stdout, '');
  t.equal(await checkpoints(copy.db), before);
  const policy = await runledger(['policy'], env(original.w.database.urls.owner));
  const judged = judgeCheckpoint(parsePolicy(policy.stdout), parseNote(printed.stdout));
  t.match(judged, { problem: null, cosigned: [{ name: 'witness.test' }] });
});
