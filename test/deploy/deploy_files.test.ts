/**
 * The files in deploy/, app.json, render.yaml and the Procfile say what the code says: commands, variables, ports, paths of
 * probes, times, exit statuses, metrics. Their formats are checked by `make check` (check_deploy.ts), and that they work by
 * `make drill`.
 */
import { spawnSync } from 'node:child_process';
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { commands } from '../../src/cli/command_table.ts';
import { loadConfig } from '../../src/config.ts';
import { environmentFor, hasForeignSecrets, type ProcessName } from '../../src/environment.ts';
import { calls } from '../../src/http/api/calls.ts';
import { BATCH_BODY_LIMIT_BYTES } from '../../src/http/api/read_batch.ts';
import { STORE_LIMIT_MS } from '../../src/http/api/upload_test_set.ts';
import { STORED } from '../../src/http/api/uploads.ts';
import { NODE_FLAGS } from '../../src/processes/serve_all.ts';
import { stopTakesMs } from '../../src/processes/stop_request.ts';
import { sourcesBelow } from '../support/imports.ts';
import {
  COMPOSE,
  environmentFile,
  KUSTOMIZATIONS,
  kubernetesObjects,
  read,
  UNIT_NAMES,
  type Unit,
  unit,
  value,
  values,
  yaml,
} from './manifests.ts';
import { NGINX } from './nginx.ts';

const INSTALLED = '/srv/runledger';
const HTTP_ROUTE = 'deploy/kubernetes/web/http_route.yaml';
const WEB_POLICY = 'NetworkPolicy web';
const NODE = `node ${NODE_FLAGS.join(' ')} src/cli/main.js`;
const DEFAULTS = loadConfig({});
/** A process is killed later than it ends by itself. */
const LONGEST_STOP_S = stopTakesMs(DEFAULTS) / 1_000;
/** Until no router of a cluster sends a request to a pod that ends. */
const ROUTERS_LEARN_S = 5;
const PATHS = new Set(calls.filter(({ method }) => method === 'GET').map(({ path }) => path));
/** Of the variables that a person must set: an address, and 32 bytes. */
const KEY = 'f0'.repeat(32);
const filledIn = (env: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(env).map(([name, text]) => [
      name,
      text
        .replace(/\$\{\w+_KEY:\?[^}]+\}/, KEY)
        .replace(/\$\{\w+:\?[^}]+\}/, 'secret')
        .replace(/\$\{\w+\}/, '')
        .replace('CHANGE', KEY),
    ]),
  );

/** The environment is valid, has what the process needs, and no secret of another process. */
function environmentOf(t: Test, name: string, given: Record<string, string>) {
  const env = filledIn(given);
  const config = loadConfig(env);
  if (['migrate', 'backup', 'command'].includes(name)) {
    t.ok(config.database_url, `${name} has the owner's address`);
    return config;
  }
  const process = name as ProcessName;
  t.equal(
    hasForeignSecrets(process, {
      ...env,
      DATABASE_URL: environmentFor(process, env)['DATABASE_URL'],
    }),
    false,
  );
  t.ok(config[`${process}_database_url`], `${name} has an address of its own login`);
  if (process === 'web') {
    t.ok(config.webhook_keys && config.digest_key && config.seal_key, 'web has its keys');
    t.equal(config.tls, 'proxy');
  }
  return config;
}

/** What a unit's command is given. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  web: '',
  worker: '',
  migrate: '--wait forever',
  backup: '%S/runledger-backup --keep 14',
  witness:
    '--dir %S/runledger-witness --name $WITNESS_NAME --listen $WITNESS_LISTEN --logs %d/logs',
};

/** What compose.yaml gives it: the person who wrote `up -d` sees that it failed, and not that it waits. */
const IN_COMPOSE = ['migrate', '--wait', '30min'];

/** Of a process, or of the migration, which waits without end: what depends on it is not started after it has failed. */
const wordsOf = (name: string) => [name, ...ARGUMENTS[name]!.split(' ').filter(Boolean)];

