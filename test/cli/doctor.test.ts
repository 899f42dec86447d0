/** `./runledger doctor`: it runs programs, so it says what this machine can really do. */
// needs: isolation, python
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { folderFor, ROOT, UNISOLATED } from '../deploy/environments.ts';
import { start, submission, world } from '../store/world.ts';
import { emptyDatabase, freshDatabase } from '../support/database.ts';
import { type Ran, runProgram } from './command_line.ts';

type Finding = {
  check: string;
  state: 'ok' | 'warn' | 'fail';
  found: string;
  remedy: string | null;
};

const findingsOf = ({ stdout }: Ran) => JSON.parse(stdout) as Finding[];
const find = (ran: Ran, check: string) => findingsOf(ran).find((each) => each.check === check);

const { urls, superuser_url } = await freshDatabase(t);
const env = {
  RUNLEDGER_LANGUAGES: 'python',
  DATABASE_URL: urls.owner,
  RUNLEDGER_WEB_DATABASE_URL: urls.web,
  RUNLEDGER_WORKER_DATABASE_URL: urls.worker,
};
const doctor = (more: NodeJS.ProcessEnv = {}, inside: readonly string[] = []) => {
  const [program, ...args] = [...inside, './runledger', 'doctor', '--json'];
  return runProgram(program!, args, { cwd: ROOT, env: { ...env, ...more } });
};

t.test('on a machine that isolates programs, it has run one in a box', async (t) => {
  const ran = await doctor();
  t.equal(ran.status, 0, ran.stdout);
  t.match(find(ran, 'launcher'), { state: 'ok' });
  t.match(find(ran, 'isolation'), { state: 'ok', found: /: control groups and namespaces$/ });
  t.match(find(ran, 'slots'), { state: 'ok', found: /^\d+, with .* of memory free/ });
  t.match(find(ran, 'python program'), { state: 'ok', found: /^ran: \d+ ms$/ });
  for (const { check, state, remedy } of findingsOf(ran))
    t.equal(remedy === null, state === 'ok', `${check}: a remedy exactly where something is wrong`);
});

t.test(
  'more slots than the free memory allows are a warning, with the number that fits',
  async (t) => {
    // A third of it for each of 60 slots. 64 MiB is the least that a limit may be.
    const limit = Math.max(Math.floor(process.availableMemory() / 3 / 2 ** 20), 64);
    const ran = await doctor({
      RUNLEDGER_SLOTS: '60',
      RUNLEDGER_LIMITS_MEMORY: `${limit}MiB`,
      RUNLEDGER_LIMITS_MEMORY_MAX: `${limit}MiB`,
    });
    t.match(find(ran, 'slots'), { state: 'warn', remedy: /^set RUNLEDGER_SLOTS=\d+, or free/ });
  },
);

