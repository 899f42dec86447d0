/**
 * POST /api/test-sets: stores the test set of a problem package.
 *
 * The key and its rate are checked before a byte of the body is read. From then on, the body may come as slowly as
 * uploads.ts allows, and not only until the request timeout. It goes to a file. When it is the upload's turn,
 * the package is read from there, and its contents go to the database in pieces, so memory holds no more than a piece.
 * Whatever ends the request before the answer, nothing of it stays: the file has no name, and the set is stored in one
 * transaction.
 */
import { join } from 'node:path';
import { contentsOf, manifestOf } from '../../judging/manifest.ts';
import {
  DEFAULT_PACKAGE_BOUNDS,
  type PackageBounds,
} from '../../judging/packages/package_bounds.ts';
import { ARCHIVE, PackageProblem } from '../../judging/packages/package_problem.ts';
import { usePackage } from '../../judging/packages/read_package.ts';
import type { TestSet } from '../../judging/test_set.ts';
import type { Caller } from '../../store/caller.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import {
  headerText,
  isIdentityEncoding,
  isZipContentType,
  parseTraceparent,
  repeatedHeaders,
} from '../wire/header_values.ts';
import { type FieldError, invalid, problem, unavailable } from '../wire/problem.ts';
import { isDeclaredTooLarge } from '../wire/read_body.ts';
import { receiveFile } from '../wire/receive_file.ts';
import type { ApiCall, KeyedHandler, Web } from './api_call.ts';
import { ARGS_LIMIT, ARGS_LIMIT_BYTES } from './field_schemas.ts';
import { COMMON, type Operation, RATE, TRACEPARENT_PARAMETER } from './operation.ts';
import { tooLarge } from './read_submission.ts';
import { rejectedKey, spendThen, unauthorized } from './spend_rate.ts';
import { EXAMPLE_TEST_SET, TEST_SET, testSetRecord } from './test_set_record.ts';
import { type Arrival, othersAreStored, ownIsStored } from './uploads.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

/** From its turn to the answer. A package at every bound takes some seconds. */
export const STORE_LIMIT_MS = 120_000;

const operation: Operation = {
  id: 'uploadTestSet',
  tag: 'test sets',
  summary: 'Store a test set',
  description:
    'The body is a zip archive: a problem package of the ICPC or Kattis format (legacy, 2023-07 or 2025-09), or a flat archive of NAME.in and NAME.ans. A set belongs to its account and never changes. The same content again is the same set. An account can send one at a time to a process. It may take longer than other requests, if it brings at least 64 KiB a second; else its connection is closed.',
  parameters: [TRACEPARENT_PARAMETER],
  upload: { type: 'application/zip', description: 'The archive.' },
  success: [
    {
      status: '201',
      description: 'Stored.',
      schemas: { TestSet: TEST_SET },
      headers: [...RATE, 'Location'],
      examples: { created: { value: EXAMPLE_TEST_SET } },
    },
    {
      status: '200',
      description: 'The account has a set with the same content.',
      schemas: { TestSet: TEST_SET },
      headers: [...RATE, 'Location'],
      examples: { known: { value: EXAMPLE_TEST_SET } },
    },
  ],
  problems: [
    'quota_exceeded',
    'payload_too_large',
    'unsupported_media_type',
    'method_not_allowed',
    ...COMMON,
  ],
};

const handler: KeyedHandler = async (web, exchange, digest) => {
  const rejection = rejectedUpload(web, exchange);
  if (rejection !== null) return spendThen(web, exchange, digest, rejection);
  const spent = await web.results.spend(digest);
  if (spent.kind !== 'spent') return rejectedKey(web, exchange, digest, spent);
  const { caller } = spent;
  exchange.caller = caller;
  const arrival = web.uploads.enter(caller.account_id, (why) => {
    exchange.cause = why;
    exchange.req.socket.destroy();
  });
  if (arrival === 'own') return ownIsStored();
  if (arrival === 'full') return othersAreStored();
  exchange.times_body = true;
  try {
    return await receive(web, exchange, caller, arrival);
  } catch (error) {
    if (isOutOfRoom(error)) return unavailable('There is no room for uploads just now.');
    throw error;
  } finally {
    arrival.leave();
  }
};

export const uploadTestSet: ApiCall = {
  method: 'POST',
  path: '/api/test-sets',
  keyed: true,
  operation,
  handler,
};

/** For which the body is not read. */
function rejectedUpload(web: Web, { req, query }: Exchange): Answer | null {
  const errors: FieldError[] = repeatedHeaders(req.rawHeaders).map((path) => ({
    path,
    message: 'is given more than once',
  }));
  const { test_set_bytes } = web.config;
  if (isDeclaredTooLarge(req, test_set_bytes)) return tooLarge(test_set_bytes);
  const { 'content-type': type, 'content-encoding': encoding } = req.headers;
  if (!isZipContentType(type) || !isIdentityEncoding(encoding)) {
    return problem('unsupported_media_type', {
      message: 'Send the archive as application/zip, without a content encoding.',
      headers: { Accept: 'application/zip' },
    });
  }
  rejectUnknownParameters(new URLSearchParams(query), [], errors);
  return errors.length > 0 ? invalid(errors) : null;
}

