/** Mutants of the API: headers, bodies, the request schema, waiting, equal answers. */
import { inFile, type Mutant } from './mutant.ts';

const contract = (rule: string) => `test/http/contract.test.ts ${rule}`;
const WEIGHT = 'test/http/weight.test.ts';
const SOCKETS = 'test/http/sockets.test.ts';
const READ_AHEAD = 'test/http/read_ahead.test.ts';
const PARSE = 'test/http/parse_submission.test.ts';

export const httpMutants: readonly Mutant[] = [
  ...inFile(
    'src/http/api/failures.ts',
    'test/http/failures.test.ts',
    ['the causes that are remembered are bounded', 'CAUSES_MAX = 100', 'CAUSES_MAX = 5_000'],
    ['a repeated line is about the newest request', 'known.write = write;', ''],
    ['the ids of a line are bounded', 'slice(-IDS_MAX)', 'slice()'],
    [
      'the line of a request has its cause',
      '      exchange.cause = cause;\n      count(cause',
      '      count(cause',
    ],
  ),
  ...inFile('src/http/api/readiness.ts', contract('disk of the database is full'), [
    'a submission that could not be stored counts for readiness',
    'part !== null && !only_waited',
    'part === null && !only_waited',
  ]),
  ...inFile('src/http/api/readiness.ts', 'test/http/readiness.test.ts', [
    'what waited while others were stored does not count',
    'isLate(error) && stored_ms >= begun_ms',
    'false',
  ]),
  ...inFile('src/http/api/readiness.ts', 'test/http/readiness.test.ts', [
    'what was rejected without a write does not count',
    "kind === 'accepted'",
    'kind !== null',
  ]),
  ...inFile('src/log.ts', 'test/log.test.ts', [
    'an outage is logged without a stack',
    'OUTAGE.test(',
    '!OUTAGE.test(',
  ]),
  ...inFile(
    'src/http/wire/unread_answers.ts',
    'test/http/unread_answers.test.ts',
    ['answers that are not read are bounded', 'next.res.destroy();', ''],
    ['an answer that was read does not count', '        remove(res, account_id);\n', ''],
    ['an answer has a time to be read', '() => res.destroy(), most_ms', '() => {}, most_ms'],
    ['the newest stays', ' || oldest === newest', ''],
    ['those of the owner that has most go first', ' || bytes <= most_owned', ''],
  ),
  ...inFile(
    'src/http/wire/sockets.ts',
    SOCKETS,
    ['a client that hung up is forgotten', 'open.clear();', ''],
    [
      'those of a closed connection do not count',
      '      waiting.leave(socket);\n      for',
      '      for',
    ],
    ['a head that rested has its time, too', 'untimed.readOn(socket);', ''],
    [
      'a body behind many requests is not read before its turn',
      '? 0 : PIPELINED)) stopReading(socket);',
      '? 0 : PIPELINED)) return;',
    ],
    ['a head that rests is not too slow', 'isPaused || isTimed', 'isTimed'],
  ),
  ...inFile(
    'src/http/wire/waiting_requests.ts',
    SOCKETS,
    ['requests that wait behind others are bounded for all', 'total > most', 'false'],
    ['the connection that has most of them goes', 'count > its_count', 'longest === null'],
  ),
  ...inFile(
    'src/http/wire/untimed.ts',
    SOCKETS,
    ['a body has its time again', 'if (is_its_turn && is_read) socket.destroy();\n      else', ''],
    [
      'a head has its time again',
      'if (next === untimed.behind) socket.destroy();\n        else',
      '',
    ],
  ),
  ...inFile(
    'src/http/wire/first_requests.ts',
    'test/http/first_requests.test.ts',
    ['of many that come at once, the others rest', 'in_turn === OF_A_TURN', 'false'],
    ['who comes then waits behind them', 'if (resting.size > 0) rest(socket);', 'if (false) ;'],
    ['in long turns few speak', 'Math.max(at_once / 2, FEWEST)', 'MOST'],
    ['in short turns more speak', 'Math.min(at_once * 2, MOST)', 'FEWEST'],
  ),
  ...inFile('src/http/wire/open_requests.ts', SOCKETS, [
    'what is answered before its turn is not done',
    'if (!exchange.answered) handle()',
    'handle()',
  ]),
  ...inFile('src/http/wire/exchange.ts', SOCKETS, [
    'an answer without a length is the last one to an older client',
    'if (ends_unmeasured) res.shouldKeepAlive = false;',
    '',
  ]),
  ...inFile('src/http/wire/send_pieces.ts', 'test/http/send_pieces.test.ts', [
    'each piece has a time to be read',
    'setTimeout(onClose, most_ms)',
    'setTimeout(() => {}, most_ms)',
  ]),
  ...inFile('src/http/api/list_query.ts', contract('filters: status, verdict'), [
    'times are exact to the microsecond',
    'fraction.slice(1, 7)',
    'fraction.slice(1, 4)',
  ]),
  ...inFile('src/http/api/spent_keys.ts', 'test/http/spent_keys.test.ts', [
    'an answer of the time before a change is not remembered',
    ' || since_ms <= forgot_ms',
    '',
  ]),
  ...inFile(
    'src/http/api/event_streams.ts',
    'test/http/event_streams.test.ts',
    [
      'a small piece costs a write, too',
      'Math.max(bytes.length, LEAST_COST_BYTES)',
      'bytes.length',
    ],
    [
      'what is just written may be long',
      ' + (first_bytes.get(res) ?? 0)) res.destroy();\n  else res.write(message);',
      ') res.destroy();\n  else res.write(message), res.writableLength > UNREAD_BYTES && res.destroy();',
    ],
  ),
  ...inFile('src/listen.ts', 'test/processes/listen.test.ts', [
    'a connection that cannot be accepted is said once a second',
    'if (performance.now() < quiet_until_ms) return;',
    '',
  ]),
  ...inFile('src/http/wire/new_connections.ts', 'test/http/connections.test.ts', [
    'a part of a request is none',
    'silent.size > 0',
    '[...open].some((socket) => socket.bytesRead === 0)',
  ]),
  ...inFile('src/http/server.ts', 'test/http/connections.test.ts', [
    'routers hear that it stops before it does',
    'await sleep(config.shutdown_drain_ms);',
    '',
  ]),
  ...inFile(
    'src/http/server.ts',
    'test/http/held_connections.test.ts',
    ['pages of one account hold one connection', 'inLine(page)', 'page'],
    ['receipts of one key hold one connection', 'inLine(receipts.read)', 'receipts.read'],
    [
      'cancels of one account hold one connection',
      'cancelInLine(createCancel(db, cancelCounter(parts.metrics)))',
      'createCancel(db, cancelCounter(parts.metrics))',
    ],
    ['lists of test sets hold one connection', 'inLine(test_sets.list)', 'test_sets.list'],
    ['looks at test sets hold one connection', 'inLine(test_sets.read)', 'test_sets.read'],
    ['removals of test sets hold one connection', 'inLine(test_sets.remove)', 'test_sets.remove'],
    ['reads of health hold one connection', '() => health_reads.add(null)', 'store_health.read'],
  ),
  ...inFile(
    'src/http/api/receive_body.ts',
    'test/http/connections.test.ts',
    [
      'a slow body of a spent key costs nothing',
      '(await knownAsSpent(web, exchange, digest)) ?? ',
      '',
    ],
    ['a slow body of a known key is no stranger', 'places.mayRead().catch(() => {})', '{}'],
  ),
  ...inFile(
    'src/http/wire/connection_room.ts',
    'test/http/connection_room.test.ts',
    [
      'slow bodies of a key are bounded',
      'if (same.size <= of_a_key) return null;',
      'if (same.size > 0) return null;',
    ],
    [
      'a request over its rate keeps no room',
      'caller !== null && status !== OVER_RATE',
      'caller !== null',
    ],
    ['callers are no slow bodies', 'if (isCaller(one)) leaveSlow(one);', 'void one;'],
    [
      'a slow body that was answered without a caller is a stranger',
      'else if (!stranger.socket.destroyed && !strangers.has(stranger)) returns(stranger);',
      '',
    ],
  ),
  ...inFile('src/http/server.ts', 'test/http/connections.test.ts', [
    'a connection before its TLS handshake does not outlast a stop',
    'connections.destroy();\n  await closed;',
    'server.closeAllConnections();\n  await closed;',
  ]),
  ...inFile('src/http/wire/sockets.ts', WEIGHT, [
    'pipelined requests are handled one after the other',
    'if (isFirst && !answered.has(socket)) return null;',
    'if (open.size > 0) return null;',
  ]),
  ...inFile('src/http/wire/sockets.ts', contract('no request, too'), [
    'answers to odd bytes have the headers of all answers',
    '    ...lines(shared),\n',
    '',
  ]),
  ...inFile('src/http/wire/sockets.ts', contract('bad bytes'), [
    'a CONNECT is not answered in the place of another request',
    'endLine(socket as Socket, newestOf(openOn.get(socket)), ',
    'endLine(socket as Socket, undefined, ',
  ]),
  ...inFile(
    'src/http/wire/sockets.ts',
    SOCKETS,
    ['a reset after a CONNECT ends no process', "socket.on('error', ignore);", ''],
    [
      'a connection with a CONNECT ends with its last answer',
      "open.res.once('close', () => endThenDrop(socket));",
      '',
    ],
    [
      'a second mistake does not cost the answer to the first',
      'if (answer !== null && over.has(socket)) return;',
      '',
    ],
    ['a mistake does not cost the answer before it', '  lingerAtEnd(socket);', ''],
    ['a connection rests behind a mistake', '(over.has(socket) ? 0 : PIPELINED)', 'PIPELINED'],
    [
      'a connection rests while many of its requests wait',
      '(over.has(socket) ? 0 : PIPELINED)',
      '(over.has(socket) ? 0 : 10 * PIPELINED)',
    ],
    [
      'a connection goes on when few wait',
      '        socket.resume();\n        untimed',
      '        untimed',
    ],
  ),
  ...inFile('src/http/wire/linger.ts', SOCKETS, [
    'a client may write everything before it reads',
    'socket.resume();',
    '',
  ]),
  ...inFile('src/http/wire/new_connections.ts', SOCKETS, [
    'a process that stops closes connections with a CONNECT, too',
    'for (const socket of open) socket.destroy();',
    '',
  ]),
  ...inFile(
    'src/http/api/receive_body.ts',
    WEIGHT,
    [
      'the body of an unknown key is not read',
      'exchange.has_known_key ||= await web.known_keys.knows(digest);',
      'exchange.has_known_key = true;',
    ],
    ['a client that does not go on makes room', 'hold_ms: 1_000', 'hold_ms: 100_000'],
    ['a place is left', 'for (const { leave } of taken.splice(0)) leave(is_done);', ''],
    [
      'a body that does not come to its end counts',
      "why === 'gone' && exchange.has_known_key",
      'false',
    ],
    ['a body that others wait for is cut', 'exchange.req.socket.destroy();', ''],
  ),
  ...inFile(
    'src/http/wire/read_body.ts',
    WEIGHT,
    ['a body without a length goes on when it is admitted', 'req.resume()', 'undefined'],
    ['a body that ends too early is gone', "res.on('close', onClose);", ''],
    ['a body weighs what has come of it', 'mayGrow(size - admitted_bytes)', 'mayGrow(0)'],
  ),
  ...inFile(
    'src/http/wire/read_body.ts',
    READ_AHEAD,
    [
      'what comes while a body waits becomes one chunk',
      'gatherWhile(req, () => waits, onData);',
      '',
    ],
    [
      'a large body that is whole waits, too',
      'if (!waits) return settle(chunks.whole());',
      'return settle(chunks.whole());',
    ],
    [
      'a whole body that waits is not gone',
      "isWhole = true;\n      req.off('close', onClose);",
      'isWhole = true;',
    ],
    ['a body that waited comes to its end', 'if (isWhole) return onEnd();', ''],
    ['an empty body is not gone', 'req.readableLength > 0 ? req.read() : null', 'req.read()'],
    ['nothing comes twice', "req.off('data', onData);\n    const bytes", 'const bytes'],
    [
      'a connection rests while its body waits',
      'if (!req.complete) pauseAfterRead(req, waits);',
      '',
    ],
    ['a connection goes on when its body is read', '  req.socket.resume();\n  if', '  if'],
    ['a connection goes on when its body may grow', 'req.socket.resume();\n        req', 'req'],
  ),
  ...inFile('src/http/server.ts', WEIGHT, [
    'what waits to be read takes little memory',
    'gatherAhead(req);',
    '',
  ]),
  ...inFile(
    'src/http/wire/send_pieces.ts',
    'test/http/send_pieces.test.ts',
    ['a body that was sent says so', 'was_sent = true;', ''],
    ['a body that was not sent says so', 'let was_sent = false;', 'let was_sent = true;'],
  ),
  ...inFile(
    'src/http/api/record_answer.ts',
    WEIGHT,
    ['a large record leaves its place', 'turn.leave(was_sent);', ''],
    ['a client that does not read makes room', 'since_ms = performance.now();', ''],
  ),
  ...inFile('src/store/large_records.ts', WEIGHT, [
    'two records do not share memory',
    'spare_pieces.pop()',
    'spare_pieces.at(-1)',
  ]),
  ...inFile('src/store/payloads.ts', WEIGHT, [
    'slices are joined',
    'slices.set(kind, [...(slices.get(kind) ?? []), bytes])',
    'slices.set(kind, [bytes])',
  ]),
  ...inFile(
    'src/http/api/spent_keys.ts',
    'test/http/spent_keys.test.ts',
    [
      'a key over its rate is not rejected after its reset',
      'if (left_s <= 1) {',
      'if (left_s <= 0) {',
    ],
    ['an expired key is not over its rate', 'if (!exists && ', 'if (exists && '],
    [
      'no request waits for a silent database',
      'if (age_ms >= STALE_MS) await entry.question;',
      'await entry.question;',
    ],
    ['no answer that is old is trusted', 'if (age_ms >= STALE_MS) await entry.question;', ''],
    ['keys that changed are not rejected', 'if (entries.get(name) !== entry)', 'if (!entries)'],
  ),
  ...inFile(
    'src/http/wire/header_values.ts',
    'test/http/header_values.test.ts',
    ['two X-API-Key headers are ambiguous and rejected', "  'x-api-key',\n", ''],
    ['two Content-Length headers are, too', "  'content-length',\n", ''],
    ['an invalid traceparent is ignored', '(?!00|ff)', '(?!00)'],
    [
      'a charset must be UTF-8',
      "name !== 'charset' || value === 'utf-8'",
      "name !== 'charset' || value !== ''",
    ],
    ['an encoded body is rejected', "text.trim().toLowerCase() === 'identity'", 'true'],
    ['a UUID has one spelling', 'text.toLowerCase() : null', 'text : null'],
  ),
  ...inFile(
    'src/http/document/html.ts',
    'test/http/page.test.ts',
    ['text of the document is no markup', "    .replaceAll('<', '&lt;')\n", ''],
    [
      'each id of the page is there once',
      "name.toLowerCase().replace(/[^a-z0-9]+/g, '-')",
      'name.slice(0, 1)',
    ],
  ),
  ...inFile(
    'src/http/wire/rate_headers.ts',
    contract('rate and concurrency'),
    ['RateLimit has what remains', '{remaining}', '{limit}'],
    ['RateLimit-Policy names the window', 'WINDOW_S = 60', 'WINDOW_S = 61'],
    ['a key without a limit has no rate headers', 'if (limit === 0) return {};', ''],
  ),
  ...inFile(
    'src/http/wire/read_body.ts',
    contract('a body over'),
    ['a body over the cap is rejected', 'if (size > most_bytes) {', 'if (size < 0) {'],
    [
      'a length over the cap is rejected before the body is read',
      'return declaredBytes(req) > most_bytes;',
      'return req.headers.host === null;',
    ],
    ['the cap is 2 MiB', '2 * 1024 * 1024', '3 * 1024 * 1024'],
  ),
  ...inFile(
    'src/http/api/parse_submission.ts',
    PARSE,
    ['a list that is too long is not checked item by item', 'value.length = 0;', ''],
    ['a value that nests too deep ends', ' || depth === DEPTH_LIMIT', ''],
    [
      'every unknown field is named, those of inner objects, too',
      'namesOutside(entries[name]!, inner, at, found);',
      'void inner;',
    ],
    [
      'two requests with different boundaries have different digests',
      'mac.update(part === null ?',
      'void (part === null ?',
    ],
    ['an answer names a hundred mistakes at most', 'first.size < ERRORS_SHOWN && ', ''],
  ),
  ...inFile(
    'src/http/api/field_schemas.ts',
    contract('stdin_base64'),
    ['base64 has its padding', 'value.length % 4 === 0 && BASE64', 'BASE64'],
    ['decoded stdin is at most 64 KiB', 'base64Bytes(value) <= most', 'value !== null'],
  ),
  ...inFile(
    'src/http/api/field_schemas.ts',
    contract('args'),
    ['arguments are 4 KiB at most', '<= ARGS_LIMIT_BYTES', '<= 2 * ARGS_LIMIT_BYTES'],
    ['an argument has no NUL', "!value.includes('\\0')", 'value !== null'],
  ),
  ...inFile('src/http/api/submission_schema.ts', contract('webhook_secret'), [
    'a URL needs a secret',
    "  { field: 'webhook_url', needs: 'webhook_secret' },\n",
    '',
  ]),
  ...inFile('src/http/api/field_rules.ts', 'test/http/openapi.test.ts', [
    'the document states the rules',
    'v.metadata(wordsOf(rules))',
    'v.metadata({})',
  ]),
  ...inFile('src/http/api/field_schemas.ts', contract('surrogate'), [
    'half of a surrogate pair is no text',
    'value.isWellFormed()',
    "value !== ''",
  ]),
  ...inFile('src/http/api/waiting_request.ts', contract('Prefer: wait=N never waits longer'), [
    'a preference does not wait longer than the cap',
    'Math.min(preferred_s * 1000, cap_ms)',
    'preferred_s * 1000',
  ]),
  ...inFile('src/http/api/waiting_request.ts', contract('wait is true or false'), [
    'wait is true or false',
    "wait !== 'true' && wait !== 'false'",
    "wait === ''",
  ]),
  ...inFile('src/http/api/spend_rate.ts', contract('401 is the same to the byte'), [
    'every 401 is the same',
    "problem('unauthorized', { close: true })",
    "problem('unauthorized')",
  ]),
  ...inFile('sql/functions/read_result.sql', contract('404'), [
    'another account’s submission is a 404',
    'own.id = record_in.id and own.account_id = record_in.account_id',
    'own.id = record_in.id',
  ]),
  ...inFile('src/http/api/read_result.ts', contract('404'), [
    'an unknown submission is a 404',
    "return problem('not_found');",
    "return problem('invalid_request');",
  ]),
  ...inFile('src/http/api/read_submission.ts', contract('a repeated Content-Type'), [
    'a repeated header is named',
    'repeatedHeaders(req.rawHeaders).map(',
    'repeatedHeaders([]).map(',
  ]),
  ...inFile('src/http/api/read_submission.ts', contract('an unknown parameter'), [
    'an unknown parameter is named',
    "rejectUnknownParameters(parameters, ['wait'], errors);",
    '',
  ]),
  ...inFile('src/http/api/dispatch.ts', contract('needs one Host'), [
    'HTTP/1.1 needs one Host',
    "repeatedHeaders(req.rawHeaders).includes('host')",
    'false',
  ]),
  ...inFile('src/http/api/dispatch.ts', contract('proxy: anything but https'), [
    'behind a router plain HTTP is rejected',
    "forwarded.toLowerCase() === 'https'",
    "forwarded !== ''",
  ]),
];
