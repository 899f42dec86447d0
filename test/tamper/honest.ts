/** What an honest service, or a stranger who can do no harm, leaves in a ledger: verify must name none of it. */
import { createHash } from 'node:crypto';
import { connect, type Db } from '../../src/db.ts';
import { parseRemovals } from '../../src/domain/removals.ts';
import { NoteSigner, WITNESS_KEY } from '../../src/proof/note.ts';
import { createSealer } from '../../src/store/checkpoints.ts';
import { repair } from '../../src/store/repair.ts';
import { seal } from '../store/seal_now.ts';
import { BOTH_NAMES, launder, lose, RENAMED } from './claim_manipulations.ts';
import type { Copy } from './ledger.ts';
import type { Manipulation } from './manipulation.ts';
import { putCosignature } from './time_manipulations.ts';

type Honest = Pick<Manipulation, 'name' | 'does'> & {
  readonly after?: Manipulation['after'];
  readonly with?: Parameters<Copy['verify']>[0];
};

const now_s = () => Math.floor(Date.now() / 1000);
const stranger = (n: number) =>
  new NoteSigner(`w${n}`, WITNESS_KEY, createHash('sha256').update(String(n)).digest());

/** What a stolen login of the role does. */
const as = (root: Db, role: 'web' | 'worker', work: (db: Db) => Promise<unknown>) =>
  root.begin(async (tx) => {
    await tx.unsafe(`set local role runledger_${role}`);
    await work(tx as unknown as Db);
  });

const isRefused = async (work: Promise<unknown>, says: RegExp) => {
  const error = await work.then(
    () => new Error('it was not refused'),
    (error: Error) => error,
  );
  if (!says.test(error.message)) throw error;
};

type MadeUp = { to_xid?: string | null; note: string; sealed_at?: string };

/** The next checkpoint as web's login can make it up: of the newest one, with another place and note. */
const madeUp = (
  db: Db,
  { to_xid = null, note, sealed_at = new Date().toISOString() }: MadeUp,
) => db`
  select runledger.put_checkpoint(to_jsonb(c) || jsonb_build_object('number', c.number + 1, 'size', c.size + 1,
      'sealed_at', ${sealed_at}::text, 'to_xid', ${to_xid}::text, 'note', ${note}::text), c.root,
    jsonb_build_array(jsonb_build_object('level', 0, 'index', c.size / 256, 'width', c.size % 256 + 1, 'generation', 1, 'xid', '1', 'seq', 1)),
    t.hashes || sha256('x'), s.cells, s.signature)
  from runledger.last_checkpoint() c, runledger.last_sketch() s, runledger.read_tiles('{0}', array[c.size / 256]) t`;

