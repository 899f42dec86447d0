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
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
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

/** Most of the time goes into thinking of requests, on one processor for each seed. */
const LANES = availableParallelism();

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
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const counts = [...metrics.matchAll(/^runledger_http_requests_total\{.*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Resolves to what it wrote, once it has ended. */
async function fuzz(folder: string, server: string, key: string, seed: number) {
  const options = [
    ...['--header', `X-API-Key: ${key}`, '--checks', CHECKS.join(), '--seed', `${seed}`],
    ...['--url', server, '--max-examples', '300', '--continue-on-failure'],
    ...['--suppress-health-check', 'all', '--output-sanitize', 'false', '--warnings', 'off'],
    ...['--exclude-operation-id', 'uploadTestSet', '--request-timeout', '60'],
  ];
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    NO_COLOR: '1',
    SCHEMATHESIS_HOOKS: OWN_CHECKS,
  };
  const child = spawn(PROGRAM, ['run', DOCUMENT, ...options], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [written, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return { good: code === 0, written };
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
const server = env['RUNLEDGER_SERVER']!;
const key = env['RUNLEDGER_API_KEY']!;
writeFileSync(DOCUMENT, JSON.stringify(withClosedAnswers((await readDocument(server)).json)));
let good = true;
let made = 0;
let next_seed = first_seed;
await Promise.all(Array.from({ length: LANES }, (_, lane) => fuzzOn(join(FOLDER, `lane${lane}`))));

/** One seed after the other. A lane's own folder keeps the cases that the others write out of its way. */
async function fuzzOn(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  while (made < wanted) {
    const seed = next_seed++;
    console.log(`seed ${seed}`);
    const run = await fuzz(folder, server, key, seed);
    if (!run.good) good = false;
    made = await requestsOf(port);
    if (!run.good) console.log(run.written);
    console.log(
      `seed ${seed}: ${run.good ? 'nothing is wrong' : 'failures'}; ${made} requests of ${wanted} so far`,
    );
  }
}
for (const teardown of teardowns) await teardown();
console.log(good ? `${made} requests, and nothing is wrong` : `${made} requests, with failures`);
process.exitCode = good ? 0 : 1;
