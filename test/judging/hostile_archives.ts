/** Archives that must be rejected, and honest ones that look like them. */
import { randomBytes } from 'node:crypto';
import type { PackageBounds } from '../../src/judging/packages/package_bounds.ts';
import { type ZipItem, type ZipOptions, zipOf } from './zip_writer.ts';

export const IN: ZipItem = { name: '1.in', data: 'in\n' };
export const ANS: ZipItem = { name: '1.ans', data: 'out\n' };
const ZEROS = Buffer.alloc(8 << 20);
const GiB = 1 << 30;
const LINK = 0o120777;
const FIFO = 0o010644;

export type HostileArchive = [
  title: string,
  items: ZipItem[],
  expected: RegExp,
  options?: ZipOptions,
  bounds?: Partial<PackageBounds>,
];

const named = (name: string | Uint8Array, more: Partial<ZipItem> = {}): ZipItem[] => [
  IN,
  ANS,
  { name, data: 'x', ...more },
];

export const HOSTILE_ARCHIVES: HostileArchive[] = [
  ['a path that climbs', named('../2.in'), /^\.\.\/2\.in: its path has a \.\./],
  ['a path that climbs in the middle', named('a/../../2.in'), /its path has a \.\./],
  ['a path with a dot', named('./2.in'), /its path has a \.$/],
  ['an absolute path', named('/etc/passwd'), /^\/etc\/passwd: its path is absolute/],
  ['a drive letter', named('C:2.in'), /its path is absolute/],
  ['a backslash', named('..\\2.in'), /backslash/],
  ['an empty name in a path', named('a//2.in'), /empty name/],
  ['an entry without a name', named(''), /a file has no name/],
  ['a NUL in a name', named('2.in\0.txt'), /^2\.in\\u\{0\}\.txt: .*control character/],
  [
    'a line feed in a name',
    named('2.in\nfake: line'),
    /^2\.in\\u\{a\}fake: line: .*control character/,
  ],
  [
    'a name in CP437',
    named(Uint8Array.from([0x81, 0x2e, 0x69, 0x6e]), { says: { flags: 0 } }),
    /neither ASCII nor UTF-8/,
  ],
  [
    'a name that only claims to be UTF-8',
    named(Uint8Array.from([0xc3, 0x28, 0x2e, 0x69])),
    /neither ASCII nor UTF-8/,
  ],
  [
    'an overlong form of a slash',
    named(Uint8Array.from([0x2e, 0x2e, 0xc0, 0xaf, 0x61])),
    /neither ASCII nor UTF-8/,
  ],
  ['a name that is too long', named(`${'x'.repeat(256)}.in`), /a name is longer than 255 bytes/],
  ['a path that is too long', named(`${'x'.repeat(100)}/`.repeat(6)), /longer than 512 bytes/],
  ['a path that is too deep', named(`${'d/'.repeat(20)}2.in`), /more than 16 names/],
  ['a name twice', [...named('2.in'), { name: '2.in' }], /^2\.in: two entries have this name/],
  [
    'two names that differ by case',
    [...named('2.in'), { name: '2.IN' }],
    /^2\.IN: its name and 2\.in differ by case/,
  ],
  [
    'two names that differ by composition',
    [...named('\u00e9.in'), { name: 'e\u0301.in' }],
    /differ by case/,
  ],
  [
    'a file and a folder of one name',
    [...named('a'), { name: 'a/2.in' }],
    /^a: it is a file and a folder/,
  ],
  [
    'a folder and a file of one name',
    [...named('a/2.in'), { name: 'a' }],
    /^a: it is a file and a folder/,
  ],
  [
    'an empty folder of the name of a file',
    [...folders(1), { name: '0' }],
    /^0: it is a file and a folder/,
  ],
  [
    'folders that differ by case',
    [...named('a/2.in'), { name: 'A/3.in' }],
    /^A: its name and a differ by case/,
  ],
  [
    'a folder with a size',
    named('a/', { stored: true, mode: 0o040755 }),
    /^a: it is a folder with a size/,
  ],
  ['a link', named('2.in', { data: '/etc/passwd', mode: LINK }), /^2\.in: it is a link/],
  [
    'a link that has the name of a folder',
    named('a/', { data: '', mode: LINK }),
    /^a: it is a link/,
  ],
  ['a pipe', named('2.in', { mode: FIFO }), /neither a file nor a folder/],
  ['a folder without a slash', named('a', { mode: 0o040755 }), /neither a file nor a folder/],
  [
    'another name in a field',
    named('2.in', { says: { extra: unicodePath('../../x') } }),
    /^2\.in: it has two names/,
  ],
  ['encryption', named('2.in', { says: { flags: 0x0801 } }), /^2\.in: it is encrypted/],
  ['strong encryption', named('2.in', { says: { flags: 0x0841 } }), /strong encryption/],
  ['a hidden directory', named('2.in', { says: { flags: 0x2800 } }), /^2\.in: it is encrypted/],
  ['a patch', named('2.in', { says: { flags: 0x0820 } }), /^2\.in: it is a patch/],
  [
    'a method that is not supported',
    named('2.in', { says: { method: 9 } }),
    /^2\.in: compression method 9/,
  ],
  [
    'a stored file of two sizes',
    named('2.in', { stored: true, says: { size: 100 } }),
    /not compressed and has two sizes/,
  ],
  [
    'a file that is larger than declared',
    [{ ...IN, data: ZEROS, says: { size: 10 } }, ANS],
    /^1\.in: it is larger than it declares/,
  ],
  [
    'a file that is smaller than declared',
    [{ ...IN, says: { size: 1000 } }, ANS],
    /^1\.in: it is smaller than it declares/,
  ],
  ['a wrong checksum', [{ ...IN, says: { crc: 1 } }, ANS], /^1\.in: its checksum is wrong/],
  [
    'a wrong checksum of a stored file',
    [{ ...IN, stored: true, says: { crc: 1 } }, ANS],
    /^1\.in: its checksum is wrong/,
  ],
  [
    'compressed bytes that are none',
    [{ ...IN, stored: true, says: { method: 8 } }, ANS],
    /^1\.in: its compressed bytes are damaged/,
  ],
  [
    'compressed bytes that end early',
    [{ ...IN, data: randomBytes(1000), says: { packed: 500 } }, ANS],
    /^1\.in: its compressed bytes are damaged/,
  ],
  [
    'bytes behind the compressed ones',
    [{ ...IN, tail: randomBytes(10) }, ANS],
    /^1\.in: other bytes follow/,
  ],
  [
    '4 GB of zeros',
    [{ ...IN, data: ZEROS, says: { size: 4 * GiB - 2 } }, ANS],
    /^1\.in: with it the package unpacks to more than 268435456 bytes/,
  ],
  [
    'many files that are too large together',
    [IN, ANS, ...large(40)],
    /^large32: with it the package unpacks to more/,
  ],
  [
    'a small archive of much',
    [
      { ...IN, data: ZEROS },
      { ...ANS, data: ZEROS },
      { name: '2.in', data: ZEROS },
    ],
    /more than 500 times its size/,
  ],
  ['too many files', [...many(12)], /^the package: it has more than 10 files/, {}, { files: 10 }],
  ['too many folders', folders(30), /^the package: it has more than 10 files/, {}, { files: 10 }],
  [
    'a directory of fields that mean nothing',
    [{ ...IN, says: { extra: emptyFields(2000) }, local: { extra: Buffer.alloc(0) } }, ANS],
    /^the package: its directory has more than 5000 bytes/,
    {},
    { directory_bytes: 5000 },
  ],
  ['too many entries', [...many(30)], /^the package: it has more than 10 files/, {}, { files: 10 }],
  [
    'an entry whose bytes are those of another',
    [IN, ANS, { name: '2.in', data: 'in\n', says: { offset: 0 } }],
    /overlap/,
  ],
  [
    'an entry inside another',
    [
      { ...IN, data: nested(), stored: true },
      ANS,
      { name: '2.in', data: 'x', says: { offset: 34 } },
    ],
    /overlap/,
  ],
  ['an entry that reaches into the directory', [IN, { ...ANS, says: { packed: 5000 } }], /overlap/],
  ['an entry behind the end', [IN, { ...ANS, says: { offset: 100_000 } }], /overlap/],
  [
    'a local header of another name',
    [{ ...IN, local: { name: Buffer.from('2.in') } }, ANS],
    /^1\.in: its local header and the directory differ/,
  ],
  [
    'a local header that is encrypted',
    [{ ...IN, local: { flags: 0x0801 } }, ANS],
    /local header and the directory differ/,
  ],
  [
    'a local header of another size',
    [{ ...IN, local: { size: 1 } }, ANS],
    /local header and the directory differ/,
  ],
  [
    'a local header of another method',
    [{ ...IN, local: { method: 0 } }, ANS],
    /local header and the directory differ/,
  ],
  [
    'a local header with a long extra field',
    [
      { ...IN, local: { extra: Buffer.alloc(4) }, says: { offset: 0 } },
      { ...ANS, says: { offset: 38 } },
    ],
    /damaged|overlap/,
  ],
  [
    'an extra field that is cut short',
    [IN, ANS, { name: '2.in', says: { extra: Uint8Array.of(1, 0, 9, 0) } }],
    /^the package: its directory is damaged after 2?1?\.?a?n?s?/,
  ],
  [
    'zip64 sizes that are missing',
    named('2.in', { says: { size: 0xffffffff, extra: Uint8Array.of(1, 0, 0, 0) } }),
    /its directory is damaged/,
  ],
  [
    'fewer entries than the directory has',
    [IN, ANS],
    /directory is longer than its entries/,
    { end: { entries: 1 } },
  ],
  [
    'more entries than the directory has',
    [IN, ANS],
    /its directory is damaged after 1\.ans/,
    { end: { entries: 3 } },
  ],
  [
    'a directory that is elsewhere',
    [IN, ANS],
    /its directory is not where/,
    { end: { directory_start: 0 } },
  ],
  [
    'a directory of another size',
    [IN, ANS],
    /its directory is not where/,
    { end: { directory_bytes: 5 } },
  ],
  ['one of several archives', [IN, ANS], /one part of several/, { end: { disk: 1 } }],
  [
    'two end records that differ',
    [IN, ANS],
    /its two end records differ/,
    { zip64: true, end64: { entries: 3n } },
  ],
  [
    'a zip64 directory far away',
    [IN, ANS],
    /its directory is not where/,
    { zip64: true, end64: { directory_start: 1n << 40n } },
  ],
  [
    'a zip64 directory beyond all numbers',
    [IN, ANS],
    /too large/,
    { zip64: true, end64: { directory_start: (1n << 64n) - 1n } },
  ],
  ['no entries', [], /neither problem\.yaml nor a test/],
  [
    'folders alone',
    [{ name: 'a/', stored: true, mode: 0o040755 }],
    /neither problem\.yaml nor a test/,
  ],
];

