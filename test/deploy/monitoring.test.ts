/**
 * The files in deploy/ that Grafana and Prometheus read name only metrics that there are, as what they are: an alert on a
 * metric that nobody serves is silent for ever.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { load } from 'js-yaml';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { watchConnectionRoom } from '../../src/http/wire/connection_room.ts';
import { createOpenRequests } from '../../src/http/wire/open_requests.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics, type MetricFamily } from '../../src/metrics.ts';
import { observeProcess } from '../../src/processes/process_metrics.ts';
import { createCosigning } from '../../src/queue/cosigning.ts';
import { createDelivering } from '../../src/queue/delivery_setup.ts';
import { executionObserver, observeSealer } from '../../src/queue/queue_metrics.ts';
import { observeService } from '../../src/queue/service_metrics.ts';
import { environmentFile, KUSTOMIZATIONS, kubernetesObjects } from './manifests.ts';

const ALERTS = 'deploy/prometheus/alerts.yaml';
const SCRAPES = 'deploy/prometheus/prometheus.yaml';
const CLUSTER_SCRAPES = 'deploy/prometheus/kubernetes.yaml';
const DASHBOARD = 'deploy/grafana/runledger.json';

type Rule = { alert: string; expr: string; annotations: Record<string, string> };
type Panel = { title: string; targets?: { expr: string; legendFormat: string }[] };

const { groups } = load(readFileSync(ALERTS, 'utf8')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const { panels } = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as { panels: Panel[] };
const targets = panels.flatMap(({ title, targets = [] }) =>
  targets.map((target) => ({ title, ...target })),
);

/** Prometheus adds these to every series. */
const OF_PROMETHEUS = ['instance', 'job'];

/** What a web process and a worker define. Nothing is read, so nothing has to be there. */
async function startedMetrics() {
  const [web, worker] = [createMetrics(), createMetrics()];
  const log = createLog({ level: 'silent', process: 'test' });
  const none = null as never;
  await observeProcess(web, 'web');
  observeService(web, none, { queue_capacity: 1 });
  const sealer = { key: null, problem: () => null, stop: () => {}, hold: () => {} };
  observeSealer(web, sealer as never);
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
    over_tls: false,
    isOpen,
    isCrowded: () => false,
    waiting: count,
    streams: count,
  });
  watchConnectionRoom(createServer(), { most: 1, log, metrics: web });
  executionObserver(worker, ['python']);
  return { web, worker };
}

async function definedMetrics(): Promise<Map<string, MetricFamily>> {
  const { web, worker } = await startedMetrics();
  return new Map([...web.families(), ...worker.families()].map((each) => [each.name, each]));
}

type Used = { family: MetricFamily; labels: string[] };

/** The metrics of an expression. Complains of each that is not there, or that is used as what it is not. */
function metricsIn(t: Tap, where: string, expr: string, all: Map<string, MetricFamily>): Used[] {
  const used: Used[] = [];
  for (const found of expr.matchAll(/(\w+\()?\b(runledger_\w+)(?:\{([^}]*)\})?/g)) {
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
  const all = await definedMetrics();
  for (const { alert, expr, annotations } of rules) {
    const used = metricsIn(t, alert, expr, all);
    checkLabels(t, alert, expr, Object.values(annotations).join(' '), used);
    t.ok(annotations['summary'] && annotations['remedy'], `${alert} says what to do`);
  }
});

t.test('what an alert looks for is there with 0 before it happens', async (t) => {
  const { worker, web } = await startedMetrics();
  // What cannot be read here is left out of the page.
  const page = (await Promise.all([web.text(), worker.text()])).join('').split('\n');
  const looked_for = rules.flatMap(({ alert, expr }) =>
    [...expr.matchAll(/increase\((runledger_\w+)\{(\w+)=~?"([^"]+)"\}/g)].flatMap(
      ([, name, label, values]) =>
        values!.split('|').map((value) => ({ alert, name, text: `${label}="${value}"` })),
    ),
  );
  t.ok(looked_for.length >= 6, 'the alerts look for something');
  for (const { alert, name, text } of looked_for) {
    const series = page.filter((line) => line.startsWith(`${name}{`) && line.includes(text));
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

t.test('promtool accepts the files', async (t) => {
  try {
    for (const file of [SCRAPES, CLUSTER_SCRAPES]) {
      const { stdout } = await promisify(execFile)('promtool', ['check', 'config', file]);
      t.match(stdout, `SUCCESS: ${rules.length} rules found`);
      t.match(stdout, `SUCCESS: ${file} is valid`);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    t.comment('promtool is not on this machine: apt-get install prometheus');
  }
});
