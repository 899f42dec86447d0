import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { commands } from '../../src/cli/command_table.ts';
import { commandHelp } from '../../src/cli/help.ts';
import { connect } from '../../src/db.ts';
import { heartbeatName } from '../../src/queue/heartbeat_session.ts';
import { freshDatabase } from '../support/database.ts';
import { CLI, runledger, runProgram } from './command_line.ts';

/** Of the languages one is enough: without this, doctor runs a program of each, and gets ready what C++ and Java need. */
const ONE_LANGUAGE = { RUNLEDGER_LANGUAGES: 'python' };
const KEY = /^rl_live_[0-9A-Za-z]{36}\n$/;

t.test('the overview lists every command', async (t) => {
  const { status, stdout, stderr } = await runledger(['--help']);
  t.equal(status, 0);
  t.equal(stderr, '');
  for (const [name, load] of Object.entries(commands)) {
    const { command } = await load();
    t.match(stdout, new RegExp(`^  \\./runledger ${name}( .*)?\n      `, 'm'), name);
    t.ok(stdout.includes(`      ${command.summary}\n`), name);
  }
});

t.test('the help of a command has its usage, a line for each option, and an example', async (t) => {
  for (const [name, load] of Object.entries(commands)) {
    const { command } = await load();
    const { options = {}, words = [], example } = command;
    const help = commandHelp(name, command);
    t.ok(help.startsWith(`usage: ./runledger ${name}`), name);
    for (const word of words) t.match(help, new RegExp(`^  ${word.name} +\\S`, 'm'), name);
    for (const option of Object.keys(options))
      t.match(help, new RegExp(`^  --${option}( \\S+)?  +\\S`, 'm'), `${name} --${option}`);
    t.ok(help.includes(`example: ./runledger ${example}\n`), name);
    t.match(` ${example} `, ` ${name} `, 'the example calls the command');
  }
});

t.test('a command whose answer cannot be written says so and fails', async (t) => {
  for (const words of [
    'config',
    '--version',
    'help',
    'config --help',
    'keys --help',
    'serve --help',
  ]) {
    const script = `"$0" "$1" ${words} > /dev/full`;
    const args = ['-c', script, process.execPath, CLI];
    t.same(await runProgram('sh', args, { cwd: '/' }), {
      status: 1,
      stdout: '',
      stderr:
        'the output could not be written: ENOSPC: no space left on device, write: free some space on that disk\n',
    });
  }
  const head = ['-c', '"$0" "$1" help | true', process.execPath, CLI];
  t.equal((await runProgram('sh', head, { cwd: '/' })).stderr, '', 'a reader may stop early');
});

t.test('--help and -h print the help of a command and run nothing', async (t) => {
  for (const args of [
    ['keys', 'create', '--help'],
    ['serve', '-h'],
    ['detach', 'not-a-month', '--help'],
  ]) {
    const { status, stdout, stderr } = await runledger(args);
    t.match({ status, stderr }, { status: 0, stderr: '' }, args.join(' '));
    t.match(stdout, /^usage: .*\n\n[A-Z][^\n]*\.\n\n {2}.*\n\nexample: /s);
  }
});

t.test('a group has help that lists its commands, with an example', async (t) => {
  const { status, stdout } = await runledger(['keys', '--help']);
  t.equal(status, 0);
  for (const name of ['create', 'list', 'revoke', 'rotate'])
    t.match(stdout, new RegExp(`^  \\./runledger keys ${name} `, 'm'));
  t.notMatch(stdout, /tiers/);
  t.match(stdout, /^example: \.\/runledger keys create --account/m);
});

t.test('--version prints the version of the package', async (t) => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  t.match(await runledger(['--version']), {
    status: 0,
    stdout: `runledger ${version}\n`,
    stderr: '',
  });
});

t.test('without arguments it prints the overview to stderr and exits 2', async (t) => {
  const { status, stdout, stderr } = await runledger([]);
  t.match({ status, stdout }, { status: 2, stdout: '' });
  t.match(stderr, /\.\/runledger serve/);
});

