/** Exported logs that no database wrote: what a reader of the format would have to guess. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { parseRemovals } from '../../src/domain/removals.ts';
import { addItems, emptySketch, itemBytes } from '../../src/domain/sketch.ts';
import { checkpointText } from '../../src/proof/checkpoint.ts';
import { CompactTree } from '../../src/proof/compact_tree.ts';
import { entryOf } from '../../src/proof/entry.ts';
import { ExportWriter, gapBody, type RecordKind } from '../../src/proof/export_file.ts';
import { sketchText } from '../../src/proof/log_key.ts';
import { leafHash, leafText, sha256, textOf } from '../../src/proof/merkle.ts';
import { noteText } from '../../src/proof/note.ts';
import { verifyFile } from '../../src/store/verify_file.ts';
import { matchLists } from '../support/match_lists.ts';
import { key } from './seal_now.ts';
import { alone } from './verified.ts';

type Made = readonly [kind: RecordKind, ...body: Uint8Array[]];

const AT_US = BigInt(Date.UTC(2026, 5, 1) - Date.UTC(2000, 0, 1)) * 1000n;
const { origin, signer } = key;

const event = (n: number, type: string, facts: object): Buffer =>
  entryOf({
    ...{ stream: `f0000000-0000-4000-8000-00000000000${n}`, version: 1, type, schema: 1 },
    ...{ at_us: AT_US, generation: 1, xid: BigInt(n), seq: 1n, facts: JSON.stringify(facts) },
  });
const account = event(1, 'account.created', { name: 'ü' });

function treeOf(leaves: readonly string[]) {
  const tree = new CompactTree();
  for (const leaf of leaves) tree.append(leaf);
  return { origin, size: tree.size, root: tree.root() };
}

function noteOf(leaves: readonly string[], more = ''): Buffer {
  const text = `${checkpointText(treeOf(leaves))}${more}`;
  return Buffer.from(noteText({ text, signatures: [signer.sign(text)] }));
}

function sketchOf(leaves: readonly string[], cells: Buffer): Uint8Array[] {
  return [signer.sign(sketchText(treeOf(leaves), cells)).bytes, cells];
}

async function problemsOf(
  records: readonly Made[],
  { removals = '', kept = null as string | null } = {},
): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-made-'));
  const chunks: Buffer[] = [];
  const writer = new ExportWriter(async (bytes) => void chunks.push(bytes));
  for (const [kind, ...body] of records) await writer.put(kind, ...body);
  await writer.end();
  const path = join(folder, 'log.bin');
  await writeFile(path, Buffer.concat(chunks));
  const given = kept === null ? null : { note: kept, sketch: null };
  const report = await verifyFile(path, {
    ...{ policy: alone, keys: [], removals: parseRemovals(removals), kept: given },
  });
  await rm(folder, { recursive: true });
  t.equal(report.proven === null, report.problems.length > 0);
  return report.problems;
}

const leaves = [leafText(account)];
const sealed: readonly Made[] = [
  ['entry', account],
  ['checkpoint', noteOf(leaves)],
];

t.test('the first checkpoint may cover nothing, and a kept one, too', async (t) => {
  t.same(await problemsOf([['checkpoint', noteOf([])], ...sealed]), []);
  const nothing = noteOf([]).toString();
  t.same(await problemsOf(sealed, { kept: nothing }), []);
  const text = checkpointText({ origin, size: 0, root: Buffer.alloc(32) });
  const kept = noteText({ text, signatures: [signer.sign(text)] });
  t.same(await problemsOf(sealed, { kept }), [
    "the file's first 0 leaves do not have the root of the kept checkpoint",
  ]);
});

t.test('a policy must accept a checkpoint, also of a log without events', async (t) => {
  matchLists(t, await problemsOf([]), [
    /accepts no checkpoint of this log: there is no checkpoint/,
  ]);
});

t.test('a checkpoint is UTF-8', async (t) => {
  const note = noteOf(leaves, '\ufffd\n');
  t.same(
    await problemsOf([
      ['entry', account],
      ['checkpoint', note],
    ]),
    [],
  );
  const at = note.indexOf('\ufffd');
  const bytes = Buffer.concat([note.subarray(0, at), Buffer.of(0xff), note.subarray(at + 3)]);
  matchLists(
    t,
    await problemsOf([
      ['entry', account],
      ['checkpoint', bytes],
    ]),
    ['checkpoint 1 cannot be read: it is not UTF-8', /accepts no checkpoint/],
  );
});

t.test('leaves that are gone have a month and a sketch', async (t) => {
  const partition = 'events_2026_01';
  const stream = '019b0000-0000-7000-8000-000000000000';
  const gone = leafHash(Buffer.from('gone'));
  const cells = emptySketch();
  addItems(cells, itemBytes(stream, 1, gone));
  const [events, leaves_sha256] = [1, sha256(gone).toString('hex')];
  const base64 = cells.toString('base64');
  const all = [textOf(gone), leafText(account)];
  const whole = Buffer.from(cells);
  addItems(whole, itemBytes('f0000000-0000-4000-8000-000000000001', 1, leafHash(account)));
  const file = (leaves_sketch?: string): Made[] => [
    ['gap', ...gapBody(partition, gone)],
    ['entry', account],
    ['checkpoint', noteOf(all)],
    ['sketch', ...sketchOf(all, whole)],
    [
      'entry',
      event(2, 'log.detached', {
        ...{ partition, events, sketch: 'AA==', leaves_sha256 },
        ...(leaves_sketch !== undefined && { leaves_sketch }),
      }),
    ],
  ];
  const removals = `detached ${partition} 1 ${leaves_sha256}\n`;
  t.same(await problemsOf(file(base64), { removals }), []);
  const without = [`the sketch has ${stream} version 1, which the file lacks`];
  for (const wrong of [undefined, 'AAAA', `${base64}!`, ` ${base64}`])
    t.same(await problemsOf(file(wrong), { removals }), without, `${wrong}`.slice(-5));
  const late = file(base64);
  t.same(
    await problemsOf([...sealed, late[0]!, ['sketch', ...sketchOf(leaves, whole)], late[4]!], {
      removals,
    }),
    ['the sketch does not come right after its checkpoint'],
    'leaves between a checkpoint and its sketch',
  );
});

t.test('only a month of events can be detached', async (t) => {
  for (const partition of ['payloads_2026_01', 'events_1969_12', 'events_x_2026_01'])
    t.same(
      (
        await problemsOf([
          ...sealed,
          ['entry', event(2, 'log.detached', { partition, events: 0, sketch: 'AA==' })],
        ])
      ).filter((line) => !line.includes('policy does not allow')),
      [`${partition} was detached, and is no month`],
    );
});
