import t from 'tap';
import {
  BadExport,
  EXPORT_FIRST_LINE,
  type ExportRecord,
  ExportWriter,
  gapBody,
  parseGap,
  readExport,
} from '../../src/proof/export_file.ts';

async function written(): Promise<{ file: Buffer; sha256: string }> {
  const chunks: Buffer[] = [];
  const writer = new ExportWriter(async (bytes) => void chunks.push(bytes));
  await writer.put('entry', Buffer.from('first'));
  await writer.put('gap', ...gapBody('events_2026_01', Buffer.alloc(64, 1)));
  await writer.put('checkpoint', Buffer.from('a note'));
  const sha256 = await writer.end();
  const file = Buffer.concat(chunks);
  t.equal(file.length, writer.bytes);
  return { file, sha256 };
}

async function read(file: Buffer, step = file.length): Promise<ExportRecord[]> {
  const chunks = async function* () {
    for (let at = 0; at < file.length; at += step) yield file.subarray(at, at + step);
  };
  const records: ExportRecord[] = [];
  for await (const some of readExport(chunks())) records.push(...some);
  return records;
}

t.test('what is written is read, in pieces of any size', async (t) => {
  const { file, sha256 } = await written();
  t.equal(file.toString('latin1', 0, EXPORT_FIRST_LINE.length), 'runledger export 1\n');
  t.equal(file.subarray(-32).toString('hex'), sha256);
  for (const step of [1, 2, 7, 30, 1000]) {
    const [entry, gap, note, ...more] = await read(file, step);
    t.same(more, []);
    t.match([entry, note], [{ kind: 'entry', body: Buffer.from('first') }, { kind: 'checkpoint' }]);
    t.match(parseGap(gap!.body), { partition: 'events_2026_01', hashes: Buffer.alloc(64, 1) });
  }
});

t.test('a file that was changed, cut off or continued is rejected', async (t) => {
  const { file } = await written();
  for (let at = 0; at < file.length; at++) {
    const changed = Buffer.from(file);
    changed[at]! ^= 1;
    const error: unknown = await read(changed).catch((thrown: unknown) => thrown);
    if (!(error instanceof BadExport)) t.fail(`byte ${at}: ${error}`);
  }
  for (const end of [0, 5, 30, file.length - 1])
    await t.rejects(read(file.subarray(0, end)), { message: 'it was cut off' }, `${end} bytes`);
  await t.rejects(read(Buffer.concat([file, Buffer.of(0)])), { message: /goes on after its end/ });
  await t.rejects(read(Buffer.concat([file, file])), { message: /goes on after its end/ });
});

t.test('a gap without hashes is rejected', async (t) => {
  for (const body of [
    Buffer.alloc(0),
    Buffer.from('\x05abc'),
    Buffer.from('\x01a'),
    Buffer.from('\x01abc'),
  ])
    t.throws(() => parseGap(body), { message: 'a gap has no hashes' });
});
