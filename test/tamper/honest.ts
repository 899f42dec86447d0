/** What an honest service, or a stranger who can do no harm, leaves in a ledger: verify must name none of it. */
import { createHash } from 'node:crypto';
import { parseRemovals } from '../../src/domain/removals.ts';
import { NoteSigner, WITNESS_KEY } from '../../src/proof/note.ts';
import { seal } from '../store/seal_now.ts';
import { BOTH_NAMES, launder, lose } from './claim_manipulations.ts';
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

export const honest: readonly Honest[] = [
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
