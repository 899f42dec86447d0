import t from 'tap';
import { variables } from '../../src/config/variables.ts';
import {
  ConfigError,
  describeConfig,
  doubtsOf,
  languageSwitches,
  listenHost,
  loadConfig,
} from '../../src/config.ts';
import { keyText, LOG_KEY, NoteSigner, WITNESS_KEY } from '../../src/proof/note.ts';
import { matchLists } from '../support/match_lists.ts';

const problems = (env: Record<string, string>): readonly string[] => {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
};

t.test('an empty environment is valid, and its config is deeply frozen', async (t) => {
  const config = loadConfig({});
  t.equal(config.port, 8080);
  t.equal(config.queue_capacity, 10_000);
  t.equal(config.pending_max_age_ms, 24 * 60 * 60 * 1000);
  t.ok(Object.isFrozen(config));
  t.ok(Object.isFrozen(config.languages));
  t.ok(Object.isFrozen(config.webhook_schedule_ms));
});

t.test(
  'every variable has its own name, a unit, a reason, and a default that it accepts',
  async (t) => {
    const all = Object.values(variables);
    t.equal(new Set(all.map((variable) => variable.name)).size, all.length);
    for (const variable of all) {
      t.ok(variable.unit.length > 0 && variable.reason.length > 10, variable.name);
      if (variable.default !== null)
        t.strictSame(problems({ [variable.name]: variable.default }), []);
    }
  },
);

t.test('a variable that does not exist stops the start, by name', async (t) => {
  const found = problems({ RUNLEDGER_QUEUE_CAPACTIY: '5', RUNLEDGER_WIAT_CAP: '5s', PATH: '/bin' });
  t.equal(found.length, 2);
  t.match(found[0], /^RUNLEDGER_QUEUE_CAPACTIY: no such variable/);
  t.match(found[1], /^RUNLEDGER_WIAT_CAP: no such variable/);
});

t.test('every mistake is one line that begins with its variable', async (t) => {
  const mistakes = {
    PORT: '65536',
    DATABASE_URL: 'mysql://somewhere/db',
    RUNLEDGER_TLS: 'yes',
    RUNLEDGER_KEY_PREFIX: 'Rl',
    RUNLEDGER_QUEUE_CAPACITY: '-1',
    RUNLEDGER_PENDING_MAX_AGE: '24',
    RUNLEDGER_WAIT_CAP: '31s',
    RUNLEDGER_WEBHOOK_KEYS: 'k1:short',
    RUNLEDGER_WEBHOOK_SCHEDULE: '5s,soon',
    RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK: 'maybe',
    RUNLEDGER_LANGUAGES: 'python,cobol',
    RUNLEDGER_LIMITS_MEMORY: '256MB',
    RUNLEDGER_SEAL_KEY: 'x',
  };
  const found = problems(mistakes);
  t.strictSame(found.map((line) => line.split(':')[0]).sort(), Object.keys(mistakes).sort());
  for (const line of found) t.notMatch(line, /\n/);
});

t.test('of a list, the wrong item is named, and the name that is meant', async (t) => {
  const of_languages = (word: string) => problems({ RUNLEDGER_LANGUAGES: word });
  t.strictSame(of_languages('python, c++'), [
    'RUNLEDGER_LANGUAGES: must have the name cpp, not "c++"',
  ]);
  matchLists(t, of_languages('cobol,python'), [
    /^RUNLEDGER_LANGUAGES: must be one of python, .*, not "cobol"$/,
  ]);
  matchLists(t, problems({ RUNLEDGER_FORBIDDEN_FIELDS: 'args,arg' }), [
    / must be one of .* "arg"$/,
  ]);
});

t.test('the address of the service has a scheme, and no call behind it', async (t) => {
  const problem = (word: string) => problems({ RUNLEDGER_SERVER: word });
  for (const word of ['http://x:8080', 'https://x/', 'http://x/judge/', 'http://x/api-of-us'])
    t.strictSame(problem(word), [], word);
  for (const word of ['x:8080', '127.0.0.1:8080', 'ftp://x', 'http://', 'http://x y'])
    t.strictSame(problem(word), [
      `RUNLEDGER_SERVER: must be an address that begins with http:// or https://, not "${word}"`,
    ]);
  for (const word of ['http://x/api', 'http://x/api/'])
    t.strictSame(problem(word), [
      `RUNLEDGER_SERVER: must be an address without /api at its end, not "${word}"`,
    ]);
  for (const word of ['http://x:8080?x', 'http://x/judge/?', 'http://x#f', 'http://x/#'])
    t.strictSame(problem(word), [
      `RUNLEDGER_SERVER: must be an address without ? and #, not "${word}"`,
    ]);
});

t.test('a secret is never shown, not even a malformed one', async (t) => {
  const secret = 'hunter2hunter2';
  const names = Object.values(variables).flatMap(({ name, secret }) => (secret ? [name] : []));
  const known = ['RUNLEDGER_SEAL_KEY', 'RUNLEDGER_WEBHOOK_KEYS', 'DATABASE_URL'];
  t.strictSame(
    known.filter((name) => !names.includes(name)),
    [],
  );
  for (const name of names) {
    t.notMatch(problems({ [name]: secret }).join(), secret, name);
    const shown = describeConfig({ [name]: secret }).find((variable) => variable.name === name);
    t.equal(shown?.value, '(set)', name);
  }
});

