/** The files by which people run the service: those of deploy/, and of platforms. Read as data, with the text of each. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, loadAll } from 'js-yaml';

// biome-ignore lint/suspicious/noExplicitAny: documents of other people's formats, whose shape their schemas check.
type Data = any;

export const read = (path: string): string => readFileSync(path, 'utf8');

export const yaml = (path: string): Data => load(read(path));

const UNITS = 'deploy/systemd';
const KUBERNETES = 'deploy/kubernetes';
export const COMPOSE = 'deploy/container/compose.yaml';
export const COMPOSE_UNIT = 'deploy/container/runledger-compose.service';

/** Every file of deploy/, without what a person made there. */
export const deployFiles = (): string[] =>
  readdirSync('deploy', { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== '.env')
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();

/** The settings of a unit, in their order. A setting may come more than once. */
export type Unit = {
  readonly name: string;
  readonly settings: readonly (readonly [string, string])[];
};

export const unit = (name: string): Unit => {
  const lines = read(join(UNITS, name)).split('\n');
  const settings = lines
    .filter((line) => /^[A-Z]/.test(line))
    .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const);
  return { name, settings };
};

export const UNIT_NAMES = readdirSync(UNITS).filter((name) => name.endsWith('.service'));

export const values = ({ settings }: Unit, name: string): string[] =>
  settings.filter(([each]) => each === name).map(([, value]) => value);

export const value = (of: Unit, name: string): string | undefined => values(of, name).at(-1);

/** The variables of an environment file. */
export const environmentFile = (name: string): Record<string, string> =>
  Object.fromEntries(
    read(join(UNITS, name))
      .split('\n')
      .filter((line) => /^[A-Z]/.test(line))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );

/** One object of Kubernetes, and the file that it is in. */
export type KubernetesObject = { readonly file: string; readonly data: Data };

const kustomizations = (folder: string): { file: string; data: Data }[] => {
  const file = join(folder, 'kustomization.yaml');
  const data = yaml(file);
  const below = (data.resources as string[]).filter((name) => !name.endsWith('.yaml'));
  return [{ file, data }, ...below.flatMap((name) => kustomizations(join(folder, name)))];
};

export const KUSTOMIZATIONS = kustomizations(KUBERNETES);

/** What `kubectl apply -k deploy/kubernetes` sends, without the namespace that kustomize sets. */
export const kubernetesObjects = (): KubernetesObject[] =>
  KUSTOMIZATIONS.flatMap(({ file, data }) =>
    (data.resources as string[])
      .filter((name) => name.endsWith('.yaml'))
      .flatMap((name) => {
        const path = join(file, '..', name);
        return loadAll(read(path)).map((object) => ({ file: path, data: object as Data }));
      }),
  );
