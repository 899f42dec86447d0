/** Test sets over HTTP: what is stored, what is rejected, and that nothing of a rejected upload stays. */
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { UPLOAD_BYTES_PER_S } from '../../src/domain/upload_pace.ts';
import { HOSTILE_ARCHIVES } from '../judging/hostile_archives.ts';
import { archiveOf, emptyTests, type Files, LEGACY, NEW } from '../judging/packages.ts';
import { zipOf } from '../judging/zip_writer.ts';
import { decided } from '../support/decided.ts';
import { eventually } from '../support/eventually.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { type Reply, wire } from './support/call.ts';
import { plain } from './support/plain.ts';
import { HELLO, type Service, startService } from './support/service.ts';

const PATH = '/api/test-sets';

const upload = (service: Service, key: string, archive: Uint8Array, headers = {}) =>
  service.call({
    method: 'POST',
    path: PATH,
    key,
    body: archive,
    headers: { 'content-type': 'application/zip', ...headers },
  });

async function stored(service: Service, key: string, files: Files): Promise<Reply['json']> {
  const reply = await upload(service, key, archiveOf(files));
  if (reply.status !== 201) throw new Error(reply.text);
  return reply.json;
}

/** What a web process holds of uploads: names in its folder, and open files without a name. */
function holdings(state: string, pid: number): string[] {
  const folder = join(state, 'uploads');
  const fds = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      return [];
    }
  });
  const open = fds.filter((target) => target.startsWith(folder));
  try {
    return [...open, ...readdirSync(folder)];
  } catch {
    return open;
  }
}

async function withState(t: Tap.Test, env: Record<string, string> = {}) {
  const state = mkdtempSync(join(tmpdir(), 'runledger-uploads-'));
  t.teardown(() => rmSync(state, { recursive: true, force: true }));
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_STATE_DIR: state, ...env } });
  const pid = service.webs[0]!.process.pid!;
  const rows = async () => {
    const [row] = await service.db`select
      (select count(*) from runledger.test_sets)::integer as sets,
      (select count(*) from runledger.contents)::integer as contents,
      (select count(*) from runledger.content_pieces)::integer as pieces,
      (select count(*) from runledger.events where type like 'test_set.%')::integer as events`;
    return row!;
  };
  return { service, rows, held: () => holdings(state, pid) };
}

t.test('a set is stored, listed, read and deleted', async (t) => {
  const { service, rows, held } = await withState(t);
  const key = await service.key();
  const files: Files = {
    ...NEW,
    'data/secret/2.in': 'in\n',
    'data/secret/2.ans': 'other\n',
    'output_validator/v.py': 'import sys; sys.exit(42)\n',
    'problem.yaml': `${NEW['problem.yaml']}limits:\n  time_limit: 2\n  memory: 512\n`,
  };
  const reply = await upload(service, key, archiveOf(files));
  t.equal(reply.status, 201, reply.text);
  const set = reply.json;
  t.equal(reply.headers.location, `${PATH}/${set.id}`);
  t.match(set, {
    id: /^f[0-9a-f]{7}-/,
    name: 'Sums',
    tests: 2,
    checker: 'python',
    interactive: false,
    sha256: /^[0-9a-f]{64}$/,
  });
  // 1.in and 2.in are the same content.
  const bytes = 'in\n'.length + 'out\n'.length + 'other\n'.length;
  t.equal(set.bytes, bytes + files['output_validator/v.py']!.length);
  t.same(await rows(), { sets: 1, contents: 4, pieces: 4, events: 1 });

  const other = await stored(service, key, LEGACY);
  const list = await service.call({ path: PATH, key });
  t.strictSame(list.json, { test_sets: [other, set] }, 'newest first');
  const one = await service.call({ path: `${PATH}/${set.id.toUpperCase()}`, key });
  t.strictSame(one.json, set);

  for (const each of [set, other]) {
    const path = `${PATH}/${each.id}`;
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const deleted = await service.call({ method: 'DELETE', path, key, headers: { traceparent } });
    t.equal(deleted.status, 204);
    const [event] = await service.db`
      select facts ->> 'traceparent' as traceparent from runledger.log where type = 'test_set.deleted'`;
    t.same(event, { traceparent });
    t.equal(deleted.text, '');
    t.equal((await service.call({ path, key })).status, 404);
    t.equal((await service.call({ method: 'DELETE', path, key })).status, 404);
  }
  t.same(await rows(), { sets: 0, contents: 0, pieces: 0, events: 4 });
  t.same(held(), []);
});