export const honest: readonly Honest[] = [
  {
    name: 'web’s login stores a checkpoint whose place is still to come, and the log is repaired',
    does: async ({ root, owner_url }) => {
      const [last] = await root<{ note: string; to_xid: string }[]>`
        select note, to_xid::text as to_xid from runledger.checkpoints order by number desc limit 1`;
      const to_come = { to_xid: '18446744073709551615', note: last!.note };
      await isRefused(
        as(root, 'web', (db) => madeUp(db, to_come)),
        /is still to come/,
      );
      for (const [at_ms, says] of [
        [Date.now() - 3_600_000, /is older than the one before it|is of a time that is long past/],
        [Date.now() + 3_600_000, /is of a time that is still to come/],
      ] as const)
        await isRefused(
          as(root, 'web', (db) =>
            madeUp(db, { ...last!, sealed_at: new Date(at_ms).toISOString() }),
          ),
          says,
        );
      await as(root, 'web', (db) => madeUp(db, last!));
      const db = connect(owner_url, { name: 'operator', max: 1 });
      await repair(db, RENAMED, { reason: 'a stolen login', operator: 'x@y' });
      await db.end();
      const sealed = await createSealer(RENAMED).seal(root);
      if (sealed.length === 0) throw new Error('nothing is sealed after the repair');
    },
    with: {
      policy: BOTH_NAMES,
      allow: ({ origin, size }) => parseRemovals(`repaired ${origin} ${size + 1}`),
    },
  },
  {
    name: 'a worker’s login reports 17 MB: the report is refused, and sealing goes on',
    does: async ({ root }, { ids }) => {
      await as(
        root,
        'worker',
        (db) => db`
          select runledger.complete_many(gen_random_uuid(), array[${ids[0]!}]::uuid[], '{7}',
            jsonb_build_array(jsonb_build_object('status', 'completed', 'facts',
              jsonb_build_object('verdict', repeat('x', 17000000), 'operator', 'alice@console'))), '{}', '{}', '{}')`,
      );
      await seal(root);
    },
  },
  {
    name: 'a witness outside the policy has a clock that is ten minutes behind',
    does: ({ root }) => putCosignature(root, stranger(0), 3, now_s() - 600),
  },
  {
    name: 'a witness outside the policy signs in fifty years',
    does: ({ root }) => putCosignature(root, stranger(0), 3, now_s() + 50 * 365 * 86_400),
  },
  {
    name: 'a checkpoint has more cosignatures than a note may have',
    does: async ({ root }) => {
      for (let n = 0; n < 70; n++) await putCosignature(root, stranger(n), 3, now_s());
    },
  },
  {
    name: 'a web process seals whose clock is a minute behind the one that sealed before',
    does: async ({ root }) => {
      await root.unsafe(`alter table runledger.checkpoints disable trigger refuse_change;
        update runledger.checkpoints set sealed_at = sealed_at + interval '1 minute' where number = 3;
        alter table runledger.checkpoints enable always trigger refuse_change`);
      await seal(root);
    },
  },
  {
    name: 'an upload of a test set was cut off',
    does: ({ root }) =>
      root`select runledger.put_pieces('{f0000000-0000-4000-8000-00000000000a}', array[sha256('x')], '{9}',
        '{f0000000-0000-4000-8000-00000000000a}', '{0}', '{x}')`,
  },
  {
    name: 'an operator deletes the test sets that nothing has used for long',
    does: ({ root }) =>
      root`select runledger.purge_test_set(id, now() - interval '30 days', 'ada@console')
        from runledger.unused_test_sets(now() - interval '30 days') id`,
  },
  {
    name: 'a role that owns nothing of ours shares what it makes later',
    does: ({ root }) =>
      // Roles are the server's, so the copy's end does not remove them.
      root
        .unsafe(`create role bob; create role alice;
        alter default privileges for role bob grant select on tables to alice`)
        .simple(),
    after: ({ root }) => root.unsafe('drop owned by bob; drop role bob; drop role alice').simple(),
  },
  {
    name: 'a provider has settings that change no answer',
    does: async ({ root }) => {
      const [{ name } = { name: '' }] = await root<
        { name: string }[]
      >`select current_database() as name`;
      for (const setting of [
        `timezone = 'Europe/Berlin'`,
        `datestyle = 'ISO, DMY'`,
        `lc_messages = 'C'`,
        `statement_timeout = '1h'`,
        `client_encoding = 'UTF8'`,
        'extra_float_digits = 3',
      ])
        await root.unsafe(`alter database ${name} set ${setting}`);
      for (const zone of ['America/Port-au-Prince', 'Etc/GMT+5', 'EST5EDT', 'UTC'])
        await root.unsafe(`alter role runledger_web in database ${name} set timezone = '${zone}'`);
    },
  },
  {
    name: 'an administrator sets when tables are cleaned and read in parallel',
    does: ({ root }) =>
      root
        .unsafe(`alter table runledger.test_sets set (autovacuum_vacuum_scale_factor = 0.01, parallel_workers = 2,
          toast.autovacuum_enabled = on, fillfactor = 90);
        alter table runledger.submissions_default reset (fillfactor)`)
        .simple(),
  },
  {
    name: 'a refusal of each of two kinds, and of one in two hours',
    does: ({ root }) => {
      const refusal = (error: string, ago: string) =>
        `(date_trunc('hour', now()) - interval '${ago}', '${error}', 1, now(), 'x', 'rl_x')`;
      const rows = [refusal('a', '0'), refusal('b', '0'), refusal('a', '1 hour')];
      return root.unsafe(`insert into runledger.refusals (hour, error, requests, last_at, last_request_id, key_prefix)
        values ${rows.join(', ')}`);
    },
  },
  {
    name: 'a repair after events were lost, before the log is as large as it was',
    does: lose,
    with: {
      policy: BOTH_NAMES,
      allow: ({ origin, size }) => parseRemovals(`repaired ${origin} ${size}`),
    },
  },
  {
    name: 'a repair under a new name that the auditor allows',
    does: launder,
    with: {
      policy: BOTH_NAMES,
      allow: ({ origin, size }) => parseRemovals(`repaired ${origin} ${size}`),
    },
  },
];