async function receive(
  web: Web,
  exchange: Exchange,
  caller: Caller,
  { came, arrived }: Arrival,
): Promise<Answer | null> {
  const { config } = web;
  const received = await receiveFile(exchange.req, exchange.res, {
    folder: join(config.state_dir, 'uploads'),
    most_bytes: config.test_set_bytes,
    came,
  });
  arrived();
  if (received === 'gone') return null;
  if (received === 'too_large') return tooLarge(config.test_set_bytes);
  try {
    return await web.uploads.inTurn(exchange, caller.account_id, () =>
      storeInTime(web, exchange, caller, received.path),
    );
  } finally {
    await received.close();
  }
}

async function storeInTime(
  web: Web,
  exchange: Exchange,
  caller: Caller,
  path: string,
): Promise<Answer | null> {
  const gone = new AbortController();
  exchange.onCut = () => gone.abort();
  const late = AbortSignal.timeout(STORE_LIMIT_MS);
  try {
    const signal = AbortSignal.any([gone.signal, late]);
    const bounds = { ...DEFAULT_PACKAGE_BOUNDS, unpacked_bytes: web.config.test_set_bytes };
    return await readAndStore(web, exchange, caller, path, bounds, signal);
  } catch (error) {
    if (error instanceof PackageProblem) return invalid([fieldError(error)]);
    if (gone.signal.aborted) return null;
    if (late.aborted) return unavailable('Storing the test set took too long.');
    throw error;
  } finally {
    exchange.onCut = null;
  }
}

function readAndStore(
  web: Web,
  exchange: Exchange,
  owner: Caller,
  path: string,
  bounds: PackageBounds,
  signal: AbortSignal,
): Promise<Answer> {
  return usePackage(path, bounds, signal, async ({ set, validator_path, contentOf }) => {
    checkSet(set, validator_path, web.config.languages);
    if (await overQuota(web, owner, set)) return problem('quota_exceeded');
    const traceparent = parseTraceparent(headerText(exchange.req.headers['traceparent']));
    const request = { request_id: exchange.id, traceparent };
    const created = await web.test_sets.create({ owner, set, ...request, contentOf });
    if (created.kind === 'unauthorized') {
      // Its key has ended since: like any unknown one.
      exchange.caller = null;
      return unauthorized();
    }
    const stored = await web.test_sets.read(owner, created.id);
    if (stored === null)
      return unavailable('Another call deleted the set at the same time: upload it again.');
    return {
      status: created.kind === 'created' ? STATUS.created : STATUS.ok,
      body: testSetRecord(stored),
      headers: { Location: `/api/test-sets/${created.id}` },
    };
  });
}

/**
 * Whether the account may not store another set. One that it has already counts as no other. Uploads at the same moment to
 * other processes are not seen, so an account can exceed its quota by as many sets as there are processes.
 */
async function overQuota(web: Web, owner: Caller, set: TestSet): Promise<boolean> {
  const { account_test_sets, account_test_set_bytes } = web.config;
  const sets = await web.test_sets.list(owner);
  const manifest = manifestOf(set);
  if (sets.some((each) => each.sha256 === manifest.sha256)) return false;
  // The names and hashes of empty files are bytes, too.
  const sizes = [
    ...sets.flatMap(({ bytes, manifest_bytes }) => [bytes, manifest_bytes]),
    ...contentsOf(set).map(({ size }) => size),
    manifest.bytes.length,
  ];
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  return sets.length >= account_test_sets || bytes > account_test_set_bytes;
}

/** Rules of this service that the format does not have. */
function checkSet(set: TestSet, validator_path: string | null, languages: readonly string[]): void {
  for (const program of [set.checker, set.interactor]) {
    if (program !== null && !languages.includes(program.language)) {
      throw new PackageProblem(
        validator_path ?? program.source,
        `the language ${program.language} is not one of this deployment`,
      );
    }
  }
  for (const { name, args = [] } of set.tests) checkArgs(name, args);
  const judge_args = (set.checker ?? set.interactor)?.args ?? [];
  for (const { name, args } of set.groups) checkArgs(name, [...judge_args, ...args]);
  for (const { name, checker_args = [] } of set.tests)
    checkArgs(name, [...judge_args, ...checker_args]);
}

/** A program or a validator with more could not be started. */
function checkArgs(item: string, args: readonly string[]): void {
  const bytes = args.reduce((sum, arg) => sum + Buffer.byteLength(arg), 0);
  if (args.length <= ARGS_LIMIT && bytes <= ARGS_LIMIT_BYTES) return;
  throw new PackageProblem(
    item,
    `a program has at most ${ARGS_LIMIT} arguments, of ${ARGS_LIMIT_BYTES} bytes together`,
  );
}

function fieldError(error: PackageProblem): FieldError {
  return { path: error.item === ARCHIVE ? '' : error.shown_item, message: error.problem };
}

function isOutOfRoom(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'ENOSPC' || code === 'EDQUOT';
}