t.test('the same content is the same set, also if it is sent at the same moment', async (t) => {
  const { service, rows } = await withState(t);
  const key = await service.key({ account: 'one' });
  const first = await stored(service, key, LEGACY);
  const again = await upload(service, key, archiveOf(LEGACY));
  t.equal(again.status, 200);
  t.strictSame(again.json, first);
  const inside = Object.entries(LEGACY).map(([name, data]) => ({ name: `x/${name}`, data }));
  const packed = await upload(
    service,
    key,
    zipOf(inside.reverse().map((item) => ({ ...item, stored: true }))),
  );
  t.strictSame(packed.json, first, 'however it is packed');
  const sibling = await service.key({ account: 'one' });
  t.equal((await upload(service, sibling, archiveOf(LEGACY))).json.id, first.id);
  const stranger = await stored(service, await service.key(), LEGACY);
  t.not(stranger.id, first.id, 'a set belongs to its account');
  t.equal(stranger.sha256, first.sha256);
  t.match(await rows(), { sets: 2, contents: 2 }, 'and its bytes are stored once');
});

t.test('another account neither sees nor deletes nor uses a set', async (t) => {
  const { service } = await withState(t);
  const { id } = await stored(service, await service.key(), LEGACY);
  const stranger = await service.key();
  for (const method of ['GET', 'DELETE']) {
    const theirs = await service.call({ method, path: `${PATH}/${id}`, key: stranger });
    const unknown = `f${id.slice(1, -4)}0000`;
    const none = await service.call({ method, path: `${PATH}/${unknown}`, key: stranger });
    t.equal(theirs.status, 404);
    t.equal(plain(theirs), plain(none), 'equal to the byte');
  }
  t.strictSame((await service.call({ path: PATH, key: stranger })).json, { test_sets: [] });
  const reply = await service.submit(stranger, { ...HELLO, test_set: id });
  t.equal(reply.status, 400);
  t.match(reply.json.fields, [{ path: 'test_set' }]);
});

t.test('a set that a waiting submission needs is not deleted', async (t) => {
  const { service } = await withState(t);
  const key = await service.key();
  const { id } = await stored(service, key, LEGACY);
  const submitted = await service.submit(key, { ...HELLO, test_set: id });
  t.equal(submitted.status, 202, submitted.text);
  const path = `${PATH}/${id}`;
  const remove = () => service.call({ method: 'DELETE', path, key });
  t.match(await remove(), {
    status: 409,
    json: { error: 'in_use', message: /wait until.*or cancel it/ },
  });
  await service.worker.start(submitted.json.id);
  t.equal((await remove()).status, 409, 'nor one that runs');
  await service.worker.finish(submitted.json.id);
  t.equal((await remove()).status, 204);
  t.equal((await service.submit(key, { ...HELLO, test_set: id })).status, 400);
});

