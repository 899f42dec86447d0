/** Receipts over HTTP, from real runs of the service, with both verifiers. */
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { secretDigest } from '../../src/access/secret.ts';
import {
  keyText,
  NoteSigner,
  parseNote,
  signatureBy,
  signatureLine,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { lastCheckpoint, noteWithCosignatures } from '../../src/store/checkpoints.ts';
import { putCosignature, witnessName } from '../../src/store/cosignatures.ts';
import { setTier } from '../../src/store/keys.ts';
import { createReceipts } from '../../src/store/receipts.ts';
import { purgePayloads } from '../../src/store/retention.ts';
import { bothVerifiers, type Case } from '../proof/both_verifiers.ts';
import { MANIPULATIONS, recordManipulations } from '../proof/receipt_manipulations.ts';
import { key as logKey, seal } from '../store/seal_now.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { plain } from './support/plain.ts';
import { HELLO, type Service, startService } from './support/service.ts';

// needs: python3
aloneOnItsServer();

const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');
const witness = new NoteSigner('witness.example.org', WITNESS_KEY, Buffer.alloc(32, 3));
const POLICY = `log ${keyText(logKey.signer.verifier)}\nwitness w ${keyText(witness.verifier)}\nquorum w\n`;

const sealing = (t: Tap.Test, env: Record<string, string> = {}) =>
  startService(t, { webs: 1, env: { RUNLEDGER_SEAL_KEY: SEAL_KEY, ...env } });

/** Seals every event that has been appended, once no transaction runs that is older. */
async function sealAll({ db }: Pick<Service, 'db'>): Promise<void> {
  for (let left = true; left; ) {
    await seal(db);
    const [row] = await db<{ left: boolean }[]>`
      select exists (select from runledger.events e where (e.generation, e.xid) >= (
        select c.generation, c.to_xid from runledger.checkpoints c order by c.number desc limit 1)) as left`;
    left = row!.left;
  }
}

/** Seals the log, and has the witness cosign the newest checkpoint. */
async function sealAndCosign({ db }: Service): Promise<void> {
  await sealAll({ db });
  const [last] = await db<{ origin: string; size: string; note: string }[]>`
    select origin, size, note from runledger.checkpoints order by number desc limit 1`;
  const cosignature = witness.sign(parseNote(last!.note).text);
  const size = Number(last!.size);
  await putCosignature(db, { origin: last!.origin, size }, witness.verifier, cosignature);
}

const read = (service: Service, key: string, id: string, rest = '') =>
  service.call({ path: `/api/result/${id}${rest}`, key });

async function caseOf(service: Service, key: string, id: string, query = ''): Promise<Case> {
  // The web process seals, too, and may have done so just before.
  for (;;) {
    await sealAndCosign(service);
    const { status, json } = await read(service, key, id, '/proof');
    if (status === 202) continue;
    const record = (await read(service, key, id, query)).json;
    if (record.proof === null) continue;
    return { receipt: json, record, policy: POLICY };
  }
}

async function submitted(service: Service, key: string, body: object = {}): Promise<string> {
  const { json } = await service.submit(key, { ...HELLO, ...body });
  return json.id;
}

t.test('until the last event is sealed, the answer is 202', async (t) => {
  const service = await sealing(t);
  const key = await service.key();
  const id = await submitted(service, key);
  for (const status of ['pending', 'running']) {
    if (status === 'running') await service.worker.start(id);
    await sealAndCosign(service);
    const reply = await read(service, key, id, '/proof');
    t.equal(reply.status, 202, status);
    t.same(reply.json, { id });
    t.equal(reply.headers['retry-after'], '5');
  }
  await service.worker.finish(id);
  const { receipt, record } = await caseOf(service, key, id);
  t.equal(receipt.events.length, 3);
  t.same(Object.keys(receipt.openings).sort(), ['code', 'stdout']);
  t.equal(record!['proof'].index, receipt.events.at(-1)!.index);
});

t.test(
  'the record names its place in the tree once it is sealed, and the first checkpoint of it',
  async (t) => {
    // A process without the key seals nothing, so the test decides when.
    const service = await startService(t, { webs: 1 });
    const key = await service.key();
    const id = await submitted(service, key);
    await sealAll(service);
    t.equal((await read(service, key, id)).json.proof, null, 'it has not ended');
    await service.worker.finish(id);
    t.equal((await read(service, key, id)).json.proof, null, 'its end is not sealed');
    await sealAll(service);
    const [first] = await service.db`select max(size)::integer as size from runledger.checkpoints`;
    const { proof } = (await read(service, key, id)).json;
    t.equal(proof.checkpoint, first!['size']);
    t.equal(proof.index, first!['size'] - 1, 'the end is the last leaf');
    await service.worker.finish(await submitted(service, key));
    await sealAll(service);
    t.same((await read(service, key, id)).json.proof, proof, 'and never another one');
  },
);

t.test('a receipt has the newest checkpoint that most witnesses have cosigned', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key();
  const id = await submitted(service, key);
  // A cosigned checkpoint that has not all of the events is none for them.
  await sealAndCosign(service);
  await service.worker.finish(id);
  const sizeOf = async () => {
    const { json } = await read(service, key, id, '/proof');
    return Number(json.events[0].proof.split('\n\n')[1].split('\n')[1]);
  };
  const more = async () => {
    await submitted(service, key);
    await sealAll(service);
    const [row] = await service.db`select max(size)::integer as size from runledger.checkpoints`;
    return row!['size'] as number;
  };
  const first = await more();
  t.equal(await sizeOf(), first);
  await sealAndCosign(service);
  await more();
  const second = await more();
  t.equal(await sizeOf(), first, 'the witness has not cosigned the newest ones yet');
  const strangers = [1, 2].map(
    (n) => new NoteSigner(`stranger${n}`, WITNESS_KEY, Buffer.alloc(32, n)),
  );
  const [last] = await service.db`
    select origin, note from runledger.checkpoints order by number desc limit 1`;
  const { origin, note } = last as { origin: string; note: string };
  for (const stranger of strangers) {
    const cosignature = stranger.sign(parseNote(note).text);
    await putCosignature(service.db, { origin, size: second }, stranger.verifier, cosignature);
  }
  const { digest } = (
    await service.db<{ digest: Buffer }[]>`
    select digest from runledger.key_secrets limit 1`
  )[0]!;
  const known = await createReceipts(service.db, [witness.verifier]).read(digest, id);
  t.match(known, { kind: 'found' });
  const chosen = known.kind === 'found' ? known.receipt.events[0]!.proof : '';
  t.match(chosen.split('\n\n')[1]?.split('\n')[1], String(first), 'lines of strangers choose none');
  t.match(chosen, witness.verifier.name);
  await sealAndCosign(service);
  t.equal(await sizeOf(), second);
});

