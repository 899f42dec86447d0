import { createHmac } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { signatureHeaders } from '../../src/webhooks/sign.ts';

const id = '01970000-0000-7000-8000-00000000000a';
const body = Buffer.from('{"type":"submission.completed","data":{"stdout":"ü€😀"}}');
const at = new Date();
const sign = (secret: string) => signatureHeaders({ id, at, body, secret });
const DECODED = Buffer.from('0123456789abcdef0123456789abcdef');
const WHSEC = `whsec_${DECODED.toString('base64')}`;

t.test('the public library accepts the signature, with the secret as text', async (t) => {
  for (const secret of ['plain', 'ü€😀', 'x'.repeat(256), ' spaces and\ttabs ']) {
    const library = new Webhook(Buffer.from(secret, 'utf8'), { format: 'raw' });
    t.match(
      library.verify(body, sign(secret)),
      { type: 'submission.completed' },
      JSON.stringify(secret),
    );
  }
});

t.test(
  'a whsec_ secret signs twice: with its text, and with the key that it encodes',
  async (t) => {
    const headers = sign(WHSEC);
    t.equal(headers['webhook-signature'].split(' ').length, 2);
    t.match(new Webhook(WHSEC).verify(body, headers), { type: 'submission.completed' });
    t.match(new Webhook(WHSEC, { format: 'raw' }).verify(body, headers), {
      type: 'submission.completed',
    });
  },
);

t.test('whsec_ without valid base64 after it is ordinary text', async (t) => {
  for (const secret of [
    'whsec_',
    'whsec_=',
    'whsec_not base64',
    'whsec_ab!d',
    'whsec_abcde',
    'whsec_abc==',
    'whsec_abcd=',
    'WHSEC_YWJj',
    `${WHSEC}\n`,
  ]) {
    t.equal(sign(secret)['webhook-signature'].split(' ').length, 1, JSON.stringify(secret));
  }
});

t.test('the public library rejects another body, id, time and secret', async (t) => {
  const headers = sign('plain');
  const library = new Webhook('plain', { format: 'raw' });
  t.throws(
    () => library.verify(Buffer.concat([body, Buffer.from(' ')]), headers),
    /No matching signature/,
  );
  t.throws(
    () => library.verify(body, { ...headers, 'webhook-id': 'another' }),
    /No matching signature/,
  );
  const later = String(Number(headers['webhook-timestamp']) + 1);
  t.throws(
    () => library.verify(body, { ...headers, 'webhook-timestamp': later }),
    /No matching signature/,
  );
  t.throws(
    () => new Webhook('plaim', { format: 'raw' }).verify(body, headers),
    /No matching signature/,
  );
});

t.test('the headers match the specification exactly', async (t) => {
  const headers = signatureHeaders({
    id: 'msg_1',
    at: new Date(1_614_265_330_999),
    body: Buffer.from('{"test": 2432232314}'),
    secret: WHSEC,
  });
  const expected = (key: Uint8Array | string) =>
    `v1,${createHmac('sha256', key).update('msg_1.1614265330.{"test": 2432232314}').digest('base64')}`;
  t.same(headers, {
    'webhook-id': 'msg_1',
    'webhook-timestamp': '1614265330',
    'webhook-signature': `${expected(WHSEC)} ${expected(DECODED)}`,
  });
});

// The test vector of the public libraries.
t.test('the test vector of Standard Webhooks gives its signature', async (t) => {
  const headers = signatureHeaders({
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    at: new Date(1_614_265_330_000),
    body: Buffer.from('{"test": 2432232314}'),
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  });
  t.equal(
    headers['webhook-signature'].split(' ')[1],
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  );
});