t.test('a bad archive is a 400 that names the entry, and nothing of it stays', async (t) => {
  const { service, rows, held } = await withState(t);
  const key = await service.key();
  // Those that need other bounds than a service has are for the reader's own test.
  const archives = HOSTILE_ARCHIVES.filter(([, , , , bounds]) => bounds === undefined);
  t.ok(archives.length > 40);
  for (const [title, items, expected, options] of archives) {
    const reply = await upload(service, key, zipOf(items, options));
    t.equal(reply.status, 400, `${title}: ${reply.text}`);
    t.equal(reply.json.error, 'invalid_request');
    const [{ path, message }] = reply.json.fields;
    t.match(`${path === '' ? 'the package' : path}: ${message}`, expected, title);
  }
  const IN_C = { ...LEGACY, 'problem.yaml': 'validation: custom\n' };
  const packages: [Files, string][] = [
    [{ ...LEGACY, 'data/secret/2.in': 'x' }, 'data/secret/2.in'],
    [{ 'problem.yaml': 'name: x\n' }, 'data/secret'],
    [{ ...LEGACY, 'problem.yaml': 'limits: [' }, 'problem.yaml'],
    [{ ...emptyTests('a'), 'b.in': '' }, 'b.in'],
    [{ ...LEGACY, ...checked(65) }, 'data'],
    [{ ...LEGACY, ...checked(1, 'x'.repeat(4097)) }, 'data'],
    [{ ...LEGACY, ...checked(40), 'data/secret/testdata.yaml': moreArgs(25) }, 'secret'],
    [{ ...IN_C, 'output_validators/v.c': '' }, 'output_validators/v.c'],
    [{ ...IN_C, 'output_validators/v/validate.c': '' }, 'output_validators/v/validate.c'],
  ];
  for (const [files, path] of packages) {
    const reply = await upload(service, key, archiveOf(files));
    t.equal(reply.status, 400, reply.text);
    t.equal(reply.json.fields[0].path, path);
  }
  for (const body of ['', 'PK', '{}', 'x'.repeat(1000)]) {
    const reply = await upload(service, key, Buffer.from(body));
    t.match(reply.json, { error: 'invalid_request', fields: [{ path: '' }] }, body.slice(0, 5));
  }
  t.same(await rows(), { sets: 0, contents: 0, pieces: 0, events: 0 });
  t.same(held(), []);
  const errors = service.webs[0]!.written.filter((line) => line.includes('request failed'));
  t.same(errors, [], 'none of them is an error of the service');
});

/** Arguments of a validator, which go before those of a group. */
function checked(count: number, word = 'x'): Files {
  const flags = Array(count).fill(word).join(' ');
  return {
    'problem.yaml': `name: x\nvalidation: custom\nvalidator_flags: ${flags}\n`,
    'output_validators/v.py': 'exit(42)',
  };
}

const moreArgs = (count: number) => `output_validator_flags: ${Array(count).fill('x').join(' ')}\n`;

t.test('a validator may have as many arguments as a program', async (t) => {
  const { service } = await withState(t);
  const files = { ...LEGACY, ...checked(40), 'data/secret/testdata.yaml': moreArgs(24) };
  t.match(await stored(service, await service.key(), files), { checker: 'python' });
});

t.test('an upload has bounds', async (t) => {
  const env = { RUNLEDGER_TEST_SET_BYTES: '100KiB', RUNLEDGER_ACCOUNT_TEST_SETS: '2' };
  const { service, rows, held } = await withState(t, env);
  const key = await service.key();
  const large = zipOf([
    { name: 'a.in', data: Buffer.alloc(60_000), stored: true },
    { name: 'a.ans', data: Buffer.alloc(60_000), stored: true },
  ]);
  const declared = await upload(service, key, large);
  t.match(declared, { status: 413, json: { message: /more than 100 KiB/ } });
  t.equal(declared.headers.connection, 'close');

  const line = wire(service.webs[0]!.port);
  line.send(head(key, 'Transfer-Encoding: chunked\r\n'));
  const chunk = `${(16_384).toString(16)}\r\n${'x'.repeat(16_384)}\r\n`;
  for (let n = 0; n < 8; n++) line.send(chunk);
  t.match(await line.ended(), /^HTTP\/1\.1 413 /, 'without a declared size');
  line.socket.destroy();

  const bomb = zipOf([
    { name: 'a.in', data: Buffer.alloc(200_000) },
    { name: 'a.ans', data: '' },
  ]);
  const unpacked = await upload(service, key, bomb);
  t.equal(unpacked.status, 400);
  t.match(unpacked.json.fields, [{ path: 'a.in', message: /unpacks to more than 102400 bytes/ }]);
  t.same(await rows(), { sets: 0, contents: 0, pieces: 0, events: 0 });

  await stored(service, key, emptyTests('x'));
  await stored(service, key, emptyTests('y'));
  t.equal((await upload(service, key, archiveOf(emptyTests('y')))).status, 200);
  const full = await upload(service, key, archiveOf(emptyTests('a')));
  t.match(full, { status: 403, json: { error: 'quota_exceeded' } });
  const { json } = await service.call({ path: PATH, key });
  await service.call({ method: 'DELETE', path: `${PATH}/${json.test_sets[0].id}`, key });
  t.equal((await upload(service, key, archiveOf(emptyTests('a')))).status, 201);
  t.same(held(), []);
});

