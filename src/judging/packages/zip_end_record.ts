/**
 * The end of a zip archive says where its directory is. A reader searches it from the back, and readers differ in which
 * one they take where there are several. So an archive is rejected unless exactly one end record reaches the end of the
 * file, and the directory ends exactly where the end record begins. With zip64 there are two records; they must agree.
 */
import type { FileHandle } from 'node:fs/promises';
import { ARCHIVE, PackageProblem } from './package_problem.ts';

const END = { signature: 0x06054b50, bytes: 22 };
const LOCATOR = { signature: 0x07064b50, bytes: 20 };
const END64 = { signature: 0x06064b50, bytes: 56, bytes_before_its_length: 12 };
const LONGEST_COMMENT = 0xffff;

export type Directory = { entries: number; start: number; end: number };

export async function findDirectory(file: FileHandle, file_bytes: number): Promise<Directory> {
  const tail_bytes = Math.min(file_bytes, LOCATOR.bytes + END.bytes + LONGEST_COMMENT);
  const tail_start = file_bytes - tail_bytes;
  const tail = await readExactly(file, tail_start, tail_bytes);
  const at = endRecordIn(tail);
  const end = tail.subarray(at);
  const fields: Fields = {
    disks: [end.readUInt16LE(4), end.readUInt16LE(6)],
    entries: [end.readUInt16LE(8), end.readUInt16LE(10)],
    bytes: end.readUInt32LE(12),
    start: end.readUInt32LE(16),
  };
  const locator = tail.subarray(Math.max(at - LOCATOR.bytes, 0), at);
  const has64 = locator.length === LOCATOR.bytes && locator.readUInt32LE(0) === LOCATOR.signature;
  if (!has64) return directoryOf(fields, tail_start + at);
  const start64 = toNumber(locator.readBigUInt64LE(8));
  const fields64 = await readEnd64(file, start64, tail_start + at - LOCATOR.bytes);
  checkSame(fields, fields64);
  return directoryOf(fields64, start64);
}

type Fields = { disks: number[]; entries: number[]; bytes: number; start: number };

function endRecordIn(tail: Buffer): number {
  const found: number[] = [];
  for (let at = 0; at + END.bytes <= tail.length; at++) {
    if (tail.readUInt32LE(at) !== END.signature) continue;
    if (at + END.bytes + tail.readUInt16LE(at + 20) === tail.length) found.push(at);
  }
  if (found.length > 1) throw damaged('it has several end records');
  const [at] = found;
  if (at === undefined) {
    throw damaged('it is no zip archive, or is cut short, or other bytes follow its end');
  }
  return at;
}

async function readEnd64(file: FileHandle, start: number, must_end: number): Promise<Fields> {
  if (start + END64.bytes > must_end)
    throw damaged('its zip64 end record is not where it should be');
  const record = await readExactly(file, start, END64.bytes);
  const length = toNumber(record.readBigUInt64LE(4)) + END64.bytes_before_its_length;
  if (record.readUInt32LE(0) !== END64.signature || start + length !== must_end) {
    throw damaged('its zip64 end record is not where it should be');
  }
  return {
    disks: [record.readUInt32LE(16), record.readUInt32LE(20)],
    entries: [toNumber(record.readBigUInt64LE(24)), toNumber(record.readBigUInt64LE(32))],
    bytes: toNumber(record.readBigUInt64LE(40)),
    start: toNumber(record.readBigUInt64LE(48)),
  };
}

/** A field of the smaller record is the same, or all ones, which stands for the larger record's. */
function checkSame(small: Fields, large: Fields): void {
  const pairs: [number, number, all_ones: number][] = [
    ...small.disks.map((value, i): [number, number, number] => [
      value,
      large.disks[i] ?? 0,
      0xffff,
    ]),
    ...small.entries.map((value, i): [number, number, number] => [
      value,
      large.entries[i] ?? 0,
      0xffff,
    ]),
    [small.bytes, large.bytes, 0xffffffff],
    [small.start, large.start, 0xffffffff],
  ];
  if (pairs.some(([value, value64, all_ones]) => value !== value64 && value !== all_ones)) {
    throw damaged('its two end records differ');
  }
}

function directoryOf({ disks, entries, bytes, start }: Fields, must_end: number): Directory {
  if (disks.some((disk) => disk !== 0) || entries[0] !== entries[1]) {
    throw damaged('it is one part of several archives');
  }
  if (start + bytes !== must_end) throw damaged('its directory is not where its end record says');
  return { entries: entries[0] ?? 0, start, end: must_end };
}

function toNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER))
    throw damaged('a size in its end record is too large');
  return Number(value);
}

async function readExactly(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
  if (bytesRead !== length) throw damaged('it is cut short');
  return buffer;
}

const damaged = (problem: string) => new PackageProblem(ARCHIVE, problem);
