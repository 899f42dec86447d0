/** The first page of the console, in a real browser: what it shows of states that no submission of a quiet service reaches. */
// needs: browser
import t from 'tap';
import { startService } from '../http/support/service.ts';
import { browserPage } from '../support/browser.ts';
import { operator } from './visitor.ts';

t.test('the first page', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await operator(service, 'ada');
  const page = await browserPage(t);
  const shown = (name: string) => `document.querySelector('[data-value="${name}"]').textContent`;
  await page.view({ width: 1280, height: 900 });
  await page.open(`${service.webs[0]!.origin}/console`);
  await page.until(`document.activeElement.name === 'key'`);
  await page.type(key);
  await page.press('Enter');
  await page.until(`${shown('workers')} === '1'`);

  await t.test('what was lost waits, though nothing waits for its first start', async (t) => {
    t.equal(await page.read(shown('again')), '0');
    t.equal(await page.read(shown('oldest')), '–');
    const { id } = (await service.submit(await service.key())).json;
    // As the worker that fetched it does.
    await service.db`delete from graphile_worker._private_jobs`;
    await service.worker.start(id);
    await page.until(`${shown('running')}.startsWith('1 ')`);
    t.equal(await page.read(shown('oldest')), '–', 'it runs');
    t.same(await service.worker.executions.release([id], 'shutdown'), { released: [id], ended: 0 });
    await page.until(`${shown('again')} === '1'`);
    t.match(await page.read(shown('waiting')), /^0 of /);
    t.match(await page.read(shown('oldest')), /^[\d.]+ (s|min|h)$/);
    await page.until(`document.querySelector('[data-plot="queue"]').textContent.includes('again')`);
  });
});