t.test('what a set takes beside its files counts for the quota of bytes', async (t) => {
  const { service } = await withState(t, { RUNLEDGER_ACCOUNT_TEST_SET_BYTES: '200KiB' });
  const key = await service.key();
  // 300 empty tests with long names: no byte in files, and some 150 KB in the list of them.
  const listed = (first: string) =>
    emptyTests(...Array.from({ length: 300 }, (_, n) => `${first}${n}`.padEnd(230, 'n')));
  t.match(await stored(service, key, listed('a')), { bytes: 0 }, 'that of its files');
  const again = await upload(service, key, archiveOf(listed('a')));
  t.equal(again.status, 200, 'one that it has is no other');
  const full = await upload(service, key, archiveOf(listed('b')));
  t.match(full, { status: 403, json: { error: 'quota_exceeded' } });
  t.equal((await upload(service, key, archiveOf(emptyTests('x')))).status, 201, 'it has room');
  const { json } = await service.call({ path: PATH, key });
  const { id } = json.test_sets.find(({ tests }: { tests: number }) => tests === 300);
  await service.call({ method: 'DELETE', path: `${PATH}/${id}`, key });
  t.equal((await upload(service, key, archiveOf(listed('b')))).status, 201);
  const large = { ...emptyTests('y'), 'y.in': 'y'.repeat(100_000) };
  t.equal((await upload(service, key, archiveOf(large))).status, 403, 'files count, too');
});

t.test('what is no zip archive of a known key is not read', async (t) => {
  const { service, held } = await withState(t);
  const key = await service.key();
  const archive = archiveOf(LEGACY);
  const types = ['application/json', 'application/zipped', 'text/plain', ''];
  for (const type of types) {
    const reply = await upload(service, key, archive, { 'content-type': type });
    t.equal(reply.status, 415, type);
    t.equal(reply.headers.accept, 'application/zip');
  }
  const encoded = await upload(service, key, archive, { 'content-encoding': 'gzip' });
  t.equal(encoded.status, 415);
  const parameter = await service.call({
    method: 'POST',
    path: `${PATH}?name=x`,
    key,
    body: archive,
    headers: { 'content-type': 'application/zip' },
  });
  t.match(parameter.json, { error: 'invalid_request', fields: [{ path: '?name' }] });
  for (const wrong of [undefined, 'x', `${key.slice(0, -6)}000000`]) {
    const reply = await service.call({ method: 'POST', path: PATH, key: wrong, body: archive });
    t.equal(reply.status, 401);
  }
  const line = wire(service.webs[0]!.port);
  line.send(head('rl_live_x', 'Expect: 100-continue\r\nContent-Length: 100000000\r\n'));
  t.match(await line.ended(), /^HTTP\/1\.1 401 /, 'and it is not asked for it');
  line.socket.destroy();
  t.same(held(), []);
});

t.test('a client that waits to be asked for its archive is asked', async (t) => {
  const { service } = await withState(t);
  const archive = archiveOf(LEGACY);
  const line = wire(service.webs[0]!.port);
  const key = await service.key();
  line.send(head(key, `Expect: 100-continue\r\nContent-Length: ${archive.length}\r\n`));
  t.match(await line.until(/\r\n\r\n/), /^HTTP\/1\.1 100 Continue\r\n\r\n$/);
  line.send(archive);
  const ANSWER = /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 Created\r\n/;
  t.match(await line.until(/\r\n\r\nHTTP.*\r\n/), ANSWER);
  line.socket.destroy();
});

t.test('a client that hangs up, or is too slow, leaves nothing', async (t) => {
  const { service, rows, held } = await withState(t, { RUNLEDGER_REQUEST_TIMEOUT: '10s' });
  const { port } = service.webs[0]!;
  const key = await service.key();
  const archive = archiveOf(LEGACY);
  const start = head(key, `Content-Length: ${archive.length}\r\n`);

  const gone = wire(port);
  gone.send(start);
  gone.send(archive.subarray(0, -1));
  const hasNoName = () => held().length === 1 && held()[0]!.endsWith('(deleted)');
  t.ok(await eventually(hasNoName), 'its bytes are in a file that has no name');
  gone.socket.destroy();
  t.ok(await eventually(() => held().length === 0), 'which is closed when it hangs up');

  const slow = wire(port);
  slow.send(start);
  slow.send(archive.subarray(0, -1));
  t.equal(await slow.ended(), '', 'a slow one gets no answer');
  slow.socket.destroy();
  t.ok(await eventually(() => held().length === 0));
  t.same(await rows(), { sets: 0, contents: 0, pieces: 0, events: 0 });
  t.equal((await upload(service, key, archive)).status, 201, 'and it keeps no room');
});

