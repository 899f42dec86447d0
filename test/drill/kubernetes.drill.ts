/** kustomize, built from its sources by Go's own client, puts the manifests together. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { loadAll } from 'js-yaml';
import { KUSTOMIZATIONS, kubernetesObjects } from '../deploy/manifests.ts';
import { type Drill, NotRun } from './drill.ts';

const KUSTOMIZE = 'sigs.k8s.io/kustomize/kustomize/v5@v5.7.1';
const NAMESPACES = KUSTOMIZATIONS.map(({ data }) => data.namespace).filter(Boolean);

type Built = {
  kind: string;
  metadata: { name: string; namespace?: string };
  spec?: { template?: { spec: { containers: { image: string }[] } } };
};

export const drill: Drill = {
  shows:
    'kustomize accepts the manifests: every object, in its namespace, with the image that is set',
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
    for (const { kind, metadata, spec } of built) {
      assert.ok(
        NAMESPACES.includes(kind === 'Namespace' ? metadata.name : metadata.namespace),
        metadata.name,
      );
      for (const { image } of spec?.template?.spec.containers ?? [])
        assert.match(image, /^registry\.example\.org\/runledger:/);
    }
  },
};
