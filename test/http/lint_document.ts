/**
 * `make check` runs this file: Spectral and Redocly, by their recommended rules, on the OpenAPI document. Any warning is a
 * failure. Together they are 243 packages, so they are not among ours: they are installed in build/openapi when the document
 * has changed since they last passed it, and where they cannot be had, this says so.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { loadConfig } from '../../src/config.ts';
import { calls } from '../../src/http/api/calls.ts';
import { submissionRules } from '../../src/http/api/submission_rules.ts';
import { openapiDocument } from '../../src/http/document/openapi.ts';

const PACKAGES = ['@stoplight/spectral-cli@6.16.3', '@redocly/cli@2.77.0'];
const LINTERS = [
  ['spectral', 'lint', 'openapi.json', '--quiet', '--fail-severity', 'hint'],
  ['redocly', 'lint', 'openapi.json', '--extends', 'recommended', '--max-problems', '20'],
];
const FOLDER = resolve('build/openapi');
const PASSED = join(FOLDER, 'passed');
const PROGRAMS = join(FOLDER, 'node_modules/.bin');

const run = (command: string, args: readonly string[]) => {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: FOLDER,
    env,
    encoding: 'utf8',
  });
  return { status, text: `${stdout}${stderr}` };
};

const encrypt = () => {
  throw new Error('only the document is made here');
};
const webhooks = { urlProblem: () => null, encrypt };
const document = openapiDocument(calls, submissionRules(loadConfig({}), webhooks));
const text = JSON.stringify(document);
const id = createHash('sha256').update(PACKAGES.join()).update(text).digest('hex');
if (!existsSync(PASSED) || readFileSync(PASSED, 'utf8') !== id) process.exitCode = lint();

function lint(): number {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, 'openapi.json'), text);
  writeFileSync(join(FOLDER, '.spectral.yaml'), 'extends: ["spectral:oas"]\n');
  if (!existsSync(join(PROGRAMS, 'spectral')) || !existsSync(join(PROGRAMS, 'redocly'))) {
    const quiet = ['--silent', '--no-audit', '--no-fund'];
    const { status } = run('npm', ['install', ...quiet, '--prefix', FOLDER, ...PACKAGES]);
    if (status !== 0) {
      console.error(
        'not checked: npm cannot install Spectral and Redocly for the OpenAPI document',
      );
      return 0;
    }
  }
  for (const [name, ...args] of LINTERS) {
    const { status, text } = run(join(PROGRAMS, name!), args);
    if (status === 0 && !/\d+ warnings?/.test(text)) continue;
    console.error(text);
    return 1;
  }
  writeFileSync(PASSED, id);
  return 0;
}