t.test('an archive may take longer than other requests, if it comes fast enough', async (t) => {
  const WINDOW_MS = 5_000;
  const { service, held } = await withState(t, { RUNLEDGER_REQUEST_TIMEOUT: `${WINDOW_MS}ms` });
  const { port } = service.webs[0]!;
  const half = { data: Buffer.alloc(8 * 2 ** 20), stored: true };
  const archive = zipOf(['a.in', 'a.ans'].map((name) => ({ name, ...half })));
  const bytes_per_ms = (5 * UPLOAD_BYTES_PER_S) / 1_000;
  await decided(async () => {
    const [key, other] = [await service.key(), await service.key()];
    const line = wire(port);
    t.teardown(() => line.socket.destroy());
    line.send(head(key, `Content-Length: ${archive.length}\r\n`));
    const rest = archive.length - 1;
    let [sent, sent_ms, isLate] = [0, performance.now(), false];
    // As many as its time has to bring, and four times as many beside.
    const sending = setInterval(() => {
      const [from, passed_ms] = [sent, performance.now() - sent_ms];
      sent = Math.min(sent + Math.ceil(passed_ms * bytes_per_ms), rest);
      sent_ms += passed_ms;
      isLate ||= passed_ms > WINDOW_MS / 2 || sent === rest;
      line.send(archive.subarray(from, sent));
    }, 100);
    t.teardown(() => clearInterval(sending));
    t.ok(await eventually(() => held().length === 1));
    for (const nth of ['first', 'second']) {
      const begun = `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${other}\r\n`;
      const request = wire(port);
      request.send(`${begun}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`);
      t.equal(await request.ended(), '', `longer than the ${nth} request that began after it`);
      request.socket.destroy();
      t.equal(
        (await upload(service, other, archiveOf(LEGACY))).status,
        nth === 'first' ? 201 : 200,
      );
      t.equal((await service.submit(other)).status, 202);
    }
    clearInterval(sending);
    if (isLate) {
      line.socket.destroy();
      t.ok(await eventually(() => held().length === 0));
      return 'too slow';
    }
    line.send(archive.subarray(sent));
    await line.until(/^HTTP\/1\.1 201 Created\r\n/);
    line.socket.destroy();
    t.ok(await eventually(() => held().length === 0));
    return 'decided';
  });
});

t.test('who trickles an archive is cut, and others go on beside it', async (t) => {
  const { service, held } = await withState(t, { RUNLEDGER_REQUEST_TIMEOUT: '4s' });
  const { port, written } = service.webs[0]!;
  const [key, other] = [await service.key(), await service.key()];
  const line = wire(port);
  line.send(head(key, 'Content-Length: 100000000\r\n'));
  const drip = setInterval(() => line.send('x'), 100);
  t.teardown(() => clearInterval(drip));
  t.ok(await eventually(() => held().length === 1));
  t.equal((await upload(service, other, archiveOf(LEGACY))).status, 201);
  t.equal((await service.submit(other)).status, 202);
  t.equal(await line.ended(), '', 'nothing is answered');
  line.socket.destroy();
  t.ok(await eventually(() => held().length === 0));
  const logged = () => written.some((text) => text.includes('"cause":"too slow"'));
  t.ok(await eventually(logged), 'the log says why');
  t.equal((await upload(service, key, archiveOf(LEGACY))).status, 201, 'and it keeps no room');
});

