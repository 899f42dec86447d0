/** Small faults in sealing, retention and repair. */
import { inFile, type Mutant } from './mutant.ts';

const SEALING = 'test/store/checkpoints.test.ts';
const ENTRIES = 'test/store/entries.test.ts';
const AHEAD = `${SEALING} after a clock that ran ahead`;
const RETENTION = 'test/store/retention.test.ts';
const SCHEDULED = 'test/queue/retention_chore.test.ts';

export const sealMutants: readonly Mutant[] = [
  ...inFile('src/store/checkpoints.ts', AHEAD, [
    'a new name waits for the time of the last checkpoint, too',
    'const before = last?.sealed_at.getTime() ?? 0;',
    'const before = 0;',
  ]),
  ...inFile('src/store/repair.ts', AHEAD, [
    'a repair makes no checkpoint before the last one',
    'if (last.origin !== key.origin) await checkClock(owner, last);',
    '',
  ]),
  ...inFile(
    'src/store/checkpoints.ts',
    SEALING,
    [
      'nothing is signed on top of a note that is not ours',
      'if (same && isOurs(key, note)) return;',
      'if (same) return;',
    ],
    [
      'the note is of the checkpoint that is built on',
      'if (same && isOurs(key, note)) return;',
      'if (isOurs(key, note)) return;',
    ],
    [
      'the tiles give the root that was signed',
      'if (!root?.equals(last.root))',
      'if (root === undefined)',
    ],
    [
      'the sketch is the one that we signed',
      '!isSketchOf(verifierKeys(key), last, sketch.cells, sketch.signature)',
      'sketch.cells.length === 0',
    ],
    ['sealing ends on a busy service', '    if (complete) return done;\n', ''],
    [
      'a process remembers what it saw',
      'if (before) await checkExtends(db, before, start.last);',
      '',
    ],
    [
      'a smaller tree is not extended',
      'if (!last || last.size < seen.size) throw',
      'if (!last) throw',
    ],
    [
      'a larger tree is extended only by a proof',
      'if (!provesConsistency({ ...claim, proof })) throw',
      'if (proof === null) throw',
    ],
    [
      'a process that was stopped signs nothing',
      'if (stopped !== null) throw new CannotSeal(stopped);',
      '',
    ],
    [
      'nothing is sealed without a key',
      'if (!key) throw new CannotSeal(NO_KEY);',
      'if (!key) return { last: null, edge: [], sketch: emptySketch() };',
    ],
    ['the second of two processes gives way', "if (error.code === 'RL409') return null;", ''],
  ),
  ...inFile('src/store/growth.ts', SEALING, [
    'a tile has the place of its first leaf',
    'this.#begin(placeOf(entry));',
    "this.#begin({ generation: 1, xid: '1', seq: '1' });",
  ]),
  ...inFile('src/proof/log_key.ts', SEALING, [
    'an earlier key counts only if it is named',
    '  ...before.filter(',
    '  ...[].filter(',
  ]),
  ...inFile(
    'sql/functions/seal.sql',
    SEALING,
    [
      'a checkpoint has no more cosignatures than a note',
      's.size = c.size) < 63',
      's.size = c.size) < 64',
    ],
    [
      'sealing stops below the oldest running transaction',
      ', pg_snapshot_xmin(pg_current_snapshot()))',
      ', pg_snapshot_xmax(pg_current_snapshot()))',
    ],
    [
      'a window ends with a transaction',
      'to_xid := coalesce(cut, upper_xid);',
      'to_xid := upper_xid;',
    ],
    [
      'a window that was cut is not the last',
      'complete := cut is null and generation = newest;',
      'complete := generation = newest;',
    ],
    [
      'an earlier generation is not the last',
      'complete := cut is null and generation = newest;',
      'complete := cut is null;',
    ],
    [
      'a window has all events of one transaction',
      'to_xid := (cut::text::numeric + 1)',
      'to_xid := (from_xid::text::numeric + 1)',
    ],
    [
      'a cosignature is of its own checkpoint',
      'from checkpoints c where c.origin = put_cosignature.origin and c.size = put_cosignature.size',
      'from checkpoints c where c.origin = put_cosignature.origin',
    ],
  ),
  ...inFile(
    'src/store/repair.ts',
    SEALING,
    ['a repair goes on only from the same root', '  if (!same)\n', '  if (same === null)\n'],
    ['a name is used once', '  if (used)', '  if (used === null)'],
    [
      'the triggers hold again after a repair',
      'enable always trigger only_grow;',
      'disable trigger only_grow;',
    ],
  ),
  ...inFile('src/store/repair.ts', RETENTION, [
    'detached leaves stay in the tree',
    'await gaps.fill(grown, after, store);',
    '',
  ]),
  ...inFile(
    'src/store/retention.ts',
    RETENTION,
    [
      'a gap has the indexes of its leaves',
      'const index = this.#next++;',
      'const index = ++this.#next;',
    ],
    ['a month is read to its end', 'full = page.length === page_events;', 'full = false;'],
  ),
  ...inFile(
    'sql/functions/retention.sql',
    RETENTION,
    [
      'no event of another month is detached',
      'e.stream < $1 or e.stream >= $2',
      'e.stream < $1 and e.stream >= $2',
    ],
    [
      'only what is sealed is detached',
      "limit 1), '0'::xid8));",
      "limit 1), '0'::xid8)) and n > 0;",
    ],
    [
      'a purge ends before what is still to come',
      'and (s.id < to_come.id) is not false\n',
      'and s.id is distinct from to_come.id\n',
    ],
    ['what is still to come is not passed over', 'if to_come.id is not null then', 'if false then'],
    ['a purge names its last id', "'last_id', last_id,", "'last_id', after,"],
    [
      'a purge takes what no other one took',
      'is_purged_by(s, ended_before) and exists (select from payloads p where p.stream = s.id);',
      'is_purged_by(s, ended_before);',
    ],
    [
      'a delivery that waits keeps what is to be forgotten',
      "and not exists (select from deliveries d where d.id = s.id and d.status = 'waiting') as ended",
      'as ended',
    ],
  ),
  ...inFile(
    'sql/functions/scheduled_retention.sql',
    SCHEDULED,
    ['the schedule bounds what web purges', 'where ended_before <= clock() - r.keep_bytes', ''],
    ['the schedule bounds what web detaches', 'due.month is distinct from detach_due.month or', ''],
    [
      'a schedule that is older than its event gets one',
      'if found or facts is distinct',
      'if found or false and facts is distinct',
    ],
    ['without a checkpoint nothing is removed', 'lag.checkpoint_age_s is null', 'false'],
    ['what is not sealed is not removed', 'lag.unsealed_s > 86400', 'false'],
    [
      'a round is for one process',
      "r.began_at > clock() - interval '1 hour' and",
      "r.began_at > clock() + interval '1 hour' and",
    ],
    [
      'a round of a time to come stops none',
      " and r.began_at < clock() + interval '1 hour') is not true",
      ') is not true',
    ],
    ['a month that is read holds nothing up', "set lock_timeout = '500ms'\n", ''],
    [
      'web says nothing else of a month',
      "jsonb_build_object('scheduled', true,",
      "facts || jsonb_build_object('scheduled', true,",
    ],
  ),
  ...inFile('sql/functions/submit_many.sql', 'test/store/submissions.test.ts', [
    'an id is not far ahead',
    "clock_timestamp()) + interval '1 day'",
    "clock_timestamp()) + interval '2 days'",
  ]),
  ...inFile('src/store/retention.ts', 'test/store/test_sets.test.ts', [
    'the test sets that are left are counted',
    'sum.test_sets_left = left!.n;',
    '',
  ]),
  ...inFile('sql/functions/submit_many.sql', RETENTION, [
    'no rerun is made of what was forgotten',
    'if not found or not exists (',
    'if false and not exists (',
  ]),
  ...inFile('src/queue/sealing.ts', SCHEDULED, [
    'retention asks whether the log may be sealed now',
    'await sealer.check(db);',
    '',
  ]),
  ...inFile('src/store/reruns.ts', 'test/cli/rerun.test.ts', [
    'a rerun is judged as its original was',
    "const packed = bytes.get('judging');",
    'const packed = undefined;',
  ]),
  ...inFile(
    'src/store/reruns.ts',
    'test/cli/rerun.test.ts',
    [
      'the request names the new test set',
      'by_set === null ? packed : packedWith(packed, by_set)',
      'packed',
    ],
    [
      'only submissions of the old test set are judged again',
      'or s.test_set = ',
      'or true or s.test_set = ',
    ],
    ['an account is judged by its own test sets', ' and t.account_id = s.account_id)', ')'],
  ),
  ...inFile('src/cli/rerun_all.ts', 'test/cli/rerun.test.ts', [
    'with another test set, what a program prints does not count',
    'options.by_set === null ? ASPECTS',
    'true ? ASPECTS',
  ]),
  ...inFile(
    'src/queue/retention_chore.ts',
    SCHEDULED,
    ['a process that may not seal removes nothing', '(sealing === null', '(true'],
    ['health does not say what an error was', 'return FAILED;', 'return (error as Error).message;'],
  ),
  ...inFile(
    'src/store/entries.ts',
    ENTRIES,
    [
      'a COPY that stopped early is an error',
      "if (this.#state !== 'ended' || this.#length > 0)",
      "if (this.#state === 'header')",
    ],
    [
      'only a binary COPY is read',
      'if (!bytes.subarray(0, SIGNATURE.length).equals(SIGNATURE))',
      'if (bytes.length === 0)',
    ],
    ['a tuple may end in another chunk', 'if (end > bytes.length) break;', ''],
    [
      'only uuids get into the text of a COPY',
      '[0-9a-f]{12}$/i.test(value)',
      '[0-9a-f]{12}$/i.test(value) && false',
    ],
  ),
];
