/** The memory that an upload takes of a web process. */
import { equal } from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { archiveOf, LEGACY } from '../judging/packages.ts';
import { zipOf } from '../judging/zip_writer.ts';
import { type Service, startService } from './support/service.ts';

const upload = (service: Service, key: string, archive: Uint8Array) =>
  service.call({
    method: 'POST',
    path: '/api/test-sets',
    key,
    body: archive,
    headers: { 'content-type': 'application/zip' },
  });

t.test('a large set is never in memory whole', async (t) => {
  const MiB = 2 ** 20;
  const service = await startService(t, { webs: 1 });
  const pid = service.webs[0]!.process.pid!;
  const key = await service.key();
  // The first upload loads code.
  equal((await upload(service, key, archiveOf(LEGACY))).status, 201);
  const before = residentPeak(pid);
  // Bytes that do not compress, and differ from file to file.
  const content = (n: number) => {
    const seed = createHash('sha512').update(String(n)).digest();
    return Buffer.concat([seed, Buffer.alloc(100 * 1024, seed)]);
  };
  const items = Array.from({ length: 1_000 }, (_, n) => [
    { name: `${n}.in`, data: content(2 * n), stored: true },
    { name: `${n}.ans`, data: content(2 * n + 1), stored: true },
  ]).flat();
  const reply = await upload(service, key, zipOf(items));
  t.equal(reply.status, 201, reply.text);
  t.ok(reply.json.bytes > 195 * MiB);
  const grown = residentPeak(pid) - before;
  // Usually 70 MiB: what the collector has not freed yet, which is more on a busy machine.
  t.comment(`${Math.round(grown / MiB)} MiB more for ${Math.round(reply.json.bytes / MiB)} MiB`);
  t.ok(grown < reply.json.bytes, `${grown} bytes more`);
});

/** In bytes; the kernel keeps the largest value. */
function residentPeak(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return Number(kib) * 1024;
}
