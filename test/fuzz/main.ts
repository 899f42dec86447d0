/**
 * Schemathesis against a running service: `make fuzz [REQUESTS=50000] [SEED=1]`.
 *
 * It makes requests from the OpenAPI document, right ones and wrong ones, one after the other and in sequences. No answer may be
 * a 5xx, or have a status or a shape that the document does not have, and no right request may be refused (checks.py). It cannot
 * make archives, so it uploads none. The service counts the requests.
 * Schemathesis is installed in build/fuzz, where there is a Python with pip.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { judgingService } from '../cli/judging_service.ts';
import { freePort } from '../http/support/call.ts';
import { readDocument, withClosedAnswers } from '../http/support/document.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'build/fuzz');
const PROGRAM = join(FOLDER, 'bin/st');
/** Of the service, but strict about answers. */
const DOCUMENT = join(FOLDER, 'openapi.json');
/** The last of the checks. */
const OWN_CHECKS = join(import.meta.dirname, 'checks.py');
const VERSION = '4.32.5';
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'right_requests_are_accepted',
];

const wanted = Number(process.env['REQUESTS'] ?? 50_000);
const first_seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));

/** Why Schemathesis cannot be had here; null: it is there. */
function install(): string | null {
  if (existsSync(PROGRAM)) return null;
  const steps = [
    ['python3', '-m', 'venv', FOLDER],
    [join(FOLDER, 'bin/pip'), 'install', '--quiet', `schemathesis==${VERSION}`],
  ];
  for (const [command = '', ...args] of steps) {
    const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
    if (status !== 0) return `${command} ${args[0]}: ${error?.message ?? stderr.trim()}`;
  }
  return null;
}

async function requestsOf(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const counts = [...text.matchAll(/^runledger_http_requests_total\{.*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

async function fuzz(server: string, key: string, seed: number): Promise<boolean> {
  const options = [
    ...['--header', `X-API-Key: ${key}`, '--checks', CHECKS.join(), '--seed', `${seed}`],
    ...[
      '--url',
      server,
      '--max-examples',
      '300',
      '--continue-on-failure',
      '--suppress-health-check',
      'all',
    ],
    ...[
      '--output-sanitize',
      'false',
      '--warnings',
      'off',
      '--exclude-operation-id',
      'uploadTestSet',
      '--request-timeout',
      '60',
    ],
  ];
  writeFileSync(DOCUMENT, JSON.stringify(withClosedAnswers((await readDocument(server)).json)));
  const env = {
    PATH: process.env['PATH'],
    HOME: FOLDER,
    NO_COLOR: '1',
    SCHEMATHESIS_HOOKS: OWN_CHECKS,
  };
  const child = spawn(PROGRAM, ['run', DOCUMENT, ...options], {
    cwd: FOLDER,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  return code === 0;
}

const missing = install();
if (missing !== null) {
  console.log(`not run: Schemathesis needs Python and pip (${missing})`);
  process.exit(1);
}
const teardowns: (() => unknown)[] = [];
const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
const port = await freePort();
const env = await judgingService(t, {
  RUNLEDGER_LANGUAGES: 'python',
  RUNLEDGER_METRICS_PORT: String(port),
  RUNLEDGER_QUEUE_CAPACITY: '1000000',
  RUNLEDGER_LIMITS_WALL: '2s',
  RUNLEDGER_LIMITS_WALL_MAX: '2s',
  RUNLEDGER_WAIT_CAP: '1s',
  RUNLEDGER_LOG_LEVEL: 'warn',
});
let good = true;
let made = 0;
for (let seed = first_seed; made < wanted; seed += 1) {
  console.log(`seed ${seed}`);
  good = (await fuzz(env['RUNLEDGER_SERVER']!, env['RUNLEDGER_API_KEY']!, seed)) && good;
  made = await requestsOf(port);
  console.log(`${made} of ${wanted} requests`);
}
for (const teardown of teardowns) await teardown();
console.log(good ? `${made} requests, and nothing is wrong` : `${made} requests, with failures`);
process.exitCode = good ? 0 : 1;
