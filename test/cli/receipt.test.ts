/** receipt and check-receipt, as a customer types them. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { keyText } from '../../src/proof/note.ts';
import { HELLO, startService } from '../http/support/service.ts';
import { key as logKey, seal } from '../store/seal_now.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { runledger } from './command_line.ts';

const DEEP = `{"id": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
const TWICE = '{"verdict": "WA", "verdict": "AC"}';

aloneOnItsServer();
const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');
const POLICY = `log ${keyText(logKey.signer.verifier)}\nquorum none\n`;

t.test('from a submission to a proof that is checked offline', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-receipt-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const file = async (name: string, content: string | object) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_SEAL_KEY: SEAL_KEY } });
  const key = await service.key();
  const { json } = await service.submit(key);
  const env = { RUNLEDGER_SERVER: service.webs[0]!.origin, RUNLEDGER_API_KEY: key };

  const asked = runledger(['receipt', json.id.toUpperCase()], env);
  // It has not ended, so the command waits; its first question is in the log of the service.
  const waits = (line: string) => line.includes('/api/result/{id}/proof') && line.includes('202');
  while (!service.webs[0]!.written.some(waits)) await wait(20);
  await service.worker.finish(json.id);
  await seal(service.db);
  const given = await asked;
  t.equal(given.status, 0, given.stderr);
  t.match(given.stderr, /waiting/);
  t.equal(JSON.parse(given.stdout).events.length, 3);

  const receipt = await file('receipt.json', given.stdout);
  const { json: found } = await service.call({ path: `/api/result/${json.id}`, key });
  const record = await file('record.json', found);
  const policy = await file('policy.txt', POLICY);
  const code = await file('hello.py', HELLO.code);
  // Nothing but files: a configuration that no command accepts, and no database.
  const offline = { RUNLEDGER_TLS: 'nonsense', DATABASE_URL: 'nonsense' };
  const check = (...args: string[]) => runledger(['check-receipt', ...args], offline);

  const well = await check(receipt, '--policy', policy, '--record', record, '--code', code);
  t.equal(well.status, 0, well.stderr);
  t.match(well.stdout, /^checked: code is what the log has the digest of$/m);
  t.match(well.stdout, /^checked: the record: id, .*proof$/m);
  t.match(well.stdout, /\nproven\n$/);

  const bare = await check(receipt, '--policy', policy);
  t.equal(bare.status, 0);
  t.match(bare.stdout, /^not checked: a record, because none was given$/m);
  t.match(bare.stdout, /^not checked: bytes that were not given: code, stdout$/m);

  const unbelieved = await check(receipt, '--record', record);
  t.equal(unbelieved.status, 1, 'a script must not take it for a proof');
  t.match(unbelieved.stdout, /\nconsistent, not proven\n$/);
  t.notMatch(unbelieved.stdout, /^proven$/m);

  const other = await file('other.json', { ...found, verdict: 'WA', exit_code: 1 });
  const wrong = await check(receipt, '--policy', policy, '--record', other);
  t.equal(wrong.status, 1);
  t.match(wrong.stdout, /^problem: verdict: the record says "WA", and the log "AC"$/m);
  t.match(wrong.stdout, /^problem: exit_code: the record says 1, and the log 0$/m);
  t.match(wrong.stdout, /\nNOT PROVEN\n$/);
  const json_report = JSON.parse(
    (await check(receipt, '--policy', policy, '--record', other, '--json')).stdout,
  );
  t.equal(json_report.verdict, 'wrong');

  const controls = await file('controls.json', { ...found, '\x1b[2J\nproven\n\u202e': 1 });
  const shown = await check(receipt, '--policy', policy, '--record', controls);
  t.equal(shown.status, 1);
  t.match(shown.stdout, String.raw`problem: \u001b[2J\u000aproven\u000a\u202e: the record says 1`);
  t.match(shown.stdout, /\nNOT PROVEN\n$/);

  const unusable: [string[], RegExp][] = [
    [[], /usage: \.\/runledger check-receipt FILE/],
    [[join(folder, 'none.json')], /none\.json: ENOENT/],
    [[policy, '--policy', policy], /policy\.txt: not a receipt: it is not JSON/],
    [[record, '--policy', policy], /record\.json: not a receipt/],
    [[receipt, '--policy', receipt], /--policy .*: not a policy: line 1/],
    [[receipt, '--policy', join(folder, 'none.txt')], /--policy .*ENOENT/],
    [[receipt, '--policy', policy, '--record', policy], /--record /],
    [[receipt, '--policy', policy, '--record', await file('list.json', '[]')], /not a record/],
    [[receipt, '--policy', policy, '--record', await file('deep.json', DEEP)], /nested more than/],
    [[receipt, '--policy', policy, '--record', await file('twice.json', TWICE)], /"verdict" twice/],
    [[await file('deep.json', DEEP), '--policy', policy], /not a receipt: it is nested more than/],
    [
      [await file('twice.json', TWICE), '--policy', policy],
      /not a receipt: it has "verdict" twice/,
    ],
    [[receipt, '--policy', policy, '--stdin', join(folder, 'none.txt')], /--stdin .*ENOENT/],
  ];
  const ran = await Promise.all(unusable.map(([args]) => check(...args)));
  for (const [n, { status, stdout, stderr }] of ran.entries()) {
    t.equal(status, 2, unusable[n]![1].source);
    t.match(stderr, unusable[n]![1]);
    t.equal(stdout, '');
  }
});

t.test('a receipt that cannot be had', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key();
  const { json } = await service.submit(key);
  const env = { RUNLEDGER_SERVER: service.webs[0]!.origin, RUNLEDGER_API_KEY: key };
  const none = '018f0000-0000-7000-8000-000000000000';
  const cases: [string[], Record<string, string>, number, RegExp][] = [
    [['x'], env, 2, /x is not the id of a submission/],
    [[json.id], { RUNLEDGER_SERVER: env.RUNLEDGER_SERVER }, 2, /RUNLEDGER_API_KEY is not set/],
    [[none], env, 1, /^018f\S+: the account of this key has no submission of this id$/m],
    [[json.id], env, 1, /does not seal its log/],
    [[json.id, '--server', 'nowhere'], env, 2, /must be an address that .*, not "nowhere"/],
  ];
  for (const [args, given, status, says] of cases) {
    const ran = await runledger(['receipt', ...args], given);
    t.equal(ran.status, status, says.source);
    t.match(ran.stderr, says);
    t.equal(ran.stdout, '');
  }
});
