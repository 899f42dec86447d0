import t from 'tap';
import { setTimeout as wait } from 'node:timers/promises';
import { archiveOf, LEGACY } from '../judging/packages.ts';
import { wire } from './support/call.ts';
import { startService } from './support/service.ts';
t.test('x', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_REQUEST_TIMEOUT: '2s' } });
  const { port } = service.webs[0]!;
  const key = await service.key();
  const archive = archiveOf(LEGACY);
  const head = `POST /api/test-sets HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/zip\r\nContent-Length: ${archive.length}\r\n\r\n`;
  const gone = wire(port);
  gone.send(head); gone.send(archive.subarray(0, -1));
  await wait(1000);
  gone.socket.destroy();
  for (let n = 0; n < 4; n++) {
    await wait(500);
    const r = await service.call({ method: 'POST', path: '/api/test-sets', key, body: archive, headers: { 'content-type': 'application/zip' } });
    t.comment(`${r.status} ${r.text}`);
  }
  for (const l of service.webs[0]!.written) t.comment(l);
  t.ok(true);
});