t.test(
  'lines that are no cosignatures neither choose a checkpoint nor get into a receipt',
  async (t) => {
    const service = await startService(t, { webs: 1 });
    const key = await service.key();
    const id = await submitted(service, key);
    await service.worker.finish(id);
    await sealAndCosign(service);
    const digest = secretDigest(key);
    const receipts = createReceipts(service.db, [witness.verifier]);
    const noteNow = async () => {
      const found = await receipts.read(digest, id);
      const [event] = found.kind === 'found' ? found.receipt.events : [];
      const proof = event?.proof ?? '';
      return parseNote(proof.slice(proof.indexOf('\n\n') + 2));
    };
    const cosigned = await noteNow();
    t.ok(signatureBy(cosigned, witness.verifier));
    const { name, id: key_id } = witness.verifier;
    const bytes = Buffer.alloc(72, 1);
    const lines = ['no signature\n', signatureLine({ name, id: key_id, bytes })];
    for (const line of lines) {
      await submitted(service, key);
      await sealAll(service);
      // A login of web may call it.
      await service.db`
      select runledger.put_cosignature(c.origin, c.size, ${witnessName(witness.verifier)}, now(), ${line})
      from runledger.last_checkpoint() c`;
      const stored = await service.db`
      select from runledger.cosignatures k where k.line = ${line} and k.size = (select max(c.size) from runledger.checkpoints c)`;
      t.equal(stored.length, 1);
      t.same(await noteNow(), cosigned, line);
      const last = await lastCheckpoint(service.db);
      t.equal(
        noteWithCosignatures(last!, [witness.verifier]),
        last!.note,
        'the rest of the note stays',
      );
    }
    await submitted(service, key);
    await sealAndCosign(service);
    const next = await noteNow();
    t.not(next.text, cosigned.text, 'a cosignature that verifies does');
    t.ok(signatureBy(next, witness.verifier));
  },
);

