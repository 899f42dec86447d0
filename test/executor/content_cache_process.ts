/** Fetches the half of a content, says so, and waits to be killed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { openContentCache } from '../../src/executor/content_cache.ts';

const [folder, file] = process.argv.slice(2) as [string, string];
const cache = await openContentCache({
  folder,
  max_bytes: 2 ** 20,
  max_entries: 1_000,
  others: [],
  async *fetch() {
    yield Buffer.from('the whole');
    process.send?.('half');
    await sleep(60_000);
  },
});
await cache.hold(JSON.parse(file));
