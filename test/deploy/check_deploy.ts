/**
 * `make check` runs this file: the files of deploy/ and app.json against the schemas that others publish, and the units against
 * systemd's own checks, and nginx's. Schemas come from packages of npm and PyPI, pinned by their digest, in build/deploy. They are fetched
 * when a file has changed since it last passed; what cannot be had is named.
 *
 * Kubernetes: the oldest version that has every field used here, and the newest one of the package; no unknown field.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import {
  COMPOSE,
  COMPOSE_UNIT,
  deployFiles,
  kubernetesObjects,
  read,
  UNIT_NAMES,
  yaml,
} from './manifests.ts';
import { makeCertificate, NGINX, writeNginx } from './nginx.ts';

const FOLDER = resolve('build/deploy');
const PASSED = join(FOLDER, 'passed');

type Package = {
  from: 'npm' | 'PyPI';
  name: string;
  version: string;
  file: string;
  sha256: string;
};
const KUBERNETES: Package = {
  from: 'PyPI',
  name: 'kubernetes-validate',
  version: '1.37.0',
  file: 'kubernetes_validate-1.37.0-py3-none-any.whl',
  sha256: '85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9',
};
const COMPOSE_SPEC: Package = {
  from: 'PyPI',
  name: 'check-jsonschema',
  version: '0.39.0',
  file: 'check_jsonschema-0.39.0-py3-none-any.whl',
  sha256: '14ce5c94871c551268ea948ffe21e9f1464dc48fb20bf9a4c13deeaaf756cf9b',
};
const HEROKU: Package = {
  from: 'npm',
  name: '@heroku/mcp-server',
  version: '1.0.7',
  file: 'heroku-mcp-server-1.0.7.tgz',
  sha256: 'eb48ad7ca4fbaac9d0de9ce1ab61731a433b85153d8e116f154cfc206f10007f',
};
const KUBERNETES_VERSIONS = ['1.30.0', '1.37.0'];
/** systemd's exposure, of 10: what it may be at most, with the drop-ins beside the unit. */
const EXPOSURE: Readonly<Record<string, number>> = {
  'runledger-backup.service': 1.5,
  'runledger-migrate.service': 1.5,
  'runledger-web.service': 1.8,
  'runledger-witness.service': 1.5,
  'runledger-worker.service': 6.8,
};

const READ_ENTRY =
  'import sys, zipfile; sys.stdout.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]).decode())';

const problems: string[] = [];
const unchecked: string[] = [];

const digest = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex');
const own = [
  ...deployFiles(),
  'app.json',
  'test/deploy/check_deploy.ts',
  'test/deploy/manifests.ts',
  'test/deploy/nginx.ts',
];
const id = digest(own.map((file) => `${file}\0${read(file)}`).join('\0'));
if (!existsSync(PASSED) || readFileSync(PASSED, 'utf8') !== id) process.exitCode = check();

function check(): number {
  mkdirSync(FOLDER, { recursive: true });
  checkKubernetes();
  checkCompose();
  checkHeroku();
  checkUnits();
  checkNginx();
  for (const line of unchecked) console.error(`not checked: ${line}`);
  for (const line of problems) console.error(line);
  if (problems.length > 0) return 1;
  if (unchecked.length === 0) writeFileSync(PASSED, id);
  return 0;
}

function checkKubernetes(): void {
  const wheel = fetched(KUBERNETES);
  if (wheel === null) return;
  for (const version of KUBERNETES_VERSIONS) {
    const schema = (name: string) =>
      JSON.parse(
        inWheel(
          wheel,
          `kubernetes_validate/kubernetes-json-schema/v${version}-local-strict/${name}.json`,
        ),
      );
    const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
    // By their own ids the schemas find each other.
    ajv.addSchema(schema('_definitions'));
    for (const { file, data } of kubernetesObjects()) {
      const [, group, api] = /^(?:([^./]+)[^/]*\/)?(.*)$/.exec(data.apiVersion)!;
      const name = [data.kind.toLowerCase(), group, api].filter(Boolean).join('-');
      const validate = ajv.getSchema(name) ?? ajv.addSchema(schema(name), name).getSchema(name)!;
      note(validate, data, `${file}, ${data.kind} ${data.metadata.name}, Kubernetes ${version}`);
    }
  }
}

function checkCompose(): void {
  const wheel = fetched(COMPOSE_SPEC);
  if (wheel === null) return;
  const schema = inWheel(wheel, 'check_jsonschema/builtin_schemas/vendor/compose-spec.json');
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  note(ajv.compile(JSON.parse(schema)), yaml(COMPOSE), COMPOSE);
}

