/** The first page of the console, in a real browser: what it shows of states that no submission of a quiet service reaches. */
// needs: browser
import t from 'tap';
import { connect } from '../../src/db.ts';
import { startService } from '../http/support/service.ts';
import { seal } from '../store/seal_now.ts';
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

  await t.test('the plots say their newest values to those who have no mouse', async (t) => {
    const plots = () =>
      page.read<
        (string | null)[][]
      >(`[...document.querySelectorAll('.plot')].map((each) => [each.getAttribute('role'),
        each.getAttribute('aria-label')])`);
    const said = [
      /^Submissions accepted a second, by minute: a second [\d.]+ at \d\d:\d\d UTC$/,
      /^From acceptance to end seconds: nothing yet$/,
      /^Verdicts .*: nothing yet$/,
      /^Queue since this page was opened: waiting 0, again 1, running 0 at \d\d:\d\d:\d\d UTC$/,
    ];
    t.match(
      await plots(),
      said.map((label) => ['img', label]),
    );
    const legend = await page.read(`document.querySelector('[data-plot="queue"]').textContent`);
    t.match(legend, /UTC:?\d\d:\d\d:\d\d.*waiting:?0.*again:?1.*running:?0/s);
  });

  await t.test('a language that no worker runs is a row without slots', async (t) => {
    const languages = `[...document.querySelectorAll('[data-rows="languages"] tr')].map((row) => row.innerText)`;
    const found = await page.read<string[]>(languages);
    t.ok(found.includes('python\t0\t2'), found.join());
    t.ok(found.includes('java\t0\t0'), found.join());
  });

  await t.test('of very many workers it says how many it leaves out', async (t) => {
    const note = 'document.querySelector(\'[data-more="workers"]\')';
    t.equal(await page.read(`${note}.hidden`), true);
    // While the test holds this lock, nobody looks whether these are alive.
    const held = connect(service.database.urls.owner, { name: 'test', max: 1 });
    t.teardown(() => held.end());
    await held`select pg_advisory_lock(x'524c5357'::bigint)`;
    await held`
      insert into runledger.consumers
        (id, kind, host, slots, toolchains, isolation, lock_key, postmaster_start, started_at, heartbeat_at, locked)
      select gen_random_uuid(), 'worker', 'host ' || lpad(n::text, 3, '0'), 1, '{}', '{}', ${2 ** 50}::bigint + n, pg_postmaster_start_time(),
        now(), now() + interval '1 hour', false
      from generate_series(1, 200) n`;
    await page.until(`!${note}.hidden`);
    t.equal(await page.read(`${note}.textContent`), 'These are the first 200 of 201, by host.');
    const hosts = `[...document.querySelectorAll('[data-rows="workers"] td:first-child')].map((each) => each.innerText)`;
    const shown_hosts = await page.read<string[]>(hosts);
    t.equal(shown_hosts.length, 200);
    t.same([shown_hosts[0], shown_hosts.at(-1)], ['host 001', 'host 200']);
    await held`delete from runledger.consumers where locked is false`;
  });

  await t.test(
    'the page Log gives the oldest unsealed event an age, where there is one',
    async (t) => {
      const age = async () => {
        await page.open(`${service.webs[0]!.origin}/console/log`);
        return await page.read<string>(
          `[...document.querySelectorAll('dt')].find((each) => each.textContent.startsWith('the oldest'))?.nextElementSibling.textContent ?? 'left out'`,
        );
      };
      t.match(await age(), /^[\d.]+ \w+ ago$/);
      const web = connect(service.database.urls.web, { name: 'test', max: 1 });
      t.teardown(() => web.end());
      await seal(web);
      t.equal(await age(), '–');
    },
  );
});
