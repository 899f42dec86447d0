/** Workers on separate machines: one is cut off from the network, one is killed. */
import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { ownServer } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { nothingIsLeft, overlaps, startFleet } from './fleet.ts';
import { admit, makeNetwork, noNetworks, ON_THE_NETWORK, urlFrom } from './network.ts';

const skip = noNetworks() ?? false;

t.test('the next network removes what a killed process left of its own', { skip }, async (t) => {
  const names = () =>
    `${execFileSync('ip', ['netns', 'list'])}${execFileSync('ip', ['-br', 'link'])}`;
  const other = fork(new URL('networked_process.ts', import.meta.url));
  const [id] = (await once(other, 'message')) as [string];
  const all = () =>
    [`rln${id}-2`, `rlb${id} `, `rlv${id}-2@`].filter((name) => names().includes(name));
  makeNetwork(t);
  t.equal(all().length, 3, 'and nothing of one that lives');
  other.kill('SIGKILL');
  await once(other, 'exit');
  makeNetwork(t);
  // The kernel removes a cable a little after its namespace.
  await until(() => all().length === 0);
});

t.test(
  'a machine that is cut off loses what it runs before it begins elsewhere',
  { skip },
  async (t) => {
    const server = await ownServer(t, ON_THE_NETWORK);
    await admit(server);
    const network = makeNetwork(t);
    const url = urlFrom(network, server.urls.worker);
    const fleet = await startFleet(t, { url: server.url });
    const [a, b, c] = [network.machine(), network.machine(), network.machine()];

    const cut_off = await fleet.worker({ within: a.within, url });
    // The first attempt does not end by itself: a busy machine takes long to start the other workers.
    const code = 'sleep 3600000 2000';
    const ids = [await fleet.submit(code), await fleet.submit(code)];
    for (const id of ids) await fleet.begun(id);
    const killed = await fleet.worker({ within: b.within, url });
    await fleet.worker({ within: c.within, url });
    await fleet.acquainted();

    a.cut();
    for (const id of ids) await fleet.begun(id, 2);
    for (const id of ids) {
      const end = fleet
        .runs()
        .find((run) => run.id === id && run.attempt === 1 && run.event !== 'begin');
      t.equal(end?.event, 'killed', 'by the launcher: the worker could not notice');
      t.match((await fleet.events(id))[2], { facts: { reason: 'worker_silent', counts: false } });
    }
    killed.signal('SIGKILL');
    a.heal();
    const more = await Promise.all(Array.from({ length: 20 }, () => fleet.submit('sleep 50')));
    for (const id of [...ids, ...more]) t.equal((await fleet.ended(id)).verdict, 'AC');
    t.same(overlaps(fleet.runs()), [], 'nothing ran twice at once');

    // When it is connected again, it joins as another consumer and takes its share.
    const [before] = await fleet.db`
    select id from runledger.consumers where end_reason = 'worker_silent'`;
    t.ok(before);
    cut_off.signal('SIGTERM');
    t.same(await cut_off.exited, { code: 0, signal: null });
    const [after] = await fleet.db`
    select id from runledger.consumers where end_reason = 'shutdown'`;
    t.ok(after, 'it had registered again');
    await nothingIsLeft(t, fleet);
  },
);
