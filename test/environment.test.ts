import t from 'tap';
import { variables } from '../src/config/variables.ts';
import { loadConfig } from '../src/config.ts';
import { environmentFor, hasForeignSecrets } from '../src/environment.ts';

const everything = {
  PATH: '/bin',
  HOME: '/root',
  AWS_SECRET_ACCESS_KEY: 'not ours',
  DATABASE_URL: 'postgres://owner@h/db',
  RUNLEDGER_WEB_DATABASE_URL: 'postgres://web@h/db',
  RUNLEDGER_WORKER_DATABASE_URL: 'postgres://worker@h/db',
  RUNLEDGER_WEBHOOK_KEYS: 'k',
  RUNLEDGER_SEAL_KEY: 's',
  RUNLEDGER_DIGEST_KEY: 'd',
  RUNLEDGER_API_KEY: 'a',
  RUNLEDGER_QUEUE_CAPACITY: '5',
};

t.test('a worker gets no key of the service, and only its own login', async (t) => {
  t.strictSame(environmentFor('worker', everything), {
    PATH: '/bin',
    HOME: '/root',
    DATABASE_URL: 'postgres://worker@h/db',
    RUNLEDGER_WORKER_DATABASE_URL: 'postgres://worker@h/db',
    RUNLEDGER_QUEUE_CAPACITY: '5',
  });
});

t.test('a secret that is not listed reaches neither process', async (t) => {
  const listed =
    /^(DATABASE_URL|RUNLEDGER_(WEB|READ|WORKER)_DATABASE_URL|RUNLEDGER_(WEBHOOK_KEYS|DIGEST_KEY|SEAL_KEY))$/;
  for (const { name, secret } of Object.values(variables)) {
    if (!secret || listed.test(name)) continue;
    t.notOk(environmentFor('web', { [name]: 'x' })[name], name);
    t.notOk(environmentFor('worker', { [name]: 'x' })[name], name);
  }
});

t.test('a worker of a deployment with native TLS has a valid environment', async (t) => {
  const env = environmentFor('worker', {
    DATABASE_URL: 'postgres://one@h/db',
    RUNLEDGER_TLS: 'native',
    RUNLEDGER_TLS_CERT_FILE: '/cert',
    RUNLEDGER_TLS_KEY_FILE: '/key',
  });
  t.equal(loadConfig(env).tls, 'native');
});

t.test('web gets its keys, and only its own login', async (t) => {
  const web = environmentFor('web', everything);
  t.match(web, { RUNLEDGER_WEBHOOK_KEYS: 'k', RUNLEDGER_SEAL_KEY: 's', RUNLEDGER_DIGEST_KEY: 'd' });
  t.equal(web['DATABASE_URL'], 'postgres://web@h/db');
  t.notOk(Object.values(web).some((value) => /worker@|auditor@|owner@|not ours/.test(value ?? '')));
});

t.test('only web knows the replica', async (t) => {
  const env = { RUNLEDGER_READ_DATABASE_URL: 'postgres://web@replica/db' };
  t.strictSame(environmentFor('web', env), env);
  t.strictSame(environmentFor('worker', env), {});
});

t.test('a single login for all processes is kept', async (t) => {
  const env = { DATABASE_URL: 'postgres://one@h/db' };
  t.strictSame(environmentFor('worker', env), env);
  t.equal(hasForeignSecrets('worker', env), false);
});

t.test('foreign secrets in an environment are detected', async (t) => {
  t.equal(hasForeignSecrets('worker', everything), true);
  t.equal(hasForeignSecrets('worker', environmentFor('worker', everything)), false);
  t.equal(hasForeignSecrets('web', environmentFor('web', everything)), false);
  t.equal(hasForeignSecrets('worker', { RUNLEDGER_SEAL_KEY: 's' }), true);
});
