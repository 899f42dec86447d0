/** A deploy: every process gets SIGTERM and is started again, one after the other, while requests go on. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { connect } from '../../src/db.ts';
import { createKey, setTier } from '../../src/store/keys.ts';
import { authority } from '../webhooks/receiver.ts';
import { startLoad } from './rolling.ts';
import { CannotIsolate, type Service, startService } from './service.ts';

const CLIENTS = 6;
/**
 * Of four stops of a web. Seen: 1 on a quiet machine, 4 on a busy one, and 11 from a web that cuts what it has accepted, on a
 * quiet one.
 */
const RESETS = 6;
/** A web that cuts is over the bound in each of so many. */
const ROUNDS = 3;

t.test(
  'a rolling restart under load fails no request and loses and repeats no result',
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'runledger-rolling-'));
    if (process.env['KEEP']) t.comment(`logs are in ${folder}`);
    else t.teardown(() => rm(folder, { recursive: true, force: true }));
    const ca_file = join(folder, 'authority.pem');
    await writeFile(ca_file, authority.pem);
    let service: Service;
    try {
      // Of the language of its programs: what C++ and Java need takes most of the CPU time of a worker's start.
      const env = { RUNLEDGER_LANGUAGES: 'python' };
      service = await startService(t, { folder, webs: 2, workers: 2, ca_file, env });
    } catch (error) {
      if (!(error instanceof CannotIsolate)) throw error;
      t.pass('rolling restart', { skip: error.message });
      return;
    }
    const db = connect(service.database.urls.owner, { name: 'test', max: 1 });
    await setTier(db, { name: 'free', per_minute: 0, concurrent: 0 });
    const key = newSecret('rl');
    await createKey(db, {
      account: 'a',
      tier: 'free',
      prefix: 'rl',
      secret_digest: secretDigest(key),
    });

    const origins = service.webs.map(({ origin }) => origin);
    const load = startLoad(origins, key, CLIENTS);
    const some = async () => {
      const until = load.done + 3 * CLIENTS;
      while (load.done < until) await wait(20);
    };
    const round = async () => {
      const before = load.resets;
      for (const member of [
        ...service.webs,
        ...service.workers,
        ...service.webs,
        ...service.workers,
      ]) {
        await some();
        member.signal('SIGTERM');
        while (member.pid() !== null) await wait(10);
        // A start takes long, and the load is about stops.
        load.pause(300);
        await member.revive();
        load.pause(0);
      }
      await some();
      return load.resets - before;
    };
    let resets = await round();
    for (let n = 1; resets > RESETS && n < ROUNDS; n += 1) resets = await round();
    const { results, wrong, busy } = await load.stop();
    t.same(wrong, [], 'no request failed');
    // The kernel resets what connects between the last look at its queue and the close of the listening socket.
    t.ok(resets <= RESETS, `${resets} connections were reset`);

    const rows = await db<{ id: string; started: number; ended: number; answered: number }[]>`
    select s.id, count(*) filter (where e.type = 'execution.started')::integer as started,
      count(*) filter (where e.type in ('submission.completed', 'submission.failed', 'submission.cancelled'))::integer as ended,
      count(*) filter (where e.type = 'execution.started' and exists (
        select from runledger.events c where c.stream = e.stream and c.type = 'submission.completed'
          and c.version < e.version))::integer as answered
    from runledger.submissions s join runledger.events e on e.stream = s.id group by 1`;
    await db.end();
    t.same(
      rows.filter(({ ended }) => ended !== 1),
      [],
      'each has one ending',
    );
    t.same(
      rows.filter(({ answered }) => answered > 0),
      [],
      'none ran again that had ended',
    );
    t.same(
      new Set(rows.map(({ id }) => id)),
      new Set(results.keys()),
      'each that was accepted has its result, and no other is in the log',
    );
    const again = rows.filter(({ started }) => started > 1).length;
    t.comment(`${rows.length} submissions, ${again} run again, ${busy} were asked to come back`);
  },
);