function checkHeroku(): void {
  const archive = fetched(HEROKU);
  if (archive === null) return;
  const { stdout } = run('tar', ['-xzOf', archive, 'package/dist/utils/app-json.schema.json']);
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
  note(ajv.compile(JSON.parse(stdout)), JSON.parse(read('app.json')), 'app.json');
}

/** In a copy that names this clone: systemd looks for the programs. */
function checkUnits(): void {
  if (run('systemd-analyze', ['--version']).status !== 0) {
    unchecked.push('the units: this machine has no systemd');
    return;
  }
  const copy = join(FOLDER, 'units');
  rmSync(copy, { recursive: true, force: true });
  cpSync('deploy/systemd', copy, { recursive: true });
  cpSync(COMPOSE_UNIT, join(copy, basename(COMPOSE_UNIT)));
  const files = readdirSync(copy, { recursive: true, encoding: 'utf8' });
  for (const name of files.filter((name) => /\.(service|timer|conf)$/.test(name)))
    writeFileSync(
      join(copy, name),
      read(join(copy, name))
        .replaceAll('/srv/runledger', resolve('.'))
        .replaceAll('/usr/bin/podman-compose', '/usr/bin/env'),
    );
  const paths = files.filter((name) => /\.(service|timer)$/.test(name));
  const verified = run('systemd-analyze', [
    'verify',
    '--man=no',
    ...paths.map((name) => join(copy, name)),
  ]);
  if (verified.status !== 0 || verified.stderr.trim()) problems.push(verified.stderr.trim());
  for (const name of UNIT_NAMES) {
    const threshold = `--threshold=${EXPOSURE[name]! * 10}`;
    const arguments_ = ['security', '--offline=true', '--no-pager', threshold, join(copy, name)];
    const { status, stdout } = run('systemd-analyze', arguments_);
    if (status !== 0) problems.push(`${name}: ${stdout.trim().split('\n').at(-1)}`);
  }
}

/** As nginx reads it, with a certificate of this folder in place of the operator's. */
function checkNginx(): void {
  if (run('nginx', ['-v']).status !== 0) {
    unchecked.push(`${NGINX}: this machine has no nginx (apt-get install nginx-light)`);
    return;
  }
  const prefix = join(FOLDER, 'nginx');
  mkdirSync(prefix, { recursive: true });
  const made = makeCertificate(prefix);
  if (made.status !== 0) unchecked.push(`${NGINX}: no certificate could be made: ${made.stderr}`);
  else {
    writeNginx(prefix, { port: 8_443, web: 8_080 });
    const { status, stderr } = run('nginx', ['-t', '-q', '-p', prefix, '-c', 'nginx.conf']);
    // Newer versions prefer another spelling of http2, which older ones do not know.
    const said = stderr
      .split('\n')
      .filter((line) => line && !line.includes('directive is deprecated'));
    if (status !== 0 || said.length > 0) problems.push(stderr.trim());
  }
}

type Validate = {
  (data: unknown): unknown;
  errors?: { instancePath: string; message?: string; params: object }[] | null;
};

function note(validate: Validate, data: unknown, name: string): void {
  if (validate(data)) return;
  for (const { instancePath, message, params } of validate.errors ?? [])
    problems.push(`${name}: ${instancePath} ${message} ${JSON.stringify(params)}`);
}

/** The path of the package's file; null if it cannot be had. */
function fetched({ from, name, version, file, sha256 }: Package): string | null {
  const path = join(FOLDER, file);
  if (!existsSync(path)) {
    const [program, ...words] =
      from === 'npm'
        ? ['npm', 'pack', '--silent', '--pack-destination', FOLDER, `${name}@${version}`]
        : [
            'python3',
            '-m',
            'pip',
            'download',
            '--quiet',
            '--no-deps',
            '--dest',
            FOLDER,
            `${name}==${version}`,
          ];
    run(program!, words);
  }
  if (!existsSync(path)) {
    unchecked.push(`${name} ${version}, which has schemas, cannot be had from ${from}`);
    return null;
  }
  if (digest(readFileSync(path)) === sha256) return path;
  rmSync(path);
  problems.push(`${name} ${version}: ${from} sent another file than before`);
  return null;
}

function run(program: string, args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  return { status, stdout: stdout ?? '', stderr: stderr ?? '' };
}

/** The text of an entry: a wheel is a zip archive. */
function inWheel(wheel: string, entry: string): string {
  return run('python3', ['-c', READ_ENTRY, wheel, entry]).stdout;
}
