/** kustomize, built from its sources by Go's own client, puts the manifests together. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { load, loadAll } from 'js-yaml';
import { KUSTOMIZATIONS, kubernetesObjects, yaml } from '../deploy/manifests.ts';
import { type Drill, NotRun } from './drill.ts';

const KUSTOMIZE = 'sigs.k8s.io/kustomize/kustomize/v5@v5.7.1';
const NAMESPACES = KUSTOMIZATIONS.map(({ data }) => data.namespace).filter(Boolean);

const GATEWAY_API = 'sigs.k8s.io/gateway-api@v1.4.0';
const ROUTES = 'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml';

type Schema = { type?: string; properties?: Record<string, Schema>; [name: string]: unknown };
type Crd = { spec: { versions: { name: string; schema: { openAPIV3Schema: Schema } }[] } };

/** A cluster drops a field that it does not know; here it is an error. */
function strict(schema: Schema): Schema {
  const entries = Object.entries(schema).map(([name, value]) => [name, strictPart(name, value)]);
  const all = Object.fromEntries(entries);
  return schema.properties &&
    schema['type'] === 'object' &&
    schema['additionalProperties'] === undefined
    ? { ...all, additionalProperties: false }
    : all;
}

function strictPart(name: string, value: unknown): unknown {
  if (name === 'properties')
    return Object.fromEntries(
      Object.entries(value as Record<string, Schema>).map(([key, each]) => [key, strict(each)]),
    );
  return name === 'items' ? strict(value as Schema) : value;
}

type Pods = { template?: { spec: { containers: { image: string }[] } } };
type Built = {
  kind: string;
  metadata: { name: string; namespace?: string };
  spec?: Pods & { jobTemplate?: { spec: Pods } };
};

export const drill: Drill = {
  shows:
    'kustomize accepts the manifests: every object, in its namespace, with the image that is set; the route is one of the Gateway API',
  async run({ folder, command, step }) {
    if (spawnSync('go', ['version']).error) throw new NotRun('this machine has no Go');
    await step('build kustomize', () =>
      command('go', ['install', KUSTOMIZE], {
        env: { ...process.env, GOBIN: folder },
        quiet: true,
      }),
    );
    const text = await command(join(folder, 'kustomize'), ['build', 'deploy/kubernetes'], {
      quiet: true,
    });
    const built = loadAll(text) as Built[];
    const wanted = kubernetesObjects().map(({ data }) => `${data.kind} ${data.metadata.name}`);
    assert.deepEqual(
      built.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort(),
      wanted.sort(),
    );
    await step('the route, against the schema of the Gateway API', async () => {
      const downloaded = await command('go', ['mod', 'download', '-json', GATEWAY_API], {
        quiet: true,
      });
      const { Dir } = JSON.parse(downloaded);
      const crd = load(await readFile(join(Dir, ROUTES), 'utf8')) as Crd;
      const { schema } = crd.spec.versions.find(({ name }) => name === 'v1')!;
      const validate = new Ajv({ strict: false, validateFormats: false, allErrors: true }).compile(
        strict(schema.openAPIV3Schema),
      );
      const route = yaml('deploy/kubernetes/web/http_route.yaml');
      assert.ok(validate(structuredClone(route)), JSON.stringify(validate.errors));
      route.spec.rule = [];
      assert.ok(!validate(route), 'a field that is not in the schema');
    });
    for (const { kind, metadata, spec } of built) {
      assert.ok(
        NAMESPACES.includes(kind === 'Namespace' ? metadata.name : metadata.namespace),
        metadata.name,
      );
      const template = spec?.template ?? spec?.jobTemplate?.spec.template;
      for (const { image } of template?.spec.containers ?? [])
        assert.match(image, /^registry\.example\.org\/runledger:/);
    }
  },
};
