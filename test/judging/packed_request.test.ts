/** What a request says about judging survives its payload, and equal requests have equal payloads. */
import t from 'tap';
import {
  type JudgingRequest,
  NOT_JUDGED,
  packRequest,
  unpackRequest,
} from '../../src/judging/packed_request.ts';

const MiB = 2 ** 20;
const bytes = (text: string) => Buffer.from(text);
const text = (packed: Uint8Array | null) => Buffer.from(packed!).toString();

const FULL: JudgingRequest = {
  files: [
    { path: 'a/b', bytes: bytes('é\ufeff\0') },
    { path: 'c', bytes: Buffer.from([0xff, 0, 0xfe]) },
  ],
  tests: [
    { name: null, stdin: bytes(''), expected_output: null, args: null, limits: {} },
    {
      name: 'two',
      stdin: Buffer.from([0x80]),
      expected_output: bytes(''),
      args: [],
      limits: { memory_bytes: 5, cpu_time_ms: 10 },
    },
  ],
  test_set: 'f1980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11',
  stop: 'never',
  compare: { by: 'tokens', case_sensitive: false, absolute: null, relative: 1e-9 },
  checker: {
    language: 'python',
    source: 'main.py',
    files: [{ path: 'main.py', bytes: bytes('exit(42)') }],
    protocol: 'icpc',
  },
  interactor: {
    language: 'cpp',
    source: 'main.cpp',
    files: [
      { path: 'main.cpp', bytes: bytes('') },
      { path: 'testlib.h', bytes: bytes('x') },
    ],
    protocol: 'testlib',
  },
  stdin_file: 'in.txt',
  stdout_file: 'out.txt',
  outputs: ['*.png'],
  transcript: true,
};

t.test('a request comes back as it was', async (t) => {
  t.strictSame(unpackRequest(packRequest(FULL)!), FULL);
  for (const name of Object.keys(FULL) as (keyof JudgingRequest)[]) {
    const one = { ...NOT_JUDGED, [name]: FULL[name] };
    t.strictSame(unpackRequest(packRequest(one)!), one, name);
    const packed = JSON.parse(text(packRequest(one)));
    t.strictSame(Object.keys(packed), [name], `${name}: the rest is left out`);
  }
});

t.test('a request without judging has no payload', async (t) => {
  t.equal(packRequest(NOT_JUDGED), null);
});

t.test('equal requests have equal payloads, whatever the order of their names', async (t) => {
  const reversed = Object.fromEntries(Object.entries(FULL).reverse()) as JudgingRequest;
  const tests = FULL.tests!.map((test) => ({
    ...(Object.fromEntries(Object.entries(test).reverse()) as typeof test),
    limits: Object.fromEntries(Object.entries(test.limits).reverse()),
  }));
  const compare = Object.fromEntries(Object.entries(FULL.compare as object).reverse());
  const other = { ...reversed, tests, compare } as JudgingRequest;
  t.equal(text(packRequest(other)), text(packRequest(FULL)));
  t.not(text(packRequest({ ...FULL, stop: 'first' })), text(packRequest(FULL)));
});

t.test('a payload is hardly longer than base64 of its bytes, whatever they are', async (t) => {
  const contents = {
    zeros: Buffer.alloc(MiB),
    quotes: Buffer.alloc(MiB, '"'),
    ones: Buffer.alloc(MiB, 0xff),
    text: Buffer.alloc(MiB, 'é'),
  };
  for (const [name, content] of Object.entries(contents)) {
    const request = { ...NOT_JUDGED, files: [{ path: 'a', bytes: content }] };
    const packed = packRequest(request)!;
    t.ok(packed.length < (MiB * 4) / 3 + 100, `${name}: ${packed.length}`);
    t.strictSame(unpackRequest(packed), request, name);
  }
  const plain = packRequest({ ...NOT_JUDGED, files: [{ path: 'a', bytes: contents.text }] })!;
  t.ok(plain.length < MiB + 100, 'text is stored as text');
});