t.test(
  'a mistake of the caller is one line on stderr that says what to do, with status 2',
  async (t) => {
    const cases: [string[], RegExp][] = [
      [['nonsense'], /no such command: nonsense; see `\.\/runledger --help`/],
      [
        ['keys'],
        /keys: no command given \(create, list, revoke, rotate\); see `\.\/runledger keys --help`/,
      ],
      [['keys', 'make'], /no such command: keys make \(create, .*see `\.\/runledger keys --help`/],
      [['keys', 'create'], /--account is missing; see `\.\/runledger keys create --help`/],
      [['keys', 'create', '--account', ''], /--account is missing/],
      [
        ['keys', 'create', '--acount', 'me'],
        /Unknown option '--acount'; see `.* keys create --help`/,
      ],
      [['keys', 'create', '--account'], /Option '--account <value>' argument missing; see /],
      [['keys', 'revoke'], /usage: \.\/runledger keys revoke ID; see /],
      [['keys', 'revoke', 'x'], /not the id of a key: x; `\.\/runledger keys list` shows the ids/],
      [
        ['keys', 'rotate', '018f0000-0000-7000-8000-000000000000', '--grace', 'soon'],
        /--grace must be a time/,
      ],
      [
        ['keys', 'rotate', '018f0000-0000-7000-8000-000000000000', '--grace', '366d'],
        /--grace must be a time .* of at most 365d/,
      ],
      [
        ['tiers', 'set', 'gold', '--per-minute', 'many', '--concurrent', '1'],
        /--per-minute must be/,
      ],
      [['migrate', 'now'], /usage: \.\/runledger migrate/],
    ];
    for (const [args, expected] of cases) {
      const { status, stdout, stderr } = await runledger(args);
      t.equal(status, 2, args.join(' '));
      t.equal(stdout, '');
      t.match(stderr, expected);
      t.match(stderr, /^[^\n]+\n$/, 'one line');
    }
  },
);

t.test('an invalid environment stops every command, with one line for each problem', async (t) => {
  const env = {
    RUNLEDGER_QUEUE_CAPACTIY: '5',
    PORT: 'http',
    DATABASE_URL: 'postgres://localhost/none',
  };
  for (const args of [['keys', 'list'], ['serve'], ['web'], ['worker']]) {
    const { status, stderr } = await runledger(args, env);
    t.equal(status, 2, args.join(' '));
    t.match(
      stderr,
      /^RUNLEDGER_QUEUE_CAPACTIY: no such variable.*\nPORT: must be a whole number.*\n$/,
    );
  }
  // These start again without the secrets of others, and without all that they do not know.
  const with_secrets = {
    DATABASE_URL: 'postgres://localhost/none',
    RUNLEDGER_WEB_DATABASE_URL: 'postgres://web@localhost/none',
    RUNLEDGER_WORKER_DATABASE_URL: 'postgres://worker@localhost/none',
    RUNLEDGER_WEBHOOK_KEY: 'x',
  };
  for (const name of ['web', 'worker'])
    t.match(await runledger([name], with_secrets), {
      status: 2,
      stderr: /^RUNLEDGER_WEBHOOK_KEY: no such variable[^\n]*\n$/,
    });
});

t.test('config prints every variable, and exits 1 if one is invalid', async (t) => {
  const well = await runledger(['config', '--json'], { RUNLEDGER_QUEUE_CAPACITY: '7' });
  t.equal(well.status, 0);
  const printed = JSON.parse(well.stdout) as { name: string; value: string; default: string }[];
  const capacity = printed.find(({ name }) => name === 'RUNLEDGER_QUEUE_CAPACITY');
  t.match(capacity, { value: '7', default: '10000', unit: 'submissions' });
  const doubtful = await runledger(['config'], { RUNLEDGER_LIMITS_CPU_MAX: '60s' });
  t.match(doubtful, { status: 0, stderr: /RUNLEDGER_LIMITS_CPU_MAX: over .*: raise / });
  const invalid = await runledger(['config'], { RUNLEDGER_QUEUE_CAPACITY: 'lots' });
  t.equal(invalid.status, 1);
  t.match(invalid.stdout, /RUNLEDGER_QUEUE_CAPACITY\s+lots\s+10000/);
  t.match(invalid.stderr, /^RUNLEDGER_QUEUE_CAPACITY: must be a whole number/);
});

t.test('a command completes no address from PGPASSWORD and the like', async (t) => {
  const { url, name } = await freshDatabase(t);
  const { username, password, host } = new URL(url);
  const env = { PGPASSWORD: password, PGUSER: username, PGDATABASE: name };
  const list = (DATABASE_URL: string) => runledger(['keys', 'list'], { ...env, DATABASE_URL });
  t.match(await list(`postgres://${username}@${host}/${name}`), { status: 1, stderr: /password/ });
  t.match(await list(`postgres://${username}:${password}@${host}`), { status: 1, stdout: '' });
  const others = { PGUSER: 'nobody', PGDATABASE: 'none', PGPASSWORD: 'wrong', PGPORT: '1' };
  t.match(await runledger(['keys', 'list'], { ...others, DATABASE_URL: url }), { status: 0 });
});

t.test('a key is printed alone and only once; the database stores its digest', async (t) => {
  const { url } = await freshDatabase(t);
  const env = { DATABASE_URL: url };
  const created = await runledger(['keys', 'create', '--account', 'someone'], env);
  t.equal(created.status, 0, created.stderr);
  t.match(created.stdout, KEY);
  const listed = await runledger(['keys', 'list', '--json'], env);
  t.notMatch(listed.stdout, created.stdout.trim());
  t.match(JSON.parse(listed.stdout), [
    { account: 'someone', tier: 'beta', revoked_at: null, secrets: 1 },
  ]);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  const digest = createHash('sha256').update(created.stdout.trim()).digest('hex');
  const [row] =
    await db`select count(*)::int as n from runledger.key_secrets where encode(digest, 'hex') = ${digest}`;
  t.equal(row?.['n'], 1);
});

t.test('a key gets a second secret by rotation, and is revoked', async (t) => {
  const env = { DATABASE_URL: (await freshDatabase(t)).url };
  const created = JSON.parse(
    (await runledger(['keys', 'create', '--account', 'a', '--json'], env)).stdout,
  );
  const rotated = await runledger(['keys', 'rotate', created.id, '--grace', '30min'], env);
  t.match(rotated.stdout, KEY);
  t.not(rotated.stdout.trim(), created.key);
  t.match(
    rotated.stderr,
    /^the secret before this one .* ends at 20.*; any older one has ended now$/m,
  );
  const of = async () => JSON.parse((await runledger(['keys', 'list', '--json'], env)).stdout)[0];
  t.match(await of(), { id: created.id, secrets: 2, revoked_at: null });
  const repeated = await runledger(['keys', 'rotate', created.id], env);
  t.match(repeated, {
    status: 1,
    stdout: '',
    stderr: /has a new secret already, .* add --again$/m,
  });
  t.match(await of(), { secrets: 2 });
  const meant = await runledger(['keys', 'rotate', created.id, '--again'], env);
  t.match(meant, { status: 0, stdout: KEY });
  t.equal((await runledger(['keys', 'revoke', created.id], env)).status, 0);
  t.match(await of(), { revoked_at: String, secrets: 0 });
  t.match(await runledger(['keys', 'rotate', created.id], env), {
    status: 1,
    stdout: '',
    stderr: /^there is no key/,
  });
});

t.test('an operator’s key is printed alone, and revoked by its name', async (t) => {
  const env = { DATABASE_URL: (await freshDatabase(t)).url };
  const created = await runledger(['operator', 'create', 'alice'], env);
  t.match(created.stdout, /^rl_operator_[0-9A-Za-z]{36}\n$/);
  const again = await runledger(['operator', 'create', 'alice'], env);
  t.match(again, { status: 1, stdout: '', stderr: /operator alice has a key; revoke it first/ });
  t.equal((await runledger(['operator', 'revoke', 'alice'], env)).status, 0);
  const listed = await runledger(['operator', 'list', '--json'], env);
  t.match(JSON.parse(listed.stdout), [{ name: 'alice', revoked_at: String, signed_in_at: null }]);
  t.notMatch(listed.stdout, created.stdout.trim());
  const odd = await runledger(['operator', 'create', 'console:x'], env);
  t.match(odd, { status: 1, stderr: /an operator needs a name of a-z, 0-9/ });
});

t.test('a call that the database rejects is one line with status 1', async (t) => {
  const env = { DATABASE_URL: (await freshDatabase(t)).url };
  const cases = [
    ['keys', 'revoke', '018f0000-0000-7000-8000-000000000000'],
    ['keys', 'create', '--account', 'a', '--tier', 'nowhere'],
  ];
  for (const args of cases) {
    const { status, stdout, stderr } = await runledger(args, env);
    t.equal(status, 1, args.join(' '));
    t.equal(stdout, '');
    t.match(stderr, /^[^\n]+\n$/);
  }
});

t.test('a database that is away is one line with status 1', async (t) => {
  const { status, stderr } = await runledger(['keys', 'list'], {
    DATABASE_URL: 'postgres://someone:secret@127.0.0.1:1/none',
  });
  t.equal(status, 1);
  t.match(stderr, /ECONNREFUSED/);
  t.notMatch(stderr, /secret|\n\s+at /);
});

t.test('tiers are set and listed', async (t) => {
  const env = { DATABASE_URL: (await freshDatabase(t)).url };
  const set = await runledger(
    ['tiers', 'set', 'gold', '--per-minute', '0', '--concurrent', '50'],
    env,
  );
  t.equal(set.status, 0, set.stderr);
  t.equal(set.stderr, 'tier gold: requests a minute: no limit; submissions at once: 50\n');
  const free = ['tiers', 'set', 'free', '--per-minute', '1', '--concurrent', '0'];
  t.match(
    (await runledger(free, env)).stderr,
    'requests a minute: 1; submissions at once: no limit',
  );
  const people = await runledger(['tiers', 'list'], env);
  t.match(people.stdout, /^gold +no limit +50 /m);
  const { stdout } = await runledger(['tiers', 'list', '--json'], env);
  t.match(JSON.parse(stdout), [
    { name: 'beta', per_minute: 60, concurrent: 10 },
    { name: 'free', per_minute: 1, concurrent: 0 },
    { name: 'gold', per_minute: 0, concurrent: 50 },
  ]);
});

t.test('migrate prints what it did, and does nothing the second time', async (t) => {
  const env = { DATABASE_URL: (await freshDatabase(t)).url };
  const { status, stdout } = await runledger(['migrate', '--json'], env);
  t.equal(status, 0);
  t.strictSame(JSON.parse(stdout), { applied: [], definitions: 'unchanged' });
});

t.test('doctor checks the database, and warns about a shared login', async (t) => {
  const { urls } = await freshDatabase(t);
  const shared = await runledger(['doctor', '--json'], {
    ...ONE_LANGUAGE,
    DATABASE_URL: urls.owner,
  });
  const found = JSON.parse(shared.stdout) as { check: string; state: string; remedy: string }[];
  t.match(
    found.find(({ check }) => check === 'database'),
    { state: 'ok' },
  );
  t.match(
    found.find(({ check }) => check === 'roles'),
    { state: 'warn', remedy: /RUNLEDGER_WEB_DATABASE_URL/ },
  );
  const own = await runledger(['doctor', '--json'], {
    ...ONE_LANGUAGE,
    DATABASE_URL: urls.owner,
    RUNLEDGER_WEB_DATABASE_URL: urls.web,
    RUNLEDGER_WORKER_DATABASE_URL: urls.worker,
  });
  const again = JSON.parse(own.stdout) as typeof found;
  t.match(
    again.find(({ check }) => check === 'roles'),
    { state: 'ok' },
  );
});

t.test(
  'doctor says which logins the processes use, whatever its own environment has',
  async (t) => {
    const { urls } = await freshDatabase(t);
    const roles = async (own: NodeJS.ProcessEnv = {}) => {
      const env = { ...ONE_LANGUAGE, DATABASE_URL: urls.owner, ...own };
      const { stdout } = await runledger(['doctor', '--only', 'service', '--json'], env);
      return JSON.parse(stdout).find(({ check }: { check: string }) => check === 'roles');
    };
    const alive = async (kind: string, url: string) => {
      const db = connect(url, { name: heartbeatName(kind), max: 1 });
      t.teardown(() => db.end({ timeout: 1 }));
      await db`select`;
      return db;
    };
    t.match(await roles(), { state: 'warn', found: /^web and worker use the owner's login/ });
    await alive('web', urls.web);
    t.match(await roles(), { state: 'ok' });
    const worker = await alive('worker', urls.owner);
    const own = {
      RUNLEDGER_WEB_DATABASE_URL: urls.web,
      RUNLEDGER_WORKER_DATABASE_URL: urls.worker,
    };
    t.match(await roles(own), { state: 'warn', found: /^worker use the owner's login/ });
    await worker.end();
  },
);

t.test('a fault of operation is one line with the remedy, and no stack', async (t) => {
  const away = await runledger(['migrate'], { DATABASE_URL: 'postgres://x@127.0.0.1:1/none' });
  t.match(away, {
    status: 1,
    stdout: '',
    stderr: /^connect ECONNREFUSED 127\.0\.0\.1:1: check that PostgreSQL runs, .*DATABASE_URL\)\n$/,
  });
  const { url, urls } = await freshDatabase(t);
  const at = (change: (url: URL) => void, from = url) => {
    const changed = new URL(from);
    change(changed);
    return { DATABASE_URL: changed.href };
  };
  const nowhere = at((changed) => (changed.pathname = '/nosuch'));
  t.match(await runledger(['keys', 'list'], nowhere), {
    stderr: /^PostgreSQL answered: database "nosuch" does not exist: create that database, or/,
  });
  const stranger = at((changed) => (changed.password = 'wrong'), urls.web);
  t.match(await runledger(['keys', 'list'], stranger), {
    stderr:
      /^PostgreSQL answered: password authentication failed .*: check the login in DATABASE_U/,
  });
  t.match(
    (await runledger(['doctor', '--only', 'service'], stranger)).stdout,
    /-> check the login/,
  );
  t.match(await runledger(['keys', 'list'], { DATABASE_URL: urls.worker }), {
    stderr: /^PostgreSQL answered: permission denied .*: use the owner's login/,
  });
  const kept_30 = { DATABASE_URL: url, RUNLEDGER_KEEP_BYTES: '30d' };
  t.match(await runledger(['migrate'], kept_30), {
    stdout: /\nretention: bytes are kept for 30 days, events for ever\n$/,
  });
  const secure = {
    DATABASE_URL: url,
    RUNLEDGER_TLS: 'native',
    RUNLEDGER_TLS_CERT_FILE: '/no/cert',
  };
  t.match(
    (
      await runledger(['web'], {
        ...secure,
        RUNLEDGER_TLS_KEY_FILE: '/no/key',
        RUNLEDGER_DIGEST_KEY: Buffer.alloc(32).toString('base64'),
        PORT: '0',
      })
    ).stdout,
    /"reason":"RUNLEDGER_TLS_CERT_FILE: ENOENT.*","remedy":"name a file that this user can read"/,
  );
  const unwritable = await runledger(['backup', '/no/folder/one.backup'], { DATABASE_URL: url });
  t.match(unwritable, {
    status: 1,
    stderr: 'the folder /no/folder does not exist: make it, or choose another one\n',
  });
  const kept = await runledger(['backup', 'package.json'], { DATABASE_URL: url });
  t.match(kept, { status: 1, stderr: /^package\.json exists already, .*: choose another name\n$/ });
  const none = await runledger(['backup', 'x', '--keep', '0'], { DATABASE_URL: url });
  t.match(none, { status: 2, stderr: /--keep must be a number from 1/ });
});

t.test('doctor exits 1 if a check fails', async (t) => {
  const { status, stdout } = await runledger(['doctor'], {
    ...ONE_LANGUAGE,
    DATABASE_URL: 'postgres://x@127.0.0.1:1/none',
  });
  t.equal(status, 1);
  t.match(stdout, /^fail {2}database /m);
});