t.test('it can look at the machine alone, or at the service alone', async (t) => {
  const only = (part: string, more: NodeJS.ProcessEnv) =>
    runProgram('./runledger', ['doctor', '--json', '--only', part], {
      cwd: ROOT,
      env: { ...env, ...more },
    });
  // Nothing listens on port 1.
  const machine = await only('machine', { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
  t.equal(machine.status, 0, machine.stdout);
  t.match(find(machine, 'python program'), { state: 'ok' });
  t.equal(find(machine, 'database'), undefined);
  const service = await only('service', { RUNLEDGER_LAUNCHER: '/no/launcher' });
  t.equal(service.status, 0, service.stdout);
  t.match(find(service, 'database'), { state: 'ok' });
  t.equal(find(service, 'launcher'), undefined);
  t.match(await only('all', {}), { status: 2, stderr: /--only must be machine or service/ });
});

t.test('without a launcher it fails, and says how to build one', async (t) => {
  const ran = await doctor({ RUNLEDGER_LAUNCHER: '/no/launcher' });
  t.equal(ran.status, 1);
  t.match(find(ran, 'launcher'), { state: 'fail', remedy: /`make install`/ });
});

t.test('mistakes of the environment are named once each, and hide nothing', async (t) => {
  const no_launcher = { RUNLEDGER_LAUNCHER: '/no/launcher' };
  const ran = await doctor({ RUNLEDGER_SLOTS: 'many', RUNLEDGER_SLOT: '1', ...no_launcher });
  t.equal(ran.status, 1);
  t.match(
    findingsOf(ran).filter(({ check }) => check === 'environment'),
    [
      { state: 'fail', found: /^RUNLEDGER_SLOT: no such variable/ },
      { state: 'fail', found: /^RUNLEDGER_SLOTS: must/, remedy: /correct it/ },
    ],
  );
  for (const check of ['memory', 'python', 'database', 'clocks', 'queue'])
    t.match(find(ran, check), { state: 'ok' }, check);
  t.match(find(ran, 'launcher'), { state: 'fail' });

  const wrong_address = await doctor({ RUNLEDGER_DATABASE_TLS: 'maybe', ...no_launcher });
  t.match(find(wrong_address, 'python'), { state: 'ok' });
  t.match(find(wrong_address, 'service'), { state: 'warn', remedy: /correct/ });
  t.equal(find(wrong_address, 'database'), undefined, 'it may be another one');
  const wrong_pool = await doctor({ RUNLEDGER_DATABASE_POOL: 'many', ...no_launcher });
  t.match(find(wrong_pool, 'database'), { state: 'ok' }, 'this one is no address');
});

t.test('without an address it looks at the disk where the data will be', async (t) => {
  const own = async (more: NodeJS.ProcessEnv) => {
    const args = ['doctor', '--json', '--only', 'service'];
    // Nothing can be made there, and its disk has no room.
    const given = { RUNLEDGER_STATE_DIR: '/proc/none/state', ...more };
    return runProgram('./runledger', args, { cwd: ROOT, env: given });
  };
  const full = { state: 'fail', found: /^0 B free for / };
  t.match(find(await own({}), 'database disk'), full);
  t.match(find(await own({ RUNLEDGER_SLOTS: 'many' }), 'database disk'), full);
  t.match(find(await own({ RUNLEDGER_DATABSE_URL: 'x' }), 'service'), { state: 'warn' });
});

t.test('of a database without tables all else is said', async (t) => {
  const { urls } = await emptyDatabase(t);
  const ran = await doctor({ DATABASE_URL: urls.owner, RUNLEDGER_LAUNCHER: '/no/launcher' });
  t.equal(ran.status, 1);
  t.match(find(ran, 'schema'), { state: 'fail', remedy: /runledger migrate/ });
  for (const check of ['database', 'database disk', 'clocks'])
    t.match(find(ran, check), { state: 'ok' }, check);
  t.ok(find(ran, 'durability'));
});

t.test('a login of a worker that can take locks is a warning', async (t) => {
  const superuser = connect(superuser_url, { name: 'test', max: 1 });
  t.teardown(() => superuser.end());
  const found = async () => find(await doctor(), 'auditor login');
  t.match(await found(), { state: 'ok', found: /^bounded/ });
  const lock = 'on function pg_try_advisory_xact_lock(bigint)';
  await superuser.unsafe(`grant execute ${lock} to runledger_worker`);
  t.match(await found(), { state: 'warn', found: /^runledger_worker can take advisory locks/ });
  await superuser.unsafe(`revoke execute ${lock} from runledger_worker`);
});

t.test('what is valid and of no use is a warning', async (t) => {
  const ran = await doctor({ RUNLEDGER_LIMITS_CPU_MAX: '60s', RUNLEDGER_LAUNCHER: '/no/launcher' });
  t.match(find(ran, 'environment'), {
    state: 'warn',
    found: /^RUNLEDGER_LIMITS_CPU_MAX: over/,
    remedy: /raise RUNLEDGER_LIMITS_WALL_MAX/,
  });
});

t.test('it says what the database has left, and whether submissions are run', async (t) => {
  const w = await world(t);
  const { owner: DATABASE_URL } = w.database.urls;
  // The programs were run above.
  const look = () => doctor({ DATABASE_URL, RUNLEDGER_LAUNCHER: '/no/launcher' });
  const empty = await look();
  t.match(find(empty, 'database'), { state: 'ok', found: /, \d+(\.\d+)? MiB, no TLS, no pooler$/ });
  t.match(find(empty, 'connections'), { found: /^\d+ used, \d+ of them in this .*; \d+ left/ });
  t.match(find(empty, 'clocks'), { state: 'ok', found: /^the database's is 0\.\d s / });
  t.match(find(empty, 'workers'), { state: 'warn', found: /^none is alive/ });
  t.match(find(empty, 'queue'), { state: 'ok', found: /^0 of 10000 submissions wait; / });

  const { digest } = await w.key();
  await w.submissions().submit({ secret_digest: digest, submission: submission() });
  const left = await look();
  t.match(find(left, 'workers'), {
    state: 'fail',
    found: 'none is alive, and 1 submissions wait',
    remedy: /runledger worker/,
  });
  t.match(find(left, 'queue'), { found: /^1 of 10000 submissions wait, the oldest for \d+ s; / });
  // What was lost takes no place in the queue, and waits all the same.
  const { id: gone, executions } = await w.consumer();
  const [waiting] = await w.db<{ id: string }[]>`select id from runledger.submissions`;
  await start(executions, waiting!.id);
  await w.db`select runledger.retire_consumer(${gone}, 'worker_died', '{}')`;
  const lost = await look();
  t.match(find(lost, 'workers'), {
    state: 'fail',
    found: 'none is alive, and what was lost waits to be run again',
  });
  t.match(find(lost, 'queue'), { found: /^0 of 10000 submissions wait, the oldest for \d+ s; / });

  const far = randomUUID();
  await w.db`select runledger.register_consumer(${far}, 'worker', 'far', 3, '{"cpp": "12"}', '{}', 1::bigint << 40)`;
  const near = await w.consumer();
  await w.submissions().submit({ secret_digest: digest, submission: submission() });
  const [judged] = await w.db<{ id: string }[]>`
    select id from runledger.submissions where id <> ${waiting!.id}`;
  await start(near.executions, judged!.id);
  await near.executions.release([judged!.id], 'no_slot', {}, undefined, 'java');
  await w.db`select runledger.retire_consumer(${near.id}, 'worker_died', '{}')`;
  // It is alive for as long as doctor needs to look.
  const beating = setInterval(() => void w.db`select runledger.heartbeat(${far})`.execute(), 500);
  t.teardown(() => clearInterval(beating));
  const found = findingsOf(await look()).filter(({ check }) => check === 'workers');
  clearInterval(beating);
  t.match(found, [
    { state: 'ok', found: /^on far: 3 slots for cpp; heartbeat \d\.\d s ago$/ },
    { state: 'warn', found: 'none runs python: such submissions wait' },
    {
      state: 'warn',
      found: 'none runs both python and java: submissions with such a checker or interactor wait',
    },
  ]);
});

const skip =
  process.getuid!() === 0 ? false : 'only root can become an ordinary user without a control group';

t.test('in a plain chroot', { skip }, async (t) => {
  const inside = ['unshare', '--mount', '--propagation', 'private', 'test/deploy/in_chroot.sh'];
  const ran = await doctor({}, inside);
  t.match(find(ran, 'isolation'), { found: /: control groups and namespaces$/ }, ran.stderr);
  t.match(find(ran, 'python program'), { state: 'ok' });
});

t.test('on a machine that does not isolate programs', { skip }, async (t) => {
  const RUNLEDGER_STATE_DIR = await folderFor(t, UNISOLATED);
  const asUser = (more: NodeJS.ProcessEnv) =>
    doctor({ RUNLEDGER_STATE_DIR, ...more }, UNISOLATED.inside);

  t.test('it fails, and has run a program degraded, as serve would', async (t) => {
    const ran = await asUser({});
    t.equal(ran.status, 1);
    const found = { state: 'fail', found: /`serve` runs your own code degraded, a `worker` does/ };
    t.match(find(ran, 'isolation'), { ...found, remedy: /.+/ });
    t.match(find(ran, 'python program'), { state: 'ok' });
  });

  t.test('it runs nothing where serve would not', async (t) => {
    const ran = await asUser({ RUNLEDGER_TLS: 'proxy' });
    t.equal(ran.status, 1);
    t.match(find(ran, 'isolation'), {
      state: 'fail',
      found: /neither `serve` on this address nor/,
    });
    t.equal(find(ran, 'python program'), undefined);
  });

  t.test('degraded isolation that was asked for by name is a warning', async (t) => {
    const ran = await asUser({ RUNLEDGER_ISOLATION: 'rlimits' });
    t.equal(ran.status, 0, ran.stdout);
    t.match(find(ran, 'isolation'), { state: 'warn', remedy: /.+/ });
    t.match(find(ran, 'python program'), { state: 'ok' });
  });
});
