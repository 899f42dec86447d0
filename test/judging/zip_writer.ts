/** Writes zip archives for tests, byte by byte, so that every field can be wrong. */
import { crc32, deflateRawSync } from 'node:zlib';

export type ZipItem = {
  name: string | Uint8Array;
  data?: string | Uint8Array;
  /** deflated, unless it is `stored` */
  stored?: boolean;
  /** what the directory says instead of the truth */
  says?: Partial<Fields>;
  /** what the local header says instead of the directory */
  local?: Partial<Fields>;
  /** Unix mode */
  mode?: number;
  /** The sizes follow the bytes. */
  descriptor?: boolean;
  /** bytes after the compressed ones that count as compressed, too */
  tail?: Uint8Array;
};

export type Fields = {
  name: Uint8Array;
  flags: number;
  method: number;
  crc: number;
  packed: number;
  size: number;
  offset: number;
  extra: Uint8Array;
};

export type ZipOptions = {
  comment?: Uint8Array;
  zip64?: boolean;
  /** what the end record says instead of the truth */
  end?: Partial<{
    entries: number;
    directory_bytes: number;
    directory_start: number;
    disk: number;
  }>;
  /** what the zip64 end record says instead of the truth */
  end64?: Partial<{ entries: bigint; directory_start: bigint }>;
};

const UTF8 = 0x0800;
const DESCRIPTOR = 0x0008;

export function zipOf(items: readonly ZipItem[], options: ZipOptions = {}): Buffer {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  const add = (part: Uint8Array) => {
    parts.push(part);
    offset += part.length;
  };
  for (const item of items) {
    const data = Buffer.from(item.data ?? '');
    const packed = Buffer.concat([
      item.stored ? data : deflateRawSync(data),
      item.tail ?? new Uint8Array(),
    ]);
    const truth: Fields = {
      name: Buffer.from(item.name),
      flags: UTF8 | (item.descriptor ? DESCRIPTOR : 0),
      method: item.stored ? 0 : 8,
      crc: crc32(data),
      packed: packed.length,
      size: data.length,
      offset,
      extra: new Uint8Array(),
    };
    const said = { ...truth, ...item.says };
    const zeros = item.descriptor ? { crc: 0, packed: 0, size: 0 } : {};
    add(localHeader({ ...said, ...zeros, ...item.local }));
    add(packed);
    if (item.descriptor)
      add(numbers([0x08074b50, 4], [truth.crc, 4], [truth.packed, 4], [truth.size, 4]));
    directory.push(directoryHeader(said, item.mode ?? 0o100644));
  }
  const start = offset;
  for (const header of directory) add(header);
  for (const record of endRecords(items.length, start, offset - start, options)) add(record);
  return Buffer.concat(parts);
}

function localHeader({ name, flags, method, crc, packed, size, extra }: Fields): Buffer {
  const fixed = numbers(
    ...([
      [0x04034b50, 4],
      [20, 2],
      [flags, 2],
      [method, 2],
      [0, 4],
      [crc, 4],
      [packed, 4],
      [size, 4],
    ] as Field[]),
    ...([
      [name.length, 2],
      [extra.length, 2],
    ] as Field[]),
  );
  return Buffer.concat([fixed, name, extra]);
}

function directoryHeader(
  { name, flags, method, crc, packed, size, offset, extra }: Fields,
  mode: number,
): Buffer {
  const UNIX = 3 << 8;
  const fixed = numbers(
    ...([
      [0x02014b50, 4],
      [UNIX | 20, 2],
      [20, 2],
      [flags, 2],
      [method, 2],
      [0, 4],
      [crc, 4],
      [packed, 4],
    ] as Field[]),
    ...([
      [size, 4],
      [name.length, 2],
      [extra.length, 2],
      [0, 2],
      [0, 2],
      [0, 2],
      [mode * 0x10000, 4],
      [offset, 4],
    ] as Field[]),
  );
  return Buffer.concat([fixed, name, extra]);
}

function endRecords(
  entries: number,
  start: number,
  bytes: number,
  options: ZipOptions,
): Uint8Array[] {
  const { comment = new Uint8Array(), zip64 = false, end = {}, end64 = {} } = options;
  const directory_start = end.directory_start ?? (zip64 ? 0xffffffff : start);
  const record = Buffer.concat([
    numbers(
      ...([
        [0x06054b50, 4],
        [end.disk ?? 0, 2],
        [0, 2],
        [end.entries ?? entries, 2],
        [end.entries ?? entries, 2],
      ] as Field[]),
      ...([
        [end.directory_bytes ?? bytes, 4],
        [directory_start, 4],
        [comment.length, 2],
      ] as Field[]),
    ),
    comment,
  ]);
  if (!zip64) return [record];
  const count = end64.entries ?? BigInt(entries);
  const large = Buffer.concat([
    numbers([0x06064b50, 4]),
    longs(44n),
    numbers([45, 2], [45, 2], [0, 4], [0, 4]),
    longs(count, count, BigInt(bytes), end64.directory_start ?? BigInt(start)),
  ]);
  const locator = Buffer.concat([
    numbers([0x07064b50, 4], [0, 4]),
    longs(BigInt(start + bytes)),
    numbers([1, 4]),
  ]);
  return [large, locator, record];
}

type Field = [value: number, bytes: number];

function numbers(...fields: Field[]): Buffer {
  return Buffer.concat(
    fields.map(([value, bytes]) => {
      const field = Buffer.alloc(bytes);
      field.writeUIntLE(value >>> 0, 0, bytes);
      return field;
    }),
  );
}

function longs(...values: bigint[]): Buffer {
  const field = Buffer.alloc(8 * values.length);
  for (const [i, value] of values.entries()) field.writeBigUInt64LE(value, 8 * i);
  return field;
}