t.test('receipts of all kinds of submissions are proven by both verifiers', async (t) => {
  const service = await sealing(t, {
    RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK: 'on',
    RUNLEDGER_WEBHOOK_SCHEDULE: '100ms',
  });
  const key = await service.key();
  const { proven } = bothVerifiers(t);
  const { worker } = service;

  const hello = await submitted(service, key, {
    stdin: '19 23',
    args: ['a'],
    expected_output: '42',
  });
  await worker.finish(hello);
  await proven('a program that prints', await caseOf(service, key, hello));
  await proven('without a record', { ...(await caseOf(service, key, hello)), record: null });

  const silent = await submitted(service, key);
  await worker.finish(silent, {
    verdict: 'RE',
    exit_code: 3,
    stdout: new Uint8Array(),
    limits: { cpu_ms: 1500 },
    limit_exceeded: 'output',
  });
  await proven('no output', await caseOf(service, key, silent));

  const binary = await submitted(service, key);
  await worker.finish(binary, {
    stdout: Buffer.from([0, 255, 254]),
    stderr: Buffer.from('ü€😀\u0000'),
  });
  await proven('bytes, as base64', await caseOf(service, key, binary, '?encoding=base64'));

  const built = await submitted(service, key, { language: 'cpp' });
  const compile = {
    cpu_time_us: 1,
    wall_time_us: null,
    memory_peak_bytes: 3,
    exit_code: 0,
    cached: true,
  };
  await worker.finish(built, { compile, signal: 'SIGSEGV', verdict: 'SIG', exit_code: 139 });
  await proven('a compiled program', await caseOf(service, key, built));

  const failed = await submitted(service, key);
  await worker.finish(failed, { status: 'error', verdict: 'IE', exit_code: null });
  await proven('a failure of the service', await caseOf(service, key, failed));

  const cancelled = await submitted(service, key);
  await worker.start(cancelled);
  const asked = await service.call({
    path: `/api/submissions/${cancelled}`,
    key,
    method: 'DELETE',
  });
  t.match(asked, { status: 200, json: { status: 'cancelled' } });
  await proven('a cancelled submission', await caseOf(service, key, cancelled));

  const lost = await submitted(service, key);
  await worker.start(lost);
  await worker.executions.release([lost], 'shutdown');
  await worker.start(lost);
  await worker.finish(lost);
  await proven('an execution that was lost', await caseOf(service, key, lost));

  const hooked = await submitted(service, key, {
    webhook_url: 'http://127.0.0.1:9/',
    webhook_secret: 'x'.repeat(32),
  });
  await worker.finish(hooked);
  const delivered = await caseOf(service, key, hooked);
  await proven('a webhook', delivered);
  t.notOk(
    'webhook_url' in delivered.receipt.openings || 'webhook_body' in delivered.receipt.openings,
  );
});

t.test('every manipulation is found by both verifiers', async (t) => {
  const service = await sealing(t);
  const key = await service.key();
  const ids = [await submitted(service, key), await submitted(service, key)];
  await service.worker.finish(ids[0]!);
  await service.worker.finish(ids[1]!, { verdict: 'WA', stdout: Buffer.from('41\n') });
  // Leaves after them, so that their proofs have hashes on both sides.
  await service.worker.finish(await submitted(service, key));
  await caseOf(service, key, ids[1]!);
  const [real, other] = [await caseOf(service, key, ids[0]!), await caseOf(service, key, ids[1]!)];
  const { proven, wrong } = bothVerifiers(t);
  await proven('as it is', real);
  const all = [...MANIPULATIONS, ...recordManipulations(real.record!)];
  t.ok(all.length > 90, `${all.length} manipulations`);
  for (const [name, change] of all) {
    const given = structuredClone(real);
    change(given, structuredClone(other));
    t.not(JSON.stringify(given), JSON.stringify(real), `${name}: changes something`);
    await wrong(name, given);
  }
});

