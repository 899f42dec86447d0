/**
 * The files in deploy/ that Grafana and Prometheus read name only metrics that there are, as what they are: an alert on a
 * metric that nobody serves is silent for ever.
 */
import { execFile, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { dump, load } from 'js-yaml';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { cancelCounter } from '../../src/http/api/cancel_submission.ts';
import { watchConnectionRoom } from '../../src/http/wire/connection_room.ts';
import { createOpenRequests } from '../../src/http/wire/open_requests.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics, type MetricFamily } from '../../src/metrics.ts';
import { observedReplica } from '../../src/processes/observed_replica.ts';
import { observeProcess } from '../../src/processes/process_metrics.ts';
import { createCosigning } from '../../src/queue/cosigning.ts';
import { createDelivering } from '../../src/queue/delivery_setup.ts';
import { executionObserver, observeSealer, webObserver } from '../../src/queue/queue_metrics.ts';
import { observeService } from '../../src/queue/service_metrics.ts';
import { observeWitness } from '../../src/witness/witness_server.ts';
import { notChecked } from '../support/report.ts';
import { environmentFile, KUSTOMIZATIONS, kubernetesObjects, unit, value } from './manifests.ts';

const ALERTS = 'deploy/prometheus/alerts.yaml';
const SCRAPES = 'deploy/prometheus/prometheus.yaml';
const CLUSTER_SCRAPES = 'deploy/prometheus/kubernetes.yaml';
const SCENES = 'test/deploy/alert_scenes.yaml';
const DASHBOARD = 'deploy/grafana/runledger.json';

type Rule = { alert: string; expr: string; annotations: Record<string, string> };
type Target = { expr: string; legendFormat: string; instant?: boolean; range?: boolean };
type Panel = {
  type: string;
  title: string;
  fieldConfig?: { defaults: { noValue?: string } };
  targets?: Target[];
};

const { groups } = load(readFileSync(ALERTS, 'utf8')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const { panels } = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as { panels: Panel[] };
const targets = panels.flatMap(({ title, targets = [] }) =>
  targets.map((target) => ({ title, ...target })),
);

/** Prometheus adds these to every series. */
const OF_PROMETHEUS = ['instance', 'job'];
/** Metrics that no process of ours serves, with their labels: of Prometheus itself, and of kube-state-metrics. */
const OF_OTHERS: Readonly<Record<string, readonly string[]>> = {
  up: OF_PROMETHEUS,
  kube_cronjob_status_last_successful_time: ['namespace', 'cronjob'],
};

/** What a web process, a worker and a witness define. Nothing is read, so nothing has to be there. */
async function startedMetrics() {
  const [web, worker] = [createMetrics(), createMetrics()];
  const log = createLog({ level: 'silent', process: 'test' });
  const none = null as never;
  await observeProcess(web, 'web');
  observeService(web, () => none, { queue_capacity: 1 });
  const sealer = { key: null, problem: () => null, stop: () => {}, hold: () => {} };
  observeSealer(web, sealer as never);
  webObserver(web);
  cancelCounter(web);
  createCosigning({ witnesses: [], sealer, log, metrics: web });
  createDelivering({
    config: loadConfig({}),
    log,
    db: none,
    large_records: { webhookBody: none } as never,
    metrics: web,
  });
  const count = () => 0;
  const isOpen = () => true;
  createOpenRequests({
    log,
    metrics: web,
    shared: {},
    isOpen,
    isCrowded: () => false,
    waiting: count,
    streams: count,
  });
  watchConnectionRoom(createServer(), { most: 1, log, metrics: web });
  const replica = { open: none, primary: none, consumer_id: () => null, log, metrics: web };
  await observedReplica(replica).close();
  executionObserver(worker, ['python']);
  const witness = createMetrics();
  observeWitness(witness, { folder: none, logs: [{ name: 'log.test' } as never] });
  return { web, worker, witness };
}

async function definedMetrics(): Promise<Map<string, MetricFamily>> {
  const { web, worker } = await startedMetrics();
  return new Map([...web.families(), ...worker.families()].map((each) => [each.name, each]));
}

/** With those that the alerts alone look at. */
async function allMetrics(): Promise<Map<string, MetricFamily>> {
  const others = Object.entries({ ...OF_OTHERS, runledger_backup_time_seconds: [] });
  const families = others.map(
    ([name, labels]) => [name, { name, help: '', type: 'gauge', labels } as const] as const,
  );
  const { witness } = await startedMetrics();
  const of_witness = witness.families().map((each) => [each.name, each] as const);
  return new Map([...(await definedMetrics()), ...of_witness, ...families]);
}

const METRIC = new RegExp(
  `(\\w+\\()?\\b(runledger_\\w+|${Object.keys(OF_OTHERS).join('|')})\\b(?:\\{([^}]*)\\})?`,
  'g',
);

type Used = { family: MetricFamily; labels: string[] };

/** The metrics of an expression. Complains of each that is not there, or that is used as what it is not. */
function metricsIn(t: Tap, where: string, expr: string, all: Map<string, MetricFamily>): Used[] {
  const used: Used[] = [];
  for (const found of expr.matchAll(METRIC)) {
    const [, call = '', name, matchers = ''] = found;
    const part = /^(\w+)_(bucket|sum|count)$/.exec(name!);
    const family = all.get(name!) ?? all.get(part?.[1] ?? '');
    if (!family) {
      t.fail(`${where}: there is no metric ${name}`);
      continue;
    }
    const grows = family.type !== 'gauge';
    t.equal(family.type === 'histogram', !all.has(name!) && part !== null, `${where}: ${name}`);
    t.equal(/^(rate|increase)\($/.test(call), grows, `${where}: ${family.type} ${name}`);
    const labels = [...family.labels, ...(part?.[2] === 'bucket' ? ['le'] : [])];
    for (const [, label] of matchers.matchAll(/(\w+)\s*(?:=|!)/g))
      t.ok(labels.includes(label!), `${where}: ${name} has no label ${label}`);
    used.push({ family, labels });
  }
  t.ok(used.length > 0, `${where}: it has a metric`);
  return used;
}

/** Each label by which the expression groups, or that the text beside it names, is one of its metrics'. */
function checkLabels(t: Tap, where: string, expr: string, text: string, used: Used[]): void {
  const known = [...used.flatMap(({ labels }) => labels), ...OF_PROMETHEUS];
  const groups = [...expr.matchAll(/\b(?:by|on|group_left) \(([^)]*)\)/g)];
  const named = groups.flatMap(([, words]) => words!.split(/,\s*/));
  const printed = [...text.matchAll(/\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}/g)].map(
    ([, word]) => word!,
  );
  for (const label of [...named, ...printed])
    t.ok(known.includes(label), `${where}: no metric of it has the label ${label}`);
}

type Tap = Pick<typeof t, 'ok' | 'equal' | 'fail'>;

t.test('the alerts name metrics that there are', async (t) => {
  const all = await allMetrics();
  for (const { alert, expr, annotations } of rules) {
    const used = metricsIn(t, alert, expr, all);
    checkLabels(t, alert, expr, Object.values(annotations).join(' '), used);
    t.ok(annotations['summary'] && annotations['remedy'], `${alert} says what to do`);
  }
  t.ok(
    rules.some(({ expr }) => expr.includes('runledger_replica_used')),
    'one is of the replica',
  );
});

t.test('a backup that was made is a metric', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-textfile-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const [program, path] = value(unit('runledger-backup.service'), 'ExecStartPost')!.split(' ');
  const script = program!.replace('+/srv/runledger/', '');
  // As root, whose umask the unit has: node_exporter is another user.
  const made = (...args: string[]) =>
    promisify(execFile)('sh', ['-c', 'umask 077; exec "$@"', 'sh', script, ...args]);
  const before_s = Math.floor(Date.now() / 1_000);
  await made(folder);
  t.strictSame(readdirSync(folder), ['runledger_backup.prom']);
  const file = join(folder, 'runledger_backup.prom');
  t.equal(statSync(file).mode & 0o777, 0o644);
  const page = readFileSync(file, 'utf8');
  t.match(
    page,
    /^# HELP runledger_backup_time_seconds .+\n# TYPE runledger_backup_time_seconds gauge\n/,
  );
  const [, made_s] = /^runledger_backup_time_seconds (\d+)\n$/m.exec(page)!;
  t.ok(Number(made_s) >= before_s && Number(made_s) <= Date.now() / 1_000);
  await made(join(folder, 'none'));
  t.strictSame(readdirSync(folder), ['runledger_backup.prom'], 'nothing without node_exporter');
  // It keeps the process id of this shell. Another user of the folder could guess it.
  const link = 'ln -s guessed "$1/runledger_backup.prom.$$"; exec "$0" "$1"';
  await promisify(execFile)('sh', ['-c', link, script, folder]);
  t.notOk(readdirSync(folder).includes('guessed'), 'no link leads it to another file');
  t.match(path, /^\//);
  const job = kubernetesObjects().find(({ data }) => data.kind === 'CronJob')!.data.metadata;
  const base = KUSTOMIZATIONS.find(({ file }) => /web\/kust/.test(file))!.data;
  const rule = rules.find(({ alert }) => alert === 'RunledgerBackupOld')!;
  t.ok(rule.expr.includes(`{namespace="${base.namespace}", cronjob="${job.name}"}`));
});

t.test('what an alert looks for is there with 0 before it happens', async (t) => {
  const started = await startedMetrics();
  // What cannot be read here is left out of the page.
  const pages = await Promise.all(Object.values(started).map((metrics) => metrics.text()));
  const page = pages.join('').split('\n');
  const looked_for = rules.flatMap(({ alert, expr }) =>
    [...expr.matchAll(/increase\((runledger_\w+)(?:\{(\w+)=~?"([^"]+)"\})?\[/g)].flatMap(
      ([, name, label, values]) =>
        values === undefined
          ? { alert, name, text: '' }
          : values.split('|').map((value) => ({ alert, name, text: `${label}="${value}"` })),
    ),
  );
  t.ok(looked_for.length >= 6, 'the alerts look for something');
  for (const { alert, name, text } of looked_for) {
    const series = page.filter(
      (line) =>
        [`${name}{`, `${name} `].some((head) => line.startsWith(head)) && line.includes(text),
    );
    t.ok(series.length > 0, `${alert}: ${name}{${text}}`);
    for (const line of series) t.match(line, / 0$/);
  }
});

t.test('the dashboard names metrics that there are, and all of them', async (t) => {
  const all = await definedMetrics();
  const shown = new Set<string>();
  for (const { title, expr, legendFormat } of targets) {
    const used = metricsIn(t, title, expr, all);
    checkLabels(t, title, expr, legendFormat, used);
    for (const { family } of used) shown.add(family.name);
  }
  // The alerts watch it; as a graph it says nothing.
  shown.add('runledger_process_start_time_seconds');
  t.same(
    [...all.keys()].filter((name) => !shown.has(name)),
    [],
  );
});

t.test('a figure is of now: without one it says so, and shows none of hours ago', async (t) => {
  const figures = panels.filter(({ type }) => type === 'stat');
  t.ok(figures.length >= 8);
  for (const { title, fieldConfig, targets } of figures) {
    t.match(fieldConfig!.defaults.noValue, /\w/, title);
    for (const { instant, range } of targets!)
      t.same({ instant, range }, { instant: true, range: false }, title);
  }
});

t.test('Prometheus asks each process where its unit has it serve', async (t) => {
  const { rule_files, scrape_configs } = load(readFileSync(SCRAPES, 'utf8')) as {
    rule_files: string[];
    scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[];
  };
  t.strictSame(
    rule_files.map((file) => join(SCRAPES, '..', file)),
    [ALERTS],
  );
  const { metrics_host } = loadConfig({});
  for (const { job_name, static_configs, ...others } of scrape_configs) {
    t.strictSame(others, {}, 'the path and the scheme that Prometheus has by itself');
    const name = job_name.replace('runledger-', '');
    const port = environmentFile(`${name}.env`)['RUNLEDGER_METRICS_PORT'];
    t.strictSame(static_configs, [{ targets: [`${metrics_host}:${port}`] }], job_name);
  }
  t.equal(scrape_configs.length, 2);
});

t.test('in a cluster it asks each pod that has metrics', async (t) => {
  const { rule_files, scrape_configs } = load(readFileSync(CLUSTER_SCRAPES, 'utf8')) as {
    rule_files: string[];
    scrape_configs: {
      job_name: string;
      kubernetes_sd_configs: { role: string; namespaces: { names: string[] } }[];
      relabel_configs: { action?: string; source_labels: string[]; regex?: string }[];
    }[];
  };
  t.strictSame(
    rule_files.map((file) => join(CLUSTER_SCRAPES, '..', file)),
    [ALERTS],
  );
  const namespaces = KUSTOMIZATIONS.map(({ data }) => data.namespace).filter(Boolean);
  const kept = scrape_configs.map(({ job_name, kubernetes_sd_configs, relabel_configs }) => {
    t.strictSame(kubernetes_sd_configs, [{ role: 'pod', namespaces: { names: namespaces } }]);
    const [keep] = relabel_configs.filter(({ action }) => action === 'keep');
    t.strictSame(keep!.source_labels, [
      '__meta_kubernetes_pod_label_part',
      '__meta_kubernetes_pod_container_port_name',
    ]);
    t.strictSame(
      relabel_configs.filter(({ action }) => action === 'drop'),
      [
        {
          source_labels: ['__meta_kubernetes_pod_phase'],
          regex: 'Failed|Succeeded',
          action: 'drop',
        },
      ],
      'pods that have ended',
    );
    return [job_name, keep!.regex];
  });
  const pods = kubernetesObjects()
    .filter(({ data }) => data.kind === 'Deployment')
    .map(({ data }) => data.spec.template);
  const wanted = pods.flatMap(({ metadata, spec }) =>
    (spec.containers[0].ports ?? [])
      .filter(({ name }: { name: string }) => name === 'metrics')
      .map(({ name }: { name: string }) => [
        `runledger-${metadata.labels.part}`,
        `${metadata.labels.part};${name}`,
      ]),
  );
  t.strictSame(kept, wanted);
});

const promtool = (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
  promisify(execFile)('promtool', args).catch((failed) => failed);

const with_promtool = {
  skip:
    spawnSync('promtool', ['--version']).status !== 0 &&
    notChecked('no promtool on this machine (apt-get install prometheus)'),
};

for (const file of [SCRAPES, CLUSTER_SCRAPES])
  t.test(`promtool accepts ${file}`, with_promtool, async (t) => {
    const { stdout, stderr } = await promtool('check', 'config', file);
    // Debian's.
    if (/field kubernetes_sd_configs not found/.test(stderr)) {
      t.pass(file, { skip: notChecked(`${file}: this promtool does not know clusters`) });
      return;
    }
    t.match(stdout, `SUCCESS: ${rules.length} rules found`);
    t.match(stdout, `SUCCESS: ${file} is valid`);
  });

t.test('alerts fire when they should, and not when they should not', with_promtool, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-alerts-'));
  t.teardown(() => rm(folder, { recursive: true }));
  // It would compare the texts, too.
  const bare = groups.map((group) => ({
    ...group,
    rules: group.rules.map(({ annotations: _, ...rule }) => rule),
  }));
  await writeFile(join(folder, 'alerts.yaml'), dump({ groups: bare }));
  const scenes = join(folder, 'scenes.yaml');
  await writeFile(scenes, `rule_files: [alerts.yaml]\n${readFileSync(SCENES, 'utf8')}`);
  const { stdout, stderr } = await promtool('test', 'rules', scenes);
  t.match(stdout, /SUCCESS/, `${stdout}${stderr}`);
});
