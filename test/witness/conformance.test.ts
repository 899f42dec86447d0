/** add-checkpoint of c2sp.org/tlog-witness over real sockets: every status, and bytes that are no request. */
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { additionText, cosignedNote } from '../../src/proof/addition.ts';
import { checkpointText } from '../../src/proof/checkpoint.ts';
import { EMPTY_ROOT } from '../../src/proof/merkle.ts';
import {
  cosignedAt,
  LOG_KEY,
  NoteSigner,
  noteText,
  parseNote,
  signatureLine,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { call, wire } from '../http/support/call.ts';
import { aWitness } from './a_witness.ts';
import { testLog } from './log_for_tests.ts';

const LEAVES = 700;
const log = testLog('log.test/one', LEAVES);
const fork = testLog('log.test/one', LEAVES, { branch: { from: 300, name: 'other ' } });
const logs = [log.signer.verifier];
const SIZE = { status: 409, type: 'text/x.tlog.size' };

t.test('200: a cosignature of the note, with the present time', async (t) => {
  const witness = await aWitness(t, logs);
  const before = Math.floor(Date.now() / 1000) * 1000;
  for (const [old, size] of [
    [0, 1],
    [1, 256],
    [256, 257],
    [257, LEAVES],
    [LEAVES, LEAVES],
  ] as const) {
    const answer = await witness.add(log.addition(old, size));
    t.equal(answer.status, 200, `${old} to ${size}: ${answer.body}`);
    const { text } = parseNote(log.note(size));
    t.match(answer.body, /^— witness\.test [A-Za-z0-9+/=]+\n$/);
    const cosigned = cosignedNote(text, answer.body, witness.key);
    t.ok(cosigned, 'it verifies');
    const at = cosignedAt(cosigned!.signatures[0]!).getTime();
    t.ok(at >= before && at <= Date.now(), 'it has the time');
  }
});

t.test('a checkpoint with more lines is cosigned with them', async (t) => {
  const witness = await aWitness(t, logs);
  const note = log.note(5, 'an extension\n');
  const answer = await witness.add(additionText(0, [], note));
  t.equal(answer.status, 200, answer.body);
  t.ok(cosignedNote(parseNote(note).text, answer.body, witness.key));
});

t.test(
  '400: a note that has no room for the cosignature, and the next one is cosigned',
  async (t) => {
    const witness = await aWitness(t, logs);
    const long = log.note(5, `${'x'.repeat(65_300)}\n`);
    t.match(await witness.add(additionText(0, [], long)), { status: 400, body: /no room/ });
    t.equal((await witness.add(log.addition(0, 5))).status, 200);
  },
);

t.test('409: the old size is another, and the answer is the size', async (t) => {
  const witness = await aWitness(t, logs);
  t.match(await witness.add(log.addition(3, 7)), { ...SIZE, body: '0\n' }, 'it has none yet');
  t.equal((await witness.add(log.addition(0, 300))).status, 200);
  t.match(await witness.add(log.addition(0, 400)), { ...SIZE, body: '300\n' });
  t.match(await witness.add(log.addition(299, 400)), { ...SIZE, body: '300\n' });
  t.match(await witness.add(log.addition(0, 200)), { ...SIZE, body: '300\n' }, 'a smaller tree');
  t.equal((await witness.add(log.addition(300, 400))).status, 200, 'the state has not changed');
});

t.test('409: another tree of the same size', async (t) => {
  const witness = await aWitness(t, logs);
  t.equal((await witness.add(log.addition(0, 400))).status, 200);
  t.match(await witness.add(fork.addition(400, 400)), { ...SIZE, body: '400\n' });
  t.equal((await witness.add(log.addition(400, 400))).status, 200);
});

t.test('422: the proof does not lead from the old tree to the new one', async (t) => {
  const witness = await aWitness(t, logs);
  const proof = log.proof(400, 600);
  const altered = proof.map((hash, n) => (n === 1 ? EMPTY_ROOT : hash));
  t.equal((await witness.add(log.addition(0, 400))).status, 200);
  for (const [name, body] of Object.entries({
    'another tree': fork.addition(400, 600),
    'a hash is missing': additionText(400, proof.slice(1), log.note(600)),
    'a hash too many': additionText(400, [...proof, EMPTY_ROOT], log.note(600)),
    'a hash is another': additionText(400, altered, log.note(600)),
    'no proof': additionText(400, [], log.note(600)),
    'a proof where none is needed': additionText(400, [EMPTY_ROOT], log.note(400)),
  }))
    t.equal((await witness.add(body)).status, 422, name);
  t.equal((await witness.add(log.addition(400, 600))).status, 200);
});

t.test('a fork is logged as one, and a proof that does not fit is not', async (t) => {
  const lines: string[] = [];
  const stream = new Writable({ write: (line, _, done) => done(void lines.push(String(line))) });
  const witness = await aWitness(t, logs, { log: pino({ level: 'error' }, stream) });
  t.equal((await witness.add(log.addition(0, 400))).status, 200);
  const stranger = additionText(400, [Buffer.alloc(32)], log.note(600));
  t.match(await witness.add(stranger), { status: 422, body: 'a proof that does not fit\n' });
  t.same(lines, []);
  t.equal((await witness.add(additionText(400, [], fork.note(400)))).status, 409);
  t.match(lines, [/the log has signed another tree of the size that was cosigned before/]);
  t.equal(await counted(witness, 'other_trees_total{origin="log.test/one"}'), 1);
});

const counted = async ({ url }: { url: string }, series: string) => {
  const { text } = await call(url, { path: '/metrics' });
  const line = text.split('\n').find((each) => each.startsWith(`runledger_witness_${series} `));
  return line && Number(line.split(' ')[1]);
};

t.test('what its operator must notice is counted from 0 on', async (t) => {
  const witness = await aWitness(t, logs);
  const failed = () => counted(witness, 'requests_total{status="500"}');
  t.equal(await failed(), 0);
  t.equal(await counted(witness, 'other_trees_total{origin="log.test/one"}'), 0);
  t.equal((await witness.add(log.addition(0, 300))).status, 200);
  const [file] = (await readdir(witness.dir)).filter((each) => each.endsWith('.checkpoint'));
  await mkdir(join(witness.dir, `${file}.new`));
  t.equal((await witness.add(log.addition(300, 400))).status, 500, 'it cannot be stored');
  t.equal(await failed(), 1);
  const cut = wire(Number(new URL(witness.url).port));
  cut.send('POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: 9\r\n\r\nold');
  cut.socket.end();
  await cut.ended();
  t.equal(await failed(), 1, 'a request that is cut off is not the failure of the witness');
});

t.test('422: a proof from the empty tree', async (t) => {
  const witness = await aWitness(t, logs);
  t.equal((await witness.add(additionText(0, [EMPTY_ROOT], log.note(4)))).status, 422);
});

t.test('the empty tree has one root', async (t) => {
  const witness = await aWitness(t, logs);
  const empty = (root: Buffer) => {
    const text = checkpointText({ origin: log.origin, size: 0, root });
    return additionText(0, [], noteText({ text, signatures: [log.signer.sign(text)] }));
  };
  t.match(await witness.add(empty(Buffer.alloc(32))), { ...SIZE, body: '0\n' });
  t.equal((await witness.add(empty(EMPTY_ROOT))).status, 200);
  t.equal((await witness.add(log.addition(0, 9))).status, 200);
});

t.test('404: an origin that it does not watch', async (t) => {
  const witness = await aWitness(t, logs);
  t.equal((await witness.add(testLog('log.test/two', 9).addition(0, 9))).status, 404);
});

t.test('403: no signature of the log verifies', async (t) => {
  const witness = await aWitness(t, logs);
  const { text } = parseNote(log.note(9));
  const stranger = new NoteSigner(log.origin, LOG_KEY, Buffer.alloc(32, 9));
  const asWitness = new NoteSigner(log.origin, WITNESS_KEY, Buffer.alloc(32, 1));
  const wrong = { ...log.signer.sign('other text\n') };
  for (const [name, signatures] of Object.entries({
    'of another key with its name': [stranger.sign(text)],
    'of its key, for another text': [wrong],
    'of its key, but as a cosignature': [asWitness.sign(text)],
    'one that verifies, and one that does not': [log.signer.sign(text), wrong],
  }))
    t.equal(
      (await witness.add(additionText(0, [], noteText({ text, signatures })))).status,
      403,
      name,
    );
});

t.test('signatures of unknown keys are ignored, and a log may change its key', async (t) => {
  const later = testLog(log.origin, LEAVES, { seed: 2 });
  const witness = await aWitness(t, [...logs, later.signer.verifier]);
  const { text } = parseNote(log.note(9));
  const strangers = [3, 4, 5].map((seed) =>
    new NoteSigner(log.origin, LOG_KEY, Buffer.alloc(32, seed)).sign(text),
  );
  const odd = { name: 'odd.example', id: '00000001', bytes: Buffer.alloc(4000, 7) };
  const signatures = [...strangers, odd, log.signer.sign(text)];
  t.equal((await witness.add(additionText(0, [], noteText({ text, signatures })))).status, 200);
  t.equal((await witness.add(later.addition(9, 20))).status, 200, 'the new key');
  t.equal((await witness.add(log.addition(20, 21))).status, 200, 'the old key');
  const spoilt = [log.signer.sign(text), later.signer.sign('other text\n')];
  const body = additionText(21, [], noteText({ text, signatures: spoilt }));
  t.equal((await witness.add(body)).status, 403, 'one key verifies, and the other does not');
});

t.test('400: the old size is over the size of the checkpoint', async (t) => {
  const witness = await aWitness(t, logs);
  t.equal((await witness.add(additionText(10, [], log.note(9)))).status, 400);
});

t.test('400: what is no request', async (t) => {
  const witness = await aWitness(t, logs);
  const good = log.addition(300, 600);
  const note = log.note(600);
  const hash = EMPTY_ROOT.toString('base64');
  const line = signatureLine(log.signer.sign('x\n'));
  const replaced = Buffer.from(additionText(0, [], log.note(5, 'x\ufffd\n')));
  const at = replaced.indexOf('\ufffd');
  const bad: Record<string, string | Buffer> = {
    nothing: '',
    'an empty line': '\n',
    'no old size': note,
    'a word instead of the size': good.replace('old 300', 'old many'),
    'a leading zero': good.replace('old 300', 'old 0300'),
    'a sign': good.replace('old 300', 'old +300'),
    'an exponent': good.replace('old 300', 'old 3e2'),
    'two spaces': good.replace('old 300', 'old  300'),
    'a size over 2^53': good.replace('old 300', 'old 9007199254740993'),
    'another word': good.replace('old 300', 'new 300'),
    'carriage returns': good.replaceAll('\n', '\r\n'),
    'no empty line after the proof': `old 0\n${note}`,
    'a hash that is too short': additionText(300, [Buffer.alloc(31)], note),
    'a hash that is too long': additionText(300, [Buffer.alloc(33)], note),
    'no base64': `old 300\n${'*'.repeat(44)}\n\n${note}`,
    'base64 with trailing bits': `old 300\n${hash.slice(0, -2)}W=\n\n${note}`,
    '64 hashes': additionText(300, new Array(64).fill(EMPTY_ROOT), note),
    'no note': 'old 0\n\n',
    'no signature': `old 0\n\n${parseNote(note).text}\n`,
    'a signature line without a dash': additionText(0, [], note.replace('— ', '- ')),
    'a signature that is too short': additionText(0, [], note.replace(/ \S+\n$/, ' AAAA\n')),
    'no checkpoint': additionText(0, [], `x\n\n${line}`),
    'a root of 31 bytes': additionText(
      0,
      [],
      `${log.origin}\n5\n${Buffer.alloc(31).toString('base64')}\n\n${line}`,
    ),
    'a negative size': additionText(0, [], `${log.origin}\n-5\n${hash}\n\n${line}`),
    'a NUL': additionText(0, [], note.replace('log', 'l\0g')),
    'no UTF-8': Buffer.concat([Buffer.from(good), Buffer.of(0xff, 0xfe)]),
    'no UTF-8, where its replacement was signed': Buffer.concat([
      replaced.subarray(0, at),
      Buffer.of(0xff),
      replaced.subarray(at + 3),
    ]),
    'half a character': Buffer.concat([Buffer.from(good), Buffer.of(0xe2, 0x80)]),
    'a byte order mark': `\ufeff${good}`,
    'no line feed at the end': good.slice(0, -1),
    '65 signatures': additionText(0, [], `${note}${line.repeat(64)}`),
  };
  for (const [name, body] of Object.entries(bad))
    t.equal((await witness.add(body)).status, 400, name);
  t.match(await witness.add(log.addition(0, 9)), { status: 200 }, 'and it goes on');
});

t.test('random bytes, and requests with a byte changed, never get a cosignature', async (t) => {
  const witness = await aWitness(t, logs);
  t.equal((await witness.add(log.addition(0, 300))).status, 200);
  const good = Buffer.from(log.addition(300, 600));
  for (let n = 0; n < 400; n++) {
    const body = Buffer.from(good);
    const at = (n * 7919) % good.length;
    body[at] = body[at]! ^ (1 << (n % 8));
    const { status, body: answer } = await witness.add(body);
    t.ok([400, 403, 404, 409, 422].includes(status), `byte ${at}, bit ${n % 8}: ${status}`);
    t.notMatch(answer, /^—/);
  }
  t.equal((await witness.add(good)).status, 200);
});

t.test('a body that is too large is not read', async (t) => {
  const witness = await aWitness(t, logs);
  const port = Number(new URL(witness.url).port);
  const endless = wire(port);
  endless.send('POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n');
  endless.socket.on('error', () => {});
  const chunk = `4000\r\n${'A'.repeat(0x4000)}\r\n`;
  for (let n = 0; n < 20; n++) endless.send(chunk);
  t.match(await endless.until(/\r\n\r\n/), /^HTTP\/1\.1 413 /);
  await endless.ended();
  t.equal((await witness.add(log.addition(0, 9))).status, 200);
});

t.test('other paths and methods', async (t) => {
  const witness = await aWitness(t, logs);
  const status = async (method: string, path: string) =>
    (await call(witness.url, { method, path })).status;
  t.equal(await status('GET', '/add-checkpoint'), 405);
  t.equal(await status('PUT', '/add-checkpoint'), 405);
  t.equal(await status('POST', '/'), 404);
  t.equal(await status('POST', '/health'), 404);
  t.equal(await status('POST', '/add-checkpoint?x=1'), 404);
  t.equal(await status('GET', '/../key'), 404);
  t.equal(await status('GET', '/constructor'), 404);
});

t.test('health and metrics name the trees that were cosigned', async (t) => {
  const witness = await aWitness(t, logs);
  await witness.add(log.addition(0, 300));
  await witness.add(log.addition(0, 400));
  const read = (path: string) => call(witness.url, { path });
  t.same((await read('/health')).json, {
    status: 'ok',
    name: 'witness.test',
    logs: [{ origin: 'log.test/one', size: 300 }],
  });
  const { text } = await read('/metrics');
  t.match(text, /^runledger_witness_tree_size\{origin="log\.test\/one"\} 300$/m);
  t.match(text, /^runledger_witness_requests_total\{status="409"\} 1$/m);
});

t.test('requests at the same moment for two trees: one of the trees is cosigned', async (t) => {
  for (let round = 0; round < 10; round++) {
    const witness = await aWitness(t, logs);
    await witness.add(log.addition(0, 300));
    const asked = Array.from({ length: 20 }, (_, n) => (n % 2 ? fork : log).addition(300, 400 + n));
    const answers = await Promise.all(asked.map((body) => witness.add(body)));
    t.equal(answers.filter(({ status }) => status === 200).length, 1);
    await witness.stop();
  }
});