t.test('units of systemd', async (t) => {
  const all = UNIT_NAMES.map(unit);
  const named = (name: string) => all.find((each) => each.name === `runledger-${name}.service`)!;
  for (const each of all) {
    const [program, command, ...rest] = value(each, 'ExecStart')!.split(' ');
    t.equal(program, `${INSTALLED}/runledger`);
    t.ok(command && command in commands, `${each.name}: ${command}`);
    t.equal(rest.join(' ').replace(/[{}]/g, ''), ARGUMENTS[command!], each.name);
    const { options = {} } = (await commands[command!]!()).command;
    for (const [, name] of rest.join(' ').matchAll(/--([a-z]+)/g)) t.ok(name! in options, name!);
    t.equal(value(each, 'WorkingDirectory'), INSTALLED);
    t.equal(each.name, `runledger-${command}.service`);
    const file = value(each, 'EnvironmentFile')!;
    t.match(file, /^\/etc\/runledger\/[a-z]+\.env$/);
    const env = environmentFile(file.split('/').at(-1)!);
    const state = values(each, 'Environment').map((pair) => pair.split('=') as [string, string]);
    if (command === 'witness') t.strictSame(Object.keys(env), ['WITNESS_NAME', 'WITNESS_LISTEN']);
    else environmentOf(t, command!, { ...env, ...Object.fromEntries(state) });
    for (const needed of values(each, 'Requires')) t.ok(UNIT_NAMES.includes(needed), needed);
  }
  for (const each of [named('web'), named('worker'), named('witness')])
    t.same([value(each, 'Restart'), value(each, 'StartLimitIntervalSec')], ['always', '0']);
  for (const each of [named('web'), named('worker')]) {
    t.ok(Number(value(each, 'TimeoutStopSec')) > LONGEST_STOP_S);
    t.equal(value(each, 'Environment'), `RUNLEDGER_STATE_DIR=%S/${value(each, 'StateDirectory')}`);
  }
  t.ok(Number(value(named('web'), 'LimitNOFILE')) > DEFAULTS.connections_max);
  for (const each of [named('migrate'), named('backup')])
    t.equal(value(each, 'ConditionPathExists'), value(each, 'EnvironmentFile'));
  for (const each of [named('backup'), named('witness')])
    t.ok(value(each, 'ExecStart')!.includes(`%S/${value(each, 'StateDirectory')} `));
  t.match(value(named('witness'), 'LoadCredential'), /^logs:\/etc\/runledger\//);
  for (const name of readdirSync('deploy/systemd').filter((name) => name.endsWith('.timer')))
    t.ok(UNIT_NAMES.includes(name.replace('.timer', '.service')), name);

  await t.test('a certificate of its own replaces what web has for a router', async (t) => {
    const drop_in = unit('runledger-web.service.d/native-tls.conf');
    const [reset, command, ...others] = values(drop_in, 'ExecStart');
    t.same([reset, others], ['', []]);
    t.ok(command!.endsWith(` ${value(named('web'), 'ExecStart')}`));
    const set = [...command!.matchAll(/ ([A-Z_]+)=(\S+)/g)].map(([, name, text]) => [name!, text!]);
    const env = { ...environmentFile('web.env'), ...Object.fromEntries(set) };
    const config = loadConfig(filledIn(env));
    t.match(config, { tls: 'native', host: '::', port: 443 });
    const credentials = values(drop_in, 'LoadCredential').map((each) => `%d/${each.split(':')[0]}`);
    t.same([config.tls_cert_file, config.tls_key_file], credentials);
  });

  await t.test('all that need no rights are hardened in the same way', async (t) => {
    const OWN =
      /^(Exec|Type|Remain|Environment|State|Restart|Timeout|Limit|Want|After|Requires|StartLimit|Desc|Doc|Cond|Load|Nice)/;
    const hardening = ({ settings }: Unit) =>
      settings.filter(([name]) => !OWN.test(name)).map((pair) => pair.join('='));
    for (const name of ['migrate', 'backup', 'witness'])
      t.strictSame(hardening(named(name)), hardening(named('web')), name);
    t.ok(hardening(named('web')).length > 25);
  });

  await t.test('a hardening that the worker lacks is named with its reason', async (t) => {
    const text = read(join('deploy/systemd', named('worker').name));
    const reasons = text.slice(text.indexOf('# What is not here'));
    for (const [name] of named('web').settings) {
      if (
        !/^(Protect|Private|Restrict|Lock|Memory|NoNew|SystemCallF|SystemCallArch|UMask)/.test(name)
      )
        continue;
      t.ok(value(named('worker'), name) !== undefined || reasons.includes(name), name);
    }
  });
});

t.test(
  'a worker has the same capabilities everywhere, and DEPLOYING.md says what each is for',
  async (t) => {
    const drop_in = unit('runledger-worker.service.d/as-root.conf');
    const [reset, ...sets] = values(drop_in, 'CapabilityBoundingSet');
    t.equal(reset, '', "the unit's own set does not count");
    const systemd = sets.flatMap((set) => set.split(' ')).map((name) => name.replace('CAP_', ''));
    const compose = yaml(COMPOSE).services.worker;
    const kubernetes = containerOf('worker').securityContext.capabilities;
    // A container needs control groups v2. The unit may be on a machine with v1.
    const container = systemd.filter((name) => name !== 'KILL');
    t.same(new Set(compose.cap_add), new Set(container));
    t.same(new Set(kubernetes.add), new Set(container));
    t.strictSame([compose.cap_drop, kubernetes.drop], [['ALL'], ['ALL']]);
    const rows = read('DEPLOYING.md').matchAll(/^\| (`[A-Z_`, ]+`) \|/gm);
    const named = [...rows].flatMap(([, names]) => names!.replaceAll('`', '').split(', '));
    t.same(new Set(named), new Set(container));
  },
);

t.test('the image', async (t) => {
  const text = read('deploy/container/Containerfile');
  for (const [, source] of text.matchAll(/^COPY (\S+) /gm)) t.ok(existsSync(source!), source!);
  const entrypoint = /^ENTRYPOINT \["(.*)"\]$/m.exec(text)![1]!.replace(`${INSTALLED}/`, '');
  accessSync(entrypoint, constants.X_OK);
  const { status, stdout } = spawnSync(entrypoint, ['--version'], { encoding: 'utf8' });
  t.equal(status, 0);
  t.match(stdout, /^runledger \d/);
  const [compilers, launcher] = [/toolchains\.sh (\w+)/, /&& (\{ \[ -x .*\}) \\$/m].map(
    (part) => part.exec(text)?.[1] ?? '',
  );
  t.equal(compilers, 'check', 'without a compiler there is no image');
  const folder = t.testdir({ build: { launcher: '', 'zygote.so': '' } });
  const built = () => spawnSync('sh', ['-c', launcher!], { cwd: folder }).status;
  t.equal(built(), 1, 'nor without a launcher that can be started');
  chmodSync(join(folder, 'build/launcher'), 0o755);
  t.equal(built(), 0);
  const ignored = read('.dockerignore').split('\n');
  for (const each of ['.git', '.data', 'node_modules', 'build'])
    t.ok(ignored.includes(each), `${each} is not in the image`);
});

t.test('no secret comes into a commit or an image', async (t) => {
  const folder = t.testdir({ '.gitignore': read('.gitignore') });
  const git = (...words: string[]) =>
    spawnSync('git', words, { cwd: folder, encoding: 'utf8' }).stdout.trim().split('\n');
  git('init', '--quiet');
  // Where the documents have them written.
  const secret = [
    ...['.env', 'deploy/container/.env', 'owner.env', 'web.env', 'worker.env'],
    ...['runledger.backup', 'backups/2026-01-01.backup', '.data/secrets.json'],
  ];
  t.same(git('check-ignore', ...secret), secret);
  const kept = ['deploy/systemd/web.env', 'deploy/ha/etcd.env', 'src/environment.ts'];
  t.same(git('check-ignore', ...kept), [''], 'what belongs to a clone');
  const ignored = read('.dockerignore').split('\n');
  for (const each of ['**/.env', '*.env', '**/*.backup', 'backups', '.data'])
    t.ok(ignored.includes(each), `${each} is not in the image`);
});

t.test('the compose file', async (t) => {
  t.notMatch(read(COMPOSE), /:[?-]\}/, 'the podman-compose of Debian 12 wants a word there');
  const { services } = yaml(COMPOSE);
  for (const name of ['migrate', 'web', 'worker', 'command']) {
    const service = services[name];
    const words = { command: ['--help'], migrate: IN_COMPOSE }[name] ?? wordsOf(name);
    t.strictSame(service.command, words);
    environmentOf(t, name, service.environment);
    if (name === 'web' || name === 'worker')
      t.ok(Number.parseInt(service.stop_grace_period, 10) > LONGEST_STOP_S);
  }
  const { profiles, environment } = services.command;
  t.strictSame(profiles, ['command'], '`up` does not start it');
  // What a command reads: the keys of web, and the schedule as the migration has it.
  for (const name of ['RUNLEDGER_SEAL_KEY', 'RUNLEDGER_WEBHOOK_KEYS'])
    t.equal(environment[name], services.web.environment[name], name);
  for (const [name, value] of Object.entries(services.migrate.environment))
    t.equal(environment[name], value, name);
  // What doctor compares with, and what a worker must have as web has it.
  for (const name of ['QUEUE_CAPACITY', 'LANGUAGES', 'DATABASE_POOL']) {
    const given = `\${${name}}`;
    t.equal(environment[`RUNLEDGER_${name}`], given, name);
    t.equal(services.web.environment[`RUNLEDGER_${name}`], given, name);
  }
  for (const name of ['RUNLEDGER_LANGUAGES', 'RUNLEDGER_DATABASE_POOL'])
    t.equal(services.worker.environment[name], environment[name], name);
  const { PORT, HOST } = services.web.environment;
  t.equal(HOST, undefined, 'it listens on all addresses of its network');
  t.equal(services.web.ports[0], `127.0.0.1:${PORT}:${PORT}`);
  t.notOk(services.worker.networks.includes('front'), 'a worker cannot reach the outside');
  t.equal(services.worker.pids_limit, -1, 'each program has a limit of its own');

  const folder = await mkdtemp(join(tmpdir(), 'runledger-secrets-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const file = join(folder, '.env');
  const write = () => spawnSync('deploy/container/secrets.sh', [file], { encoding: 'utf8' });
  t.equal(write().status, 0);
  t.equal(statSync(file).mode & 0o777, 0o600, 'only its owner can read it');
  const secrets = readFileSync(file, 'utf8');
  t.not(write().status, 0, 'it writes over no file');
  t.equal(readFileSync(file, 'utf8'), secrets);
  const made = Object.fromEntries(
    secrets
      .trim()
      .split('\n')
      .map((line) => line.split('=')),
  );
  const wanted = new Set(
    [...read(COMPOSE).matchAll(/\$\{(\w+):\?[^}]+\}/g)].map((match) => match[1]!),
  );
  t.same(new Set(Object.keys(made)), wanted);
  t.equal(new Set(Object.values(made)).size, wanted.size, 'no secret twice');
  for (const secret of Object.values(made)) t.match(secret, /^[0-9a-f]{64}$/);
  for (const [, login] of read('deploy/container/roles.sql').matchAll(/^\\getenv \w+ (\w+)$/gm))
    t.ok(login! in services.database.environment, login!);
});

t.test('nginx passes on what the service accepts, and what it believes of a router', async (t) => {
  const text = read(NGINX);
  const { HOST, PORT, RUNLEDGER_TLS } = environmentFile('web.env');
  t.match(text, `server ${HOST}:${PORT};`);
  t.equal(RUNLEDGER_TLS, 'proxy');
  t.match(text, 'proxy_set_header X-Request-Id "";', 'web believes its router');
  const [largest, sets] = [...text.matchAll(/client_max_body_size (\w+);/g)].map(
    (each) => each[1]!,
  );
  t.ok(Number.parseInt(largest!, 10) * 2 ** 20 > BATCH_BODY_LIMIT_BYTES, 'our own answer is seen');
  t.equal(sets, '0');
  const of_one_address = Number(/^ +limit_conn runledger_addresses (\d+);$/m.exec(text)?.[1]);
  t.ok(of_one_address < DEFAULTS.connections_max / 4, 'one address cannot crowd web');
  const seconds = (name: string, where = text) =>
    Number(new RegExp(`^ +${name} (\\d+)s;`, 'm').exec(where)?.[1]) * 1_000;
  t.ok(seconds('proxy_read_timeout') > DEFAULTS.wait_cap_ms);
  t.ok(seconds('keepalive_timeout') < DEFAULTS.keep_alive_ms);
  const locations = [...text.matchAll(/^ {4}location (?:=|~) (\S+) \{/gm)].map((each) => each[1]!);
  t.same(locations, ['^/api/result/[^/]+/events$', '/api/test-sets']);
  t.ok(PATHS.has('/api/test-sets'));
  const uploads = text.split('location = /api/test-sets {')[1]!.split('}')[0];
  t.ok(seconds('proxy_read_timeout', uploads) > STORED.patience_ms + STORE_LIMIT_MS);
  t.ok([...PATHS].some((path) => new RegExp(locations[0]!).test(path)));
});

t.test("the documents name the units' folders and files", async (t) => {
  const folders = UNIT_NAMES.map((name) => value(unit(name), 'StateDirectory'));
  for (const name of ['OPERATING.md', 'DEPLOYING.md']) {
    for (const [, folder] of read(name).matchAll(/\/var\/lib\/(runledger-[a-z]+)/g))
      t.ok(folders.includes(folder!), `${name}: ${folder}`);
    for (const [, file] of read(name).matchAll(/\/etc\/runledger\/(\w+\.env)/g))
      t.ok(existsSync(join('deploy/systemd', file!)), `${name}: ${file}`);
  }
  const compose = unit('../container/runledger-compose.service');
  for (const name of ['ExecStart', 'ExecStop']) {
    const [, folder] = value(compose, 'WorkingDirectory')!.split(`${INSTALLED}/`);
    const [, file] = / -f (\S+) /.exec(value(compose, name)!)!;
    t.equal(join(folder!, file!), COMPOSE);
    // Some versions do not read the name from the file: they would begin a second installation.
    const [, project] = /^name: (\S+)$/m.exec(read(COMPOSE))!;
    t.match(value(compose, name), ` -p ${project} `);
  }
});

const objects = kubernetesObjects().map(({ data }) => data);
/** Of a Deployment or a Job, or of the jobs of a CronJob. */
const specOf = ({ spec }: (typeof objects)[0]) =>
  spec?.template ?? spec?.jobTemplate?.spec.template;
const withPods = objects.filter(specOf);
const podOf = (part: string) => specOf(withPods.find(({ metadata }) => metadata.name === part));
const containerOf = (part: string) => podOf(part).spec.containers[0];

const claims =
  (name: string) =>
  ({ persistentVolumeClaim: claim }: { persistentVolumeClaim?: { claimName: string } }) =>
    claim?.claimName === name;

t.test('the objects of Kubernetes', async (t) => {
  for (const object of withPods) {
    const pod = specOf(object);
    const part = object.metadata.name;
    const [container, ...others] = pod.spec.containers;
    t.strictSame(others, []);
    if (part === 'command') t.strictSame(container.command, ['sleep', 'infinity']);
    else if (part === 'backup') {
      const unit_words = value(unit('runledger-backup.service'), 'ExecStart')!.split(' ').slice(1);
      const { mountPath } = container.volumeMounts[0];
      t.strictSame(container.args, unit_words.with(1, mountPath), 'as much is kept as by the unit');
    } else t.strictSame(container.args, wordsOf(part));
    const secret = container.envFrom[0].secretRef.name;
    const env = Object.fromEntries(
      (container.env ?? []).map(({ name, value }: { name: string; value: string }) => [
        name,
        value,
      ]),
    );
    const from = Object.fromEntries(
      Object.entries(environmentFile(`${secret}.env`)).filter(([name]) => name !== 'HOST'),
    );
    const config = environmentOf(t, part, { ...from, ...env });
    t.strictSame(pod.metadata.labels, { app: 'runledger', part });
    if (object.kind === 'Deployment') {
      t.strictSame(object.spec.selector.matchLabels, pod.metadata.labels);
      t.equal(
        object.spec.replicas === 0,
        part === 'command',
        'its secret is in no pod for nothing',
      );
      t.ok(pod.spec.terminationGracePeriodSeconds > LONGEST_STOP_S);
    }
    t.equal(pod.spec.enableServiceLinks, false, 'no variables RUNLEDGER_… that are none of ours');
    for (const { name, containerPort } of container.ports ?? [])
      t.equal(containerPort, name === 'http' ? config.port : config.metrics_port);
    const ports = (container.ports ?? []).map(({ name }: { name: string }) => name);
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
      if (!container[probe]) continue;
      const { path, port } = container[probe].httpGet;
      t.ok(port === 'metrics' ? path === '/metrics' : PATHS.has(path), `${part}: ${path}`);
      t.ok(ports.includes(port), `${part}: ${port}`);
    }
  }
  t.equal(containerOf('web').livenessProbe.httpGet.path, '/livez');
  t.equal(containerOf('web').readinessProbe.httpGet.path, '/readyz');
  // Web closes its port at SIGTERM, and routers learn that a pod ends only at the same time.
  const until_sigterm_s = containerOf('web').lifecycle?.preStop.sleep.seconds;
  t.ok(until_sigterm_s >= ROUTERS_LEARN_S, 'requests still come for a while');
  t.ok(podOf('web').spec.terminationGracePeriodSeconds > until_sigterm_s + LONGEST_STOP_S);

  const worker = containerOf('worker');
  const slots = worker.env.find(({ name }: { name: string }) => name === 'RUNLEDGER_SLOTS').value;
  t.equal(slots, worker.resources.limits.cpu, 'a slot for each processor');
  const parts = new Set(withPods.map(({ metadata }) => metadata.name));
  for (const { kind, spec, metadata } of objects) {
    const labels =
      spec?.podSelector?.matchLabels ?? (spec?.template ? {} : spec?.selector?.matchLabels);
    t.ok(labels?.part === undefined || parts.has(labels.part), `${kind} ${metadata.name}`);
    if (kind === 'Service') t.ok(parts.has(spec.selector.part));
    if (kind === 'PersistentVolumeClaim')
      t.ok(podOf('backup').spec.volumes.some(claims(metadata.name)), metadata.name);
    if (kind === 'HorizontalPodAutoscaler') t.ok(parts.has(spec.scaleTargetRef.name));
  }
});

t.test('the route does what web believes of a router', async (t) => {
  const { spec } = yaml(HTTP_ROUTE);
  const service = objects.find(({ kind }) => kind === 'Service');
  const [{ namespace }] = spec.parentRefs;
  const admitted = objects.find(({ kind, metadata }) => `${kind} ${metadata.name}` === WEB_POLICY);
  const [{ namespaceSelector }] = admitted.spec.ingress[0].from;
  t.strictSame(namespaceSelector.matchLabels, { 'kubernetes.io/metadata.name': namespace });
  const events = [...PATHS].find((path) => path.endsWith('/events'))!;
  const longest_s = Math.max(DEFAULTS.wait_cap_ms, DEFAULTS.request_timeout_ms) / 1_000;
  for (const { matches, timeouts, filters, backendRefs } of spec.rules) {
    t.strictSame(backendRefs, [{ name: service.metadata.name, port: service.spec.ports[0].port }]);
    const [{ requestHeaderModifier: headers }, ...others] = filters;
    t.strictSame(others, []);
    t.strictSame(headers.set, [{ name: 'X-Forwarded-Proto', value: 'https' }]);
    t.strictSame(headers.remove, ['X-Request-Id']);
    const [{ path }] = matches;
    const seconds = Number(/^(\d+)s$/.exec(timeouts.request)![1]);
    if (events.startsWith(`${path.value}/`)) t.equal(seconds, 0, 'a stream has no end in time');
    else if (path.value === '/api/test-sets') t.equal(seconds, 0, 'nor has an upload here');
    else t.ok(path.value === '/' && seconds > 2 * longest_s, path.value);
  }
  t.equal(spec.rules.length, 3);
});

t.test('the autoscaler counts what the service measures', async (t) => {
  const { spec } = objects.find(({ kind }) => kind === 'HorizontalPodAutoscaler');
  const [{ external }] = spec.metrics;
  const [rule] = yaml('deploy/kubernetes/worker/prometheus_adapter.yaml').rules.external;
  t.equal(external.metric.name, rule.name.as);
  const sources = sourcesBelow('src').map(read).join();
  const measured = [rule.seriesQuery, ...rule.metricsQuery.matchAll(/runledger_\w+/g)].map(String);
  t.equal(measured.length, 5);
  for (const name of measured) t.ok(sources.includes(`'${name}'`), name);
  const slots = containerOf('worker').env[0].value;
  t.equal(Number(external.target.averageValue), 2 * Number(slots));
});

t.test('kustomize finds every file, and no file is left out', async (t) => {
  for (const { file, data } of KUSTOMIZATIONS)
    for (const name of data.resources) t.ok(existsSync(join(file, '..', name)), `${file}: ${name}`);
  const named = objects
    .filter(({ kind }) => kind === 'Namespace')
    .map(({ metadata }) => metadata.name);
  t.same(KUSTOMIZATIONS.map(({ data }) => data.namespace).filter(Boolean), named);
});

t.test('the Procfile, app.json and render.yaml', async (t) => {
  const processes = Object.fromEntries(
    read('Procfile')
      .trim()
      .split('\n')
      .map((line) => line.split(/: exec /) as [string, string]),
  );
  t.strictSame(processes, {
    release: 'node src/cli/main.js migrate',
    web: `${NODE} web`,
    worker: `${NODE} worker`,
  });
  const app = JSON.parse(read('app.json'));
  for (const name of Object.keys(app.formation)) t.ok(name in processes, name);
  const [service, ...others] = yaml('render.yaml').services;
  t.strictSame(others, []);
  t.equal(service.startCommand, processes['web']);
  t.equal(service.preDeployCommand, processes['release']);
  t.ok(PATHS.has(service.healthCheckPath));
  t.ok(service.maxShutdownDelaySeconds > LONGEST_STOP_S);

  type Setting = { key: string; value?: string; generateValue?: boolean };
  const render = (service.envVars as Setting[]).map(({ key, value, generateValue }) => [
    key,
    value ?? (generateValue ? KEY : 'postgres://web@database/runledger'),
  ]);
  const heroku = Object.entries(app.env as Record<string, { value?: string }>).map(
    ([key, { value }]) => [key, value ?? KEY],
  );
  for (const env of [render, heroku].map((pairs) => Object.fromEntries(pairs))) {
    const config = loadConfig(env);
    t.ok(config.webhook_keys && config.digest_key && config.seal_key);
    t.equal(config.tls, 'proxy');
  }
});

/**
 * Render publishes its schema only at an address of its own, and no package has it. So these are the rules of
 * https://render.com/docs/blueprint-spec that this file could break.
 */
t.test('render.yaml follows the documentation of Render', async (t) => {
  const { services, databases, ...others } = yaml('render.yaml');
  t.strictSame(others, {}, 'the root has only these');
  const [service] = services;
  const FIELDS = [
    ...['type', 'name', 'runtime', 'plan', 'buildCommand', 'healthCheckPath', 'preDeployCommand'],
    ...['startCommand', 'maxShutdownDelaySeconds', 'envVars'],
  ];
  t.same(new Set(Object.keys(service)), new Set(FIELDS));
  t.ok(service.maxShutdownDelaySeconds >= 1 && service.maxShutdownDelaySeconds <= 300);
  for (const { key, ...from } of service.envVars) {
    t.type(key, 'string');
    t.equal(Object.keys(from).length, 1, `${key} has one source`);
    t.match(from, from.fromDatabase ? { fromDatabase: { property: 'connectionString' } } : {});
    if (from.fromDatabase)
      t.ok(databases.some(({ name }: { name: string }) => name === from.fromDatabase.name));
    if ('value' in from) t.type(from.value, 'string', `${key}: quoted, if it is a number`);
  }
  t.type(databases[0].postgresMajorVersion, 'string');
});
