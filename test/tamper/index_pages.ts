/** The pages of a B-tree, as a superuser can write them: with the checksum that the server expects. */
import type { Db } from '../../src/db.ts';

const PAGE = 8192;
/** Of a page's header: the checksum, where the line pointers end, and where they begin. */
const CHECKSUM_AT = 8;
const LOWER_AT = 12;
const POINTERS_AT = 24;

/** storage/checksum_impl.h */
const SEEDS = [
  0x5b1f36e9, 0xb8525960, 0x02ab50aa, 0x1de66d2a, 0x79ff467a, 0x9bb9f8a3, 0x217e7cd2, 0x83e13d2c,
  0xf8d4474f, 0xe39eb970, 0x42c6ae16, 0x993216fa, 0x7b093b5d, 0x98daff3c, 0xf718902a, 0x0b1c9cdb,
  0xe58f764b, 0x187636bc, 0x5d7b3bb1, 0xe73de7de, 0x92bec979, 0xcca6c0b2, 0x304a0979, 0x85aa43d4,
  0x783125bb, 0x6ca8eaa2, 0xe407eac6, 0x4b5cfc3e, 0x9fbf8c76, 0x15ca20be, 0xf2ca9fd3, 0x959bd756,
];
const PRIME = 16_777_619;

function checksum(page: Buffer, block: number): number {
  const copy = Buffer.from(page);
  copy.writeUInt16LE(0, CHECKSUM_AT);
  const sums = Uint32Array.from(SEEDS);
  const take = (lane: number, value: number) => {
    const mixed = (sums[lane]! ^ value) >>> 0;
    sums[lane] = Math.imul(mixed, PRIME) ^ (mixed >>> 17);
  };
  for (let at = 0; at < PAGE; at += 4) take((at / 4) % SEEDS.length, copy.readUInt32LE(at));
  for (let round = 0; round < 2; round++) SEEDS.forEach((_, lane) => void take(lane, 0));
  const all = sums.reduce((sum, each) => (sum ^ each) >>> 0, 0);
  return (((all ^ block) >>> 0) % 65_535) + 1;
}

type Item = { readonly at: number; readonly length: number };

function itemsOf(page: Buffer): Item[] {
  const count = (page.readUInt16LE(LOWER_AT) - POINTERS_AT) / 4;
  return Array.from({ length: count }, (_, n) => {
    const pointer = page.readUInt32LE(POINTERS_AT + 4 * n);
    return { at: pointer & 0x7fff, length: pointer >>> 17 };
  });
}

const HEADER = 8;
const blockOf = (page: Buffer, { at }: Item) =>
  page.readUInt16LE(at) * 2 ** 16 + page.readUInt16LE(at + 2);

/**
 * Lowers the first key of the root to one in the middle of the leaf before it: a lookup of the keys from there on goes to the
 * wrong leaf. The leaves stay as they are. `index` must have a root over leaves.
 */
export async function lowerFirstKey(root: Db, index: string): Promise<void> {
  await root`checkpoint`;
  const [file] = await root<{ bytes: Buffer; node: string; path: string }[]>`
    select pg_read_binary_file(pg_relation_filepath(${index}::text::regclass)) as bytes,
      (select max(relfilenode)::bigint + 1 from pg_class) as node,
      regexp_replace(pg_relation_filepath(${index}::text::regclass), '[0-9]+$', '') as path`;
  const { bytes, node, path } = file!;
  const pageOf = (block: number) => bytes.subarray(block * PAGE, (block + 1) * PAGE);
  const root_block = pageOf(0).readUInt32LE(POINTERS_AT + 8);
  const page = pageOf(root_block);
  const links = itemsOf(page);
  const n = links.findIndex(({ length }, at) => at > 0 && length > HEADER);
  const leaf = pageOf(blockOf(page, links[n - 1]!));
  const items = itemsOf(leaf);
  const { at } = items[Math.floor(items.length / 2)]!;
  leaf.copy(page, links[n]!.at + HEADER, at + HEADER, at + links[n]!.length);
  page.writeUInt16LE(checksum(page, root_block), CHECKSUM_AT);
  // A file of another name: the server has pages of the old one in memory.
  const [made] = await root<{ oid: string }[]>`select lo_from_bytea(0, ${bytes}) as oid`;
  await root`select lo_export(${made!.oid}, ${path + node})`;
  await root`select lo_unlink(${made!.oid})`;
  await root`update pg_class set relfilenode = ${node} where oid = ${index}::text::regclass`;
}
