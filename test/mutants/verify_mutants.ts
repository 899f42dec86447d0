/** Small faults in verify: what it would then believe. */
import { inFile, type Mutant } from './mutant.ts';

const VERIFY = 'test/store/verify.test.ts';
const FILE = 'test/store/verify_file.test.ts';
const EXPORT = 'test/proof/export_file.test.ts';
const REMOVALS = 'test/domain/removals.test.ts';
const TREE = 'test/proof/compact_tree.test.ts';
const RETENTION = 'test/store/retention.test.ts';
const SCHEDULED = 'test/queue/retention_chore.test.ts';
const CATALOGUE = 'test/store/catalogue_changes.test.ts';

export const verifyMutants: readonly Mutant[] = [
  ...inFile(
    'src/proof/compact_tree.ts',
    TREE,
    [
      'a subtree is complete where the size before ended in a one',
      'bits % 2 === 1; bits = (bits - 1) / 2',
      'bits % 2 === 1; bits = (bits - 3) / 2',
    ],
    ['the larger subtree is on the left', 'nodeText(left, right)', 'nodeText(right, left)'],
    ['tiles have every eighth level', 'height % TILE_HEIGHT === 0', 'height % TILE_HEIGHT === 1'],
  ),
  ...inFile(
    'src/proof/export_file.ts',
    EXPORT,
    ['a file has the digest of its bytes', '!digest.digest().equals(body)', 'body.length !== 32'],
    [
      'a file that was cut off has no end',
      "if (!ended) throw new BadExport('it was cut off');",
      '',
    ],
    ['a gap has whole hashes', 'hashes.length % HASH_BYTES !== 0', 'hashes.length < 0'],
  ),
  ...inFile(
    'src/domain/removals.ts',
    REMOVALS,
    ['a month is allowed with its number of events', 'each.events === events &&', ''],
    ['a month is allowed with its leaves', 'each.leaves_sha256 === leaves_sha256,', 'true,'],
    ['an age is one at the purge', '>= ms)', '> 0)'],
  ),
  ...inFile('src/store/version_table.ts', 'test/store/version_table.test.ts', [
    'nobody knows the marks of versions',
    'return hashOf([version >>> 0, n, 0, 0], this.#seed);',
    'return version >>> 0;',
  ]),
  ...inFile(
    'src/store/verify_payloads.ts',
    RETENTION,
    [
      'bytes that are missing need a claim',
      'if (claimed) this.purged++;',
      'this.purged++; if (stream === null) return;',
    ],
    ['a delivery that waits is waited for once', 'waited.at(-1)?.to !== null', 'waited !== null'],
    ['what is forgotten is gone', '?? this.#forgottenAt(stream!, expected);', '?? null;'],
    ['what purges claim is what is gone', 'check.purged !== claimed', 'check.purged < claimed'],
  ),
  ...inFile(
    'src/store/verify_schedule.ts',
    SCHEDULED,
    ['what the schedule removed has its age', 'age_ms >= keptMs(set, removed.kept)', 'age_ms >= 0'],
    [
      'a schedule that was replaced long ago counts no more',
      'schedules.slice(last).reverse()',
      'schedules.toReversed()',
    ],
    [
      'a removal may begin before another schedule is set',
      'schedules.slice(last).reverse()',
      'schedules.slice(-1)',
    ],
    ['without a time, events are kept for ever', 'Number.POSITIVE_INFINITY', '0'],
  ),
  ...inFile('src/store/verify_projections.ts', SCHEDULED, [
    'the schedule is that of the newest event',
    'order by e.generation desc, e.xid desc, e.seq desc limit 1',
    'limit 0',
  ]),
  ...inFile('src/store/verify_payloads.ts', 'test/store/test_sets.test.ts', [
    'a window of test sets begins where the one before it ended',
    'from = to;',
    'from = null;',
  ]),
  ...inFile(
    'src/store/entry_check.ts',
    'test/store/entry_check.test.ts',
    ['what an account deleted itself is not kept', "type === 'test_set.deleted' &&", 'false &&'],
    ['what an operator deleted is kept', "facts['key_id'] !== undefined &&", ''],
  ),
  ...inFile('src/store/verify_test_sets.ts', 'test/store/test_sets.test.ts', [
    'a set is deleted by a key of its account',
    "k.account_id::text = c.facts ->> 'account_id'",
    'true',
  ]),
  ...inFile(
    'src/store/verify_projections.ts',
    CATALOGUE,
    ['a server that sees no rows is not believed', '&& rows === 0)', '&& rows < 0)'],
    ['a row that differs is a difference', 'if (differences === 0 && first)', 'if (rows < 0)'],
  ),
  ...inFile(
    'src/store/verify.ts',
    FILE,
    [
      'what witnesses have not signed for a day is a problem',
      'const age = ageOf(unaccepted?.oldest_at);',
      'const age = null;',
    ],
    [
      'what witnesses have not signed is named of a copy and of a file',
      'if (!unaccepted) return [];',
      'return [];',
    ],
  ),
  ...inFile('src/store/signed_notes.ts', FILE, [
    'events behind the newest checkpoint are not sealed',
    'this.#sealed_us = this.#earliest_us;',
    '',
  ]),
  ...inFile('src/store/catalogue_changes.ts', CATALOGUE, [
    'a row has its place and its transaction',
    `x.xmin::text || ' ' || x.ctid::text as mark`,
    `''::text as mark`,
  ]),
  ...inFile(
    'src/store/verify_tree.ts',
    VERIFY,
    [
      'a checkpoint is met by its root',
      'this.now.size === size && this.now.root().equals(root)',
      'this.now.size === size',
    ],
    ['a leaf is compared with its tile', 'if (text.startsWith(leaf, at)) {', 'if (at >= 0) {'],
  ),
  ...inFile(
    'src/store/verify_shape.ts',
    VERIFY,
    [
      'each month has its triggers',
      "for (const line of unguarded(known, found)) problems.add('schema', line);",
      '',
    ],
    ['what the schema lacks is a problem', 'if (!there.has(line))', 'if (line.length === 0)'],
  ),
  ...inFile(
    'src/store/signed_notes.ts',
    VERIFY,
    ['a missing signature is a problem', 'if (unsigned !== null)', "if (unsigned === '')"],
    ['too few cosignatures prove nothing', 'if (problem !== null) return problem;', ''],
  ),
];