t.test('values have units', async (t) => {
  const config = loadConfig({
    RUNLEDGER_LIMITS_MEMORY: '128MiB',
    RUNLEDGER_WAIT_CAP: '25s',
    RUNLEDGER_SHUTDOWN_GRACE: '750ms',
    RUNLEDGER_WEBHOOK_SCHEDULE: '5s, 2min,1h',
    RUNLEDGER_PYTHON_ZYGOTE: 'off',
    RUNLEDGER_SLOTS: '',
  });
  t.equal(config.limits_memory_bytes, 128 * 2 ** 20);
  t.equal(config.wait_cap_ms, 25_000);
  t.equal(config.shutdown_grace_ms, 750);
  t.strictSame(config.webhook_schedule_ms, [5_000, 120_000, 3_600_000]);
  t.strictSame(languageSwitches(config), {
    python_zygote: false,
    precompiled_headers: true,
    mold: true,
    java_compiler: true,
  });
  t.equal(config.slots, null, 'empty counts as not set');
});

t.test('the waits of webhooks are bounded, and the mistake names the bounds', async (t) => {
  const found = (value: string) => problems({ RUNLEDGER_WEBHOOK_SCHEDULE: value });
  const waits = (count: number) => Array.from({ length: count }, () => '1ms').join(',');
  for (const fine of ['1ms', '7d,168h', waits(20)]) t.strictSame(found(fine), [], fine);
  for (const bad of ['0s', '5s,0ms', '8d', '999999999999d', waits(21), '5s,']) {
    t.match(
      found(bad),
      [/^RUNLEDGER_WEBHOOK_SCHEDULE: must be at most 20 times from 1ms to 7d with commas/],
      bad,
    );
  }
});

t.test('a test set is no larger than what can be stored and compared in time', async (t) => {
  const found = (value: string) => problems({ RUNLEDGER_TEST_SET_BYTES: value });
  t.strictSame(found('1GiB'), []);
  t.match(found('2GiB'), [/must be a size from 1024 to 1073741824 bytes/]);
});

t.test('a percent sign of an address that encodes nothing is refused', async (t) => {
  const found = (DATABASE_URL: string) => problems({ DATABASE_URL });
  const addresses = {
    user: 'postgres://own%er:hidden@h/db',
    password: 'postgres://u:hid%den@h/db',
    host: 'postgres://u:hidden@%2Frun%/db',
    database: 'postgres://u:hidden@h/100%',
  };
  for (const [part, address] of Object.entries(addresses))
    t.same(found(address), [
      `DATABASE_URL: has a % in its ${part} that encodes nothing: write % as %25`,
    ]);
  t.same(found('postgres://u:hid%FFden@h/db').length, 1, 'nor is it UTF-8');
  t.same(found('postgres://own%25er:%C3%BC%25@%2Frun/100%25'), []);
  for (const name of ['a%23b', 'a%3Fb', 'a%3fb'])
    t.match(found(`postgres://u:hid%23den@h/${name}`), [
      /^DATABASE_URL: has a database with # or \?/,
    ]);
  t.same(found('postgres://u:hid%23%3Fden@h/db'), []);
});

t.test('parameters of an address are obeyed, left out or refused by name', async (t) => {
  const problems = (parameters: string, more = {}) => {
    const DATABASE_URL = `postgres://u:hidden@host.test/db?${parameters}`;
    try {
      loadConfig({ DATABASE_URL, ...more });
      return [];
    } catch (error) {
      return (error as ConfigError).problems;
    }
  };
  for (const fine of [
    'sslmode=disable&application_name=x',
    'sslmode=prefer',
    'sslmode=allow',
    'sslmode=require&channel_binding=prefer&gssencmode=disable&target_session_attrs=any',
    'ssl=true&uselibpqcompat=true&keepalives=1',
    'ssl=false',
    'sslmode=verify-ca&sslrootcert=/etc/ca.pem',
  ])
    t.same(problems(fine), [], fine);
  const refused = {
    'sslmode=verify_full':
      /sslmode=verify_full .*: use sslmode=require, or sslmode=disable if the network is/,
    'ssl=perhaps': /ssl=perhaps /,
    'sslmode=require&channel_binding=require':
      /channel_binding=require .*: use sslmode=verify-full/,
    'gssencmode=require': /gssencmode=require .*: leave it out/,
    'host=/run/postgresql': /host .*: write it before the question mark/,
    'password=hidden': /password .*: write it before the question mark/,
    'sslcert=/etc/own.pem': /sslcert .*: use a password/,
    'passfile=/etc/pass': /passfile .*: write/,
    'sslcrl=/etc/crl': /sslcrl .*: leave it out/,
  };
  for (const [parameters, line] of Object.entries(refused)) {
    const found = problems(parameters);
    t.equal(found.length, 1, parameters);
    t.match(found[0], line);
    t.match(found[0], /^DATABASE_URL: /);
    t.notMatch(found[0], /hidden/);
  }
  t.same(
    problems('sslmode=verify_full', { RUNLEDGER_DATABASE_TLS: 'require' }),
    [],
    'it is not read',
  );
});