t.test('harmless differences are none', async (t) => {
  const service = await sealing(t);
  const key = await service.key();
  const id = await submitted(service, key);
  await service.worker.finish(id);
  const real = await caseOf(service, key, id);
  const { proven, wrong } = bothVerifiers(t);
  const changed = (change: (given: Case) => unknown) => {
    const given = structuredClone(real);
    change(given);
    return given;
  };
  await proven(
    'a record from before the sealing',
    changed((given) => Object.assign(given.record!, { proof: null })),
  );
  await proven(
    'a field that a later version adds',
    changed((given) => Object.assign(given.receipt, { more: 1 })),
  );
  const extra = (proof: string) => proof.replace('\nindex', '\nextra AAAA\nindex');
  await proven(
    'extra data',
    changed(({ receipt }) => {
      for (const event of receipt.events) event.proof = extra(event.proof);
    }),
  );
  await proven(
    'a signature of an unknown key',
    changed(({ receipt }) => {
      for (const event of receipt.events) event.proof += '— someone AAAAAAAA\n';
    }),
  );

  t.test('and purged bytes cannot be compared', async (t) => {
    t.equal(await purgePayloads(service.db, new Date()), 1);
    await sealAndCosign(service);
    const { json } = await read(service, key, id, '/proof');
    t.same(json.openings, {});
    await wrong(
      'an output without an opening',
      { ...real, receipt: json },
      /stdout: the receipt has no opening/,
    );
    await proven('but the events can', { ...real, receipt: json, record: null });
  });
});

t.test('who gets no receipt', async (t) => {
  const service = await sealing(t);
  const key = await service.key();
  const id = await submitted(service, await service.key());
  await service.worker.finish(id);
  await sealAndCosign(service);
  const [theirs, unknown] = [
    await read(service, key, id, '/proof'),
    await read(service, key, randomUUID(), '/proof'),
  ];
  t.equal(theirs.status, 404);
  t.equal(plain(theirs), plain(unknown), 'equal to the byte');
  t.equal((await service.call({ path: `/api/result/${id}/proof` })).status, 401);
  t.equal((await read(service, key, 'x', '/proof')).status, 400);
  t.equal((await read(service, key, id, '/proof?wait=true')).status, 400);
  await setTier(service.db, { name: 'once', per_minute: 1, concurrent: 1 });
  const once = await service.key({ tier: 'once' });
  const first = await read(service, once, id, '/proof');
  t.equal(first.headers['ratelimit-policy'], '"key";q=1;w=60', 'it counts against the rate');
  t.equal((await read(service, once, id, '/proof')).status, 429);
});

t.test('a service that does not seal says so', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key();
  const id = await submitted(service, key);
  const reply = await read(service, key, id, '/proof');
  t.equal(reply.status, 501);
  t.equal(reply.json.error, 'no_receipts');
  await service.worker.finish(id);
  await sealAll(service);
  t.equal((await read(service, key, id, '/proof')).status, 200, 'another process sealed it');
});

t.test('no receipt is given of an event that was changed after the sealing', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key();
  const id = await submitted(service, key);
  await service.worker.finish(id);
  await sealAll(service);
  await service.db.unsafe(`alter table runledger.events disable trigger refuse_change`);
  await service.db`
    update runledger.events set facts = facts || '{"exit_code": 1}' where stream = ${id} and version = 3`;
  t.equal((await read(service, key, id, '/proof')).status, 500);
  t.match(service.webs[0]!.written.join('\n'), /an event is not in the tree/);
  t.equal((await read(service, key, id)).json.proof, null, 'and the record claims no place');
});

declare namespace Tap {
  type Test = { teardown(work: () => unknown): void };
}