t.test('a stranger gets no longer for an archive than for any request', async (t) => {
  const { service, held } = await withState(t, { RUNLEDGER_REQUEST_TIMEOUT: '2s' });
  const { port } = service.webs[0]!;
  const size = 'Content-Length: 100000000\r\n';
  const unknown = `${(await service.key()).slice(0, -6)}000000`;
  const starts: Record<string, [string, RegExp]> = {
    'a key that is none': [head('x', size), /^HTTP\/1\.1 401 /],
    'an unknown key': [head(unknown, size), /^HTTP\/1\.1 401 /],
    'chunks without a key': [head('', 'Transfer-Encoding: chunked\r\n'), /^HTTP\/1\.1 401 /],
    'a head without an end': [head('x', size).slice(0, -2), /^$/],
  };
  for (const [what, [start, expected]] of Object.entries(starts)) {
    const line = wire(port);
    line.send(start);
    // Right in each of them: a mistake could be answered first, with a 400.
    const piece = start.includes('chunked') ? '1\r\nx\r\n' : 'x';
    const drip = setInterval(() => line.send(piece), 100);
    t.match(await line.ended(), expected, what);
    // It reads an answer, and goes on sending.
    await eventually(() => line.socket.destroyed);
    clearInterval(drip);
    t.same(held(), []);
  }
});

t.test('an upload does not wait for ever for what somebody else has locked', async (t) => {
  const { service, held } = await withState(t);
  const [one, other] = [await service.key(), await service.key({ account: 'other' })];
  const archive = archiveOf(LEGACY);
  await service.db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('runledger test sets'))`;
    const late = await Promise.all([one, other].map((key) => upload(service, key, archive)));
    t.same(
      late.map(({ status }) => status),
      [503, 503],
    );
    t.ok(await eventually(() => held().length === 0));
  });
  t.equal((await upload(service, one, archive)).status, 201, 'and it keeps no room');
});

t.test('accounts that send slowly keep nobody else out', async (t) => {
  const { service, held } = await withState(t, { RUNLEDGER_REQUEST_TIMEOUT: '5min' });
  const { port } = service.webs[0]!;
  const archive = archiveOf(LEGACY);
  const keys = await Promise.all([1, 2, 3].map(() => service.key()));
  const lines = keys.map((key) => {
    const line = wire(port);
    line.send(head(key, `Content-Length: ${archive.length}\r\n`));
    line.send(archive.subarray(0, 1));
    return line;
  });
  t.ok(await eventually(() => held().length === 3));
  t.equal((await upload(service, await service.key(), archive)).status, 201);
  const again = await upload(service, keys[0]!, archive);
  t.match(again, { status: 503, json: { error: 'unavailable' } }, 'of one account one at a time');
  t.match(again.json.message, /^Your account is sending another test set/);
  t.equal(again.headers['retry-after'], '30', 'six tries last as long as storing may take');
  for (const line of lines) {
    line.send(archive.subarray(1));
    await line.until(/ 201 Created/);
    line.socket.destroy();
  }
  t.ok(await eventually(() => held().length === 0));
});

t.test('what has arrived is stored in its turn', async (t) => {
  const { service, held } = await withState(t);
  const archive = archiveOf(LEGACY);
  const keys = await Promise.all([1, 2, 3, 4].map(() => service.key()));
  const unlock = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const locking = service.db.begin(async (tx) => {
    await tx`lock table runledger.content_pieces in exclusive mode`;
    locked.resolve();
    await unlock.promise;
  });
  await locked.promise;
  const beingStored = async () => (await lockWaits(service.db, 'content_pieces')) === 2;
  // Like any client: on a busy machine its patience may end.
  const patiently = async (key: string): Promise<Reply> => {
    const reply = await upload(service, key, archive);
    return reply.status === 503 ? patiently(key) : reply;
  };
  const stored = keys.slice(0, 2).map((key) => upload(service, key, archive));
  t.ok(await eventually(beingStored));
  const gone = wire(service.webs[0]!.port);
  gone.send(head(keys[2]!, `Content-Length: ${archive.length}\r\n`));
  gone.send(archive);
  stored.push(patiently(keys[3]!));
  // The file of one that is being stored is open twice.
  const files = () => new Set(held()).size;
  t.ok(await eventually(() => files() === 4));
  gone.socket.destroy();
  t.ok(await eventually(() => files() === 3), 'one that hangs up leaves the line');
  t.ok(await beingStored(), 'the others wait without a connection');
  unlock.resolve();
  await locking;
  t.same(
    (await Promise.all(stored)).map(({ status }) => status),
    [201, 201, 201],
  );
  t.ok(await eventually(() => held().length === 0));
});

function head(key: string, more: string): string {
  return `POST ${PATH} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/zip\r\n${more}\r\n`;
}

declare namespace Tap {
  type Test = { teardown(work: () => unknown): void };
}