t.test('keys are accepted in the forms that platforms generate', async (t) => {
  const bytes = Buffer.alloc(32, 7);
  for (const form of [bytes.toString('hex'), bytes.toString('base64')]) {
    t.same(loadConfig({ RUNLEDGER_SEAL_KEY: form }).seal_key, bytes);
    const [first] = loadConfig({ RUNLEDGER_WEBHOOK_KEYS: form }).webhook_keys!;
    t.same(first!.bytes, bytes);
    t.match(first!.id, /^[0-9a-f]{8}$/, 'without an id, one derives from the key');
  }
  const [one, two] = loadConfig({
    RUNLEDGER_WEBHOOK_KEYS: `new:${bytes.toString('base64')},old:${Buffer.alloc(32, 8).toString('base64')}`,
  }).webhook_keys!;
  t.strictSame([one!.id, two!.id], ['new', 'old']);
});

t.test('a witness is its key and its address', async (t) => {
  const signer = (name: string, seed: number) =>
    new NoteSigner(name, WITNESS_KEY, Buffer.alloc(32, seed)).verifier;
  const [one, two] = [signer('w.test/1', 1), signer('w.test/2', 2)];
  const read = (value: string) => loadConfig({ RUNLEDGER_WITNESSES: value }).witnesses;
  const found = read(
    `${keyText(one)}=https://w.test/prefix/,\n${keyText(two)}=http://127.0.0.1:8090`,
  );
  t.same(found, [
    { key: one, url: 'https://w.test/prefix' },
    { key: two, url: 'http://127.0.0.1:8090' },
  ]);
  const log = new NoteSigner('log.test', LOG_KEY, Buffer.alloc(32, 3)).verifier;
  const key = keyText(one);
  for (const bad of [
    key,
    `${key}=`,
    `${key}=w.test`,
    `${key}=ftp://w.test`,
    `${key}=https://name:word@w.test`,
    `${key}=https://w.test/?x=1`,
    `${key}=https://w.test/#x`,
    `${keyText(log)}=https://w.test`,
    `${key.replace('w.test', 'x.test')}=https://w.test`,
    '=https://w.test',
  ])
    t.match(
      problems({ RUNLEDGER_WITNESSES: bad }),
      [/^RUNLEDGER_WITNESSES: must be witnesses/],
      bad,
    );
  const renamed = signer('w.test/other', 1);
  t.match(
    problems({ RUNLEDGER_WITNESSES: `${key}=https://a.test ${keyText(renamed)}=https://b.test` }),
    [/must not name a key twice/],
  );
});

t.test('one id cannot name two keys', async (t) => {
  const key = Buffer.alloc(32, 7).toString('base64');
  t.match(problems({ RUNLEDGER_WEBHOOK_KEYS: `a:${key},a:${key}` }), [/one id for two keys/]);
});

t.test(
  'without TLS it listens on this machine only, and any other address is a mistake',
  async (t) => {
    t.equal(listenHost(loadConfig({})), '127.0.0.1');
    t.match(problems({ HOST: '0.0.0.0' }), [/^HOST: .*clear text/]);
    t.match(problems({ HOST: '::' }), [/^HOST: /]);
    t.strictSame(problems({ HOST: '127.0.0.2' }), []);
    t.strictSame(problems({ HOST: '0.0.0.0', RUNLEDGER_TLS: 'proxy' }), []);
    t.equal(listenHost(loadConfig({ RUNLEDGER_TLS: 'proxy' })), '::');
  },
);

t.test('native TLS needs both files', async (t) => {
  t.match(problems({ RUNLEDGER_TLS: 'native' }), [
    /^RUNLEDGER_TLS_CERT_FILE/,
    /^RUNLEDGER_TLS_KEY_FILE/,
  ]);
});

t.test('CPU time that the wall time never allows is a doubt, and no mistake', async (t) => {
  const doubts = (env: Record<string, string>) => doubtsOf(loadConfig(env));
  t.strictSame(doubts({}), []);
  t.strictSame(doubts({ RUNLEDGER_LIMITS_CPU_MAX: '30s' }), []);
  t.match(doubts({ RUNLEDGER_LIMITS_CPU_MAX: '60s' }), [
    {
      found: /^RUNLEDGER_LIMITS_CPU_MAX: over RUNLEDGER_LIMITS_WALL_MAX: .*ends after 30 s$/,
      remedy: /^raise RUNLEDGER_LIMITS_WALL_MAX with it/,
    },
  ]);
});

t.test('a default limit must not be over its maximum', async (t) => {
  t.match(problems({ RUNLEDGER_LIMITS_CPU: '20s' }), [/^RUNLEDGER_LIMITS_CPU: must not be over/]);
});
