/** Mutants of the calls of test sets. */
import { inFile, type Mutant } from './mutant.ts';

const SETS = 'test/http/test_sets.test.ts';
const UPLOADS = 'test/http/uploads.test.ts';

export const testSetMutants: readonly Mutant[] = [
  ...inFile(
    'src/http/wire/receive_file.ts',
    SETS,
    ['the file of an upload has no name', 'await unlink(path);', 'await Promise.resolve(path);'],
    ['a body over the cap is rejected', 'if (size > most_bytes) {', 'if (size < 0) {'],
    ['the file is closed', 'size, close };', 'size, close: async () => {} };'],
    ['the client is asked for its body', '    askForBody(req, res);\n', ''],
  ),
  ...inFile(
    'src/http/api/upload_test_set.ts',
    SETS,
    [
      'an account has a quota',
      "if (await overQuota(web, owner, set)) return problem('quota_exceeded');",
      '',
    ],
    ['the list of a new set counts for the quota', '    manifest.bytes.length,\n', ''],
    ['the lists of stored sets count for the quota', '[bytes, manifest_bytes])', '[bytes])'],
    [
      'an archive has the bounds of the deployment',
      'unpacked_bytes: web.config.test_set_bytes',
      'unpacked_bytes: 2 ** 40',
    ],
    [
      'a validator can be started with its arguments',
      'checkArgs(name, [...judge_args, ...args]);',
      'checkArgs(name, args);',
    ],
    ['an archive has more time', 'exchange.times_body = true;', ''],
    ['room is given back', '    arrival.leave();\n', ''],
    [
      'what has arrived is stored in its turn',
      'return await web.uploads.inTurn(exchange, caller.account_id, () =>\n      storeInTime(web, exchange, caller, received.path),\n    );',
      'return await storeInTime(web, exchange, caller, received.path);',
    ],
    [
      'a package without faults is needed',
      'if (error instanceof PackageProblem) return',
      'if (error === null) return',
    ],
  ),
  ...inFile(
    'src/http/api/uploads.ts',
    UPLOADS,
    ['an account has one upload at a time', "if (accounts.has(account_id)) return 'own';", ''],
    ['a process receives a bounded number', 'if (accounts.size >= received &&', 'if (false &&'],
    ['a slow one is cut', "if (one.bytes < least_bytes) one.end('too slow');", ''],
    ['what came before does not count', '    one.bytes = 0;\n', ''],
    ['one that has arrived is not cut', '        arriving.delete(one);\n', ''],
    ['one in its first time is not cut', 'one.before !== null &&', ''],
    ['the slowest is cut', 'one.before < (slowest', 'one.before > (slowest'],
    ['a process stores two at once', '  most: 2,', '  most: 3,'],
    ['who was stored makes place', '        turn.leave();', ''],
    [
      'who waits for too long is not stored',
      "if (turn.kind !== 'inside') return othersAreStored();",
      "if (turn.kind === 'gone') return othersAreStored();",
    ],
    ['leaving twice leaves once', 'if (!left) accounts', 'accounts'],
  ),
  ...inFile(
    'src/http/wire/sockets.ts',
    'test/http/sockets.test.ts',
    ['no other request has more time', 'isTimed(newestOf(open))', 'true'],
    ['what comes behind an archive has no more time', ' && !newest.req.complete', ''],
  ),
  ...inFile(
    'src/client/client.ts',
    'test/client/client.test.ts',
    ['an upload that was lost late is not sent again', 'took_ms < LATE_MS', 'took_ms >= 0'],
    ['one that was lost soon is', 'took_ms < LATE_MS', 'took_ms < 0'],
    ['a removal whose answer was lost succeeded', 'removes && may_be_done', 'false'],
    ['the first try says that there is none', 'removes && may_be_done', 'removes'],
    ['a 429 removed nothing', 'this_may_be_done = status >= 500 &&', 'this_may_be_done = true ||'],
    ['a number that JSON does not have is not sent', 'Number.isFinite(each)', 'true'],
    ['a redirect is not followed', "redirect: 'manual'", "redirect: 'follow'"],
  ),
  ...inFile('src/webhooks/payload.ts', 'test/webhooks/payload.test.ts', [
    'texts of all tests are cut together',
    "    left -= Buffer.byteLength(cut.text ?? '');\n",
    '',
  ]),
];