function unicodePath(name: string): Uint8Array {
  const data = Buffer.concat([Buffer.alloc(5), Buffer.from(name)]);
  const head = Buffer.alloc(4);
  head.writeUInt16LE(0x7075, 0);
  head.writeUInt16LE(data.length, 2);
  return Buffer.concat([head, data]);
}

function emptyFields(count: number): Uint8Array {
  return Buffer.alloc(4 * count, Uint8Array.of(0x99, 0x99, 0, 0));
}

function large(count: number): ZipItem[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `large${i + 1}`,
    says: { size: 8 << 20 },
  }));
}

function many(count: number): ZipItem[] {
  return Array.from({ length: count }, (_, i) => ({ name: `${i}.in` }));
}

function folders(count: number): ZipItem[] {
  return Array.from({ length: count }, (_, i) => ({ name: `${i}/`, stored: true, mode: 0o040755 }));
}

function nested(): Uint8Array {
  return zipOf([{ name: '2.in', data: 'x' }]);
}

export const HONEST_ARCHIVES: [title: string, items: ZipItem[], options?: ZipOptions][] = [
  ['deflated files', [IN, ANS]],
  [
    'stored files',
    [
      { ...IN, stored: true },
      { ...ANS, stored: true },
    ],
  ],
  [
    'sizes that follow the bytes',
    [
      { ...IN, descriptor: true },
      { ...ANS, descriptor: true },
    ],
  ],
  ['zip64', [IN, ANS], { zip64: true }],
  ['a comment', [IN, ANS], { comment: Buffer.from('made by hand') }],
  ['flags that differ without a meaning', [{ ...IN, local: { flags: 0x0806 } }, ANS]],
  [
    'names without the flag of UTF-8',
    [
      { ...IN, says: { flags: 0 } },
      { ...ANS, says: { flags: 0 } },
    ],
  ],
  ['the same name in a field', [{ ...IN, says: { extra: unicodePath('1.in') } }, ANS]],
  [
    'fields that mean nothing here',
    [
      { ...IN, says: { extra: emptyFields(20) } },
      { ...ANS, says: { extra: emptyFields(20) } },
    ],
  ],
  [
    'modes of no system',
    [
      { ...IN, mode: 0 },
      { ...ANS, mode: 0 },
    ],
  ],
  [
    'hidden files',
    [IN, ANS, { name: '.DS_Store', data: 'x' }, { name: '__MACOSX/1.in', data: 'x' }],
  ],
  [
    'one folder around everything',
    [
      { name: 'sums/', stored: true, mode: 0o040755 },
      { ...IN, name: 'sums/1.in' },
      { ...ANS, name: 'sums/1.ans' },
    ],
  ],
];
