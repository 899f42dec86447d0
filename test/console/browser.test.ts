/**
 * The console in a real browser, with 10,000 submissions in the database: by keyboard, on a phone's width, in dark and in light. With
 * PICTURES=1 it keeps pictures of all pages in build/console.
 */
// needs: browser
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { createOperator } from '../../src/store/operators.ts';
import { FROM, fillLedger } from '../audit/large_ledger.ts';
import { startService } from '../http/support/service.ts';
import { browserPage } from '../support/browser.ts';

const PICTURES = process.env['PICTURES'] !== undefined;
const SUBMISSIONS = 10_000;
const PHONE = { width: 360, height: 740 };
const DESK = { width: 1280, height: 900 };

t.test('the console in a browser', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = newSecret('rl', 'operator');
  await createOperator(service.db, { name: 'ada', key_digest: secretDigest(key) });
  await fillLedger(service.db, SUBMISSIONS);
  const submit = await service.key({ account: 'live' });
  for (const verdict of ['AC', 'WA', 'TLE'] as const) {
    const { id } = (await service.submit(submit)).json;
    await service.worker.finish(id, { verdict });
  }
  const page = await browserPage(t);
  const origin = service.webs[0]!.origin;
  const open = (path: string) => page.open(`${origin}/console${path}`);
  await page.view(DESK);

  await t.test('an operator signs in and out by keyboard', async (t) => {
    await open('');
    await page.until(`document.activeElement.name === 'key'`);
    await page.type(key);
    await page.press('Enter');
    await page.until(`document.querySelector('h1')?.textContent === 'Now'`);
    await page.press('Tab');
    t.equal(await page.read('document.activeElement.textContent'), 'Skip to the content');
    t.ok(await page.read(`document.activeElement.getBoundingClientRect().left >= 0`), 'it shows');
    const reached: string[] = [];
    for (let n = 0; n < 7; n++) {
      await page.press('Tab');
      reached.push(await page.read('document.activeElement.textContent'));
    }
    t.same(reached, ['Now', 'Submissions', 'Deliveries', 'Accounts', 'Tiers', 'Log', 'Sign out']);
  });

  await t.test('the first page is live', async (t) => {
    await open('');
    await page.until(`document.querySelector('[data-value="workers"]').textContent === '1'`);
    t.match(
      await page.read(`document.querySelector('[data-rows="languages"]').textContent`),
      /cpp/,
    );
    await page.until(`document.querySelectorAll('.plot canvas').length === 4`);
    const before = await page.read<string>(
      `document.querySelector('[data-value="waiting"]').textContent`,
    );
    await service.submit(submit);
    await page.until(
      `document.querySelector('[data-value="waiting"]').textContent !== ${JSON.stringify(before)}`,
    );
    t.match(
      await page.read(`document.querySelector('[data-plot="verdicts"]').textContent`),
      /AC.*TLE.*WA/s,
    );
  });

  const [lost] = await service.db<{ id: string; account_id: string }[]>`
    select id, account_id from runledger.submissions where deaths > 0 limit 1`;
  const [waiting] = await service.db<{ id: string }[]>`
    select id from runledger.deliveries where status = 'waiting' limit 1`;
  const day = FROM.slice(0, 10);
  const pages = {
    now: '',
    submissions: `/submissions?from=${day}T00:00`,
    search: '/submissions?account=account+0&verdict=TLE&language=java',
    submission: `/submissions/${lost!.id}`,
    delivery: `/submissions/${waiting!.id}`,
    deliveries: '/deliveries?status=waiting',
    accounts: '/accounts',
    account: `/accounts/${lost!.account_id}`,
    tiers: '/tiers?tier=beta',
    log: '/log',
    sign_in: '/sign-in',
    missing: '/submissions/00000000-0000-7000-8000-000000000000',
  };

  for (const [name, path] of Object.entries(pages)) {
    await t.test(
      `${name}: it fits a phone, in dark and in light, and every control has a name`,
      async (t) => {
        for (const view of [
          { ...PHONE, dark: true },
          { ...DESK, dark: false },
        ]) {
          await page.view(view);
          await open(path);
          if (name === 'now')
            await page.until(`document.querySelectorAll('.plot canvas').length === 4`);
          const what = `${view.width}-${view.dark ? 'dark' : 'light'}`;
          t.ok(
            await page.read(`document.documentElement.scrollWidth <= ${view.width}`),
            `${what}: nothing is wider than the screen`,
          );
          t.same(await page.read(UNNAMED), [], `${what}: without a name`);
          t.same(await page.read(FAINT), [], `${what}: too little contrast`);
          if (PICTURES) await page.picture(`build/console/${name}-${what}.png`);
        }
      },
    );
  }

  await t.test('a search of 10,000 submissions goes on by its link', async (t) => {
    await page.view(DESK);
    await open(pages.submissions);
    const first = await page.read<string>(`document.querySelector('td .id').title`);
    t.equal(await page.read(`document.querySelectorAll('tbody tr').length`), 50);
    await page.read(`document.querySelector('[rel=next]').focus()`);
    await page.press('Enter');
    await page.until(`document.querySelector('td .id')?.title < ${JSON.stringify(first)}`);
  });

  await t.test('no page needs anything from elsewhere, and none breaks its policy', async (t) => {
    t.same(
      page.complaints.filter((line) => !EXPECTED.test(line)),
      [],
    );
    t.same(
      page.requests.filter(
        // Its own icons, and the one that it asks every service for.
        (url) =>
          !url.startsWith(`${origin}/console`) &&
          !url.startsWith('data:') &&
          url !== `${origin}/favicon.ico`,
      ),
      [],
    );
  });
});

/** A page that is not there; and what the first page asks for again and again may be too much for a busy machine's database. */
const EXPECTED = /^network: .* status of (404 |503 .*\/live\b)/;

/** Controls that a screen reader could not name. */
const UNNAMED = `[...document.querySelectorAll('a, button, input:not([type=hidden]), select, summary, [tabindex]')]
  .filter((each) => !(each.getAttribute('aria-label') || each.textContent.trim() || each.labels?.length))
  .filter((each) => each.localName !== 'pre').map((each) => each.outerHTML)`;

/** Texts whose colour is too near to that of the ground behind them (WCAG AA: 4.5). */
const FAINT = `(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('main *')]
    .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '') && each.checkVisibility())
    .filter((each) => {
      const [a, b] = [light(getComputedStyle(each).color), light(ground(each))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05) < 4.5;
    })
    .map((each) => each.outerHTML.slice(0, 120));
})()`;
