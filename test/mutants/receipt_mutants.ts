/** Mutants of receipts: what they hold, who gets one, and what a check of one must notice. */
import { inFile, type Mutant } from './mutant.ts';

const CHECK = 'test/proof/receipt_check.test.ts';
const HTTP = 'test/http/receipt.test.ts';
const STORE = 'test/store/receipts.test.ts';
const FOLD = 'test/domain/submission_fold.test.ts';

export const receiptMutants: readonly Mutant[] = [
  ...inFile(
    'src/proof/judged_bytes.ts',
    CHECK,
    ['one null text hides no other', 'TEXTS.every((name)', 'TEXTS.some((name)'],
    [
      'base64 has nothing behind it',
      "Buffer.from(text, 'base64').toString('base64') === text;",
      "Buffer.from(text, 'base64').length >= 0;",
    ],
  ),
  ...inFile(
    'src/proof/receipt_check.ts',
    CHECK,
    [
      'an entry must be in the tree',
      'return provesInclusion({ index, size, leaf, proof: proof.hashes, root })',
      'return root.length > 0',
    ],
    ['the proof is for the index of the event', 'proof.index !== index', 'false'],
    ['all proofs lead to one checkpoint', 'proof.checkpoint !== note', 'false'],
    [
      'the policy must accept the checkpoint',
      'if (problem !== null) report.',
      "if (problem === '') report.",
    ],
    [
      'a field that the log does not have is a difference',
      'if (!Object.hasOwn(record, name) || !Object.hasOwn(expected, name)) return true;',
      'if (!Object.hasOwn(record, name) || !Object.hasOwn(expected, name)) return false;',
    ],
    [
      'each field is what the log says',
      'return !sameJson(record[name], expected[name] ?? null);',
      'return false;',
    ],
    [
      'a checkpoint is larger than the index',
      "typeof checkpoint === 'number' && checkpoint > index",
      "typeof checkpoint === 'number'",
    ],
    ['a checkpoint is at most that of the receipt', ' && checkpoint <= size', ''],
    [
      'the place has its index, and no more',
      'fits && sameJson(proof, { index, checkpoint })',
      'fits',
    ],
    ['an opening is of bytes that an event has', '!Object.hasOwn(digests, kind)', 'false'],
    ['a salt has 16 bytes', 'bytes.length !== SALT_BYTES', 'false'],
    [
      'bytes without an opening are not taken for right',
      "if (salt === undefined) return 'the receipt has no opening of it, so it cannot be compared';",
      'if (salt === undefined) return null;',
    ],
    [
      'the digest decides',
      "is_right ? null : 'it is not what the log has the digest of'",
      'is_right ? null : null',
    ],
    ['all outputs may be base64', 'is_base64 ? decoded : text', 'text'],
    [
      'an output is not base64 beside one that is text',
      'problemsIn(decoded) < problemsIn(text)',
      'problemsIn(decoded) > 0',
    ],
  ),
  ...inFile(
    'src/proof/receipt_check.ts',
    CHECK,
    ['without a policy nothing is proven', "has_policy ? 'proven' : 'consistent'", "'proven'"],
    ['a receipt has the end', '!hasEnded(folded.status)', 'false'],
    [
      'bytes without a digest are empty',
      "bytes.length === 0 ? null : 'the log has no bytes of it'",
      'null',
    ],
    ['what was not given is said', 'if (rest.length > 0)', 'if (rest.length > 9)'],
  ),
  ...inFile(
    'src/proof/receipt.ts',
    CHECK,
    ['a receipt has events', '|| events.length === 0', ''],
    ['an index is a number', "typeof index !== 'number' ||", ''],
  ),
  ...inFile(
    'src/domain/submission_fold.ts',
    CHECK,
    ['events are of one stream', 'event.stream !== events[0]!.stream', 'false'],
    ['versions have no holes', 'event.version !== n + 1', 'false'],
    ['an unknown schema is not read', '!isKnown(event.type, event.schema)', 'false'],
    ['an event comes in its statuses only', 'if (status === null)', "if (status === 'none')"],
    [
      'the first schema had one flag for both outputs',
      "stderr_truncated: facts['truncated']",
      'stderr_truncated: false',
    ],
    ['the first schema had milliseconds', 'Number(facts[name]) * 1000', 'Number(facts[name])'],
  ),
  ...inFile(
    'src/domain/submission_fold.ts',
    FOLD,
    [
      'as SQL: who fails from where',
      "{ pending: 'error', running: 'error' }",
      "{ running: 'error' }",
    ],
    ['as SQL: each start counts', 'row.attempts + 1', 'row.attempts'],
    ['as SQL: a failure has a verdict', "verdict: 'IE',", ''],
    [
      'as SQL: a failure has cut output as its facts say',
      "stderr_truncated: facts['stderr_truncated'] === true",
      'stderr_truncated: false',
    ],
  ),
  ...inFile(
    'src/store/receipts.ts',
    HTTP,
    [
      'cosignatures are part of the receipt',
      'cosignedText(note, lines, witnesses)',
      'cosignedText(note, [], witnesses)',
    ],
    [
      'lines that do not verify choose no checkpoint',
      'cosignaturesOf(note, lines, witnesses)?.length ?? -1;',
      'lines.length;',
    ],
    [
      'an event that is not in the tree gets no receipt',
      'if (at >= 0 && at % HASH_BYTES === 0)',
      'if (at > -9)',
    ],
    ['a submission that runs gets no receipt', ' || !hasEnded(status)', ''],
  ),
  ...inFile(
    'src/store/receipts.ts',
    STORE,
    [
      'how a name leads nowhere is in no receipt',
      '!LOOK_ALIKE.includes(JSON.parse(facts).outcome)',
      'true',
    ],
    ['the name of an operator is in no receipt', ' || !JSON.parse(facts).replay', ' || true'],
  ),
  ...inFile(
    'src/http/api/read_receipt.ts',
    HTTP,
    ['without sealing there is a word for it', 'web.config.seal_key === null', 'false'],
    [
      'an unknown parameter is an error',
      'rejectUnknownParameters(new URLSearchParams(exchange.query), [], errors);',
      '',
    ],
  ),
  ...inFile(
    'sql/functions/receipts.sql',
    HTTP,
    [
      'a submission belongs to its account',
      'where s.id = read_receipt.id and s.account_id = who.account_id',
      'where s.id = read_receipt.id',
    ],
    [
      'a receipt does not open the address of a webhook',
      "'{code,stdin,expected_output,args,judging,",
      "'{webhook_url,code,stdin,expected_output,args,judging,",
    ],
    [
      'the checkpoint has all events',
      'where (c.generation, c.to_xid) > (last.generation, last.xid)',
      'where true',
    ],
    [
      'a checkpoint without cosignatures is no better for being newer',
      'order by cardinality(w.lines) desc, c.number desc',
      'order by c.number desc',
    ],
    [
      'the record’s checkpoint is the first that has the end',
      'c.size > proof_of.index order by c.size limit 1',
      'c.size > proof_of.index order by c.size desc limit 1',
    ],
    [
      'an end that was changed has no place',
      'nullif(position(ended.leaf in t.hashes), 0)',
      'position(ended.leaf in t.hashes)',
    ],
  ),
  ...inFile(
    'sql/functions/receipts.sql',
    STORE,
    [
      'the newest events of the log are not read for one submission',
      'where e.stream = read_receipt.id offset 0) e',
      'where e.stream = read_receipt.id) e',
    ],
    ['the leaf has the byte of a leaf', "sha256('\\x00'::bytea", "sha256('\\x01'::bytea"],
  ),
];
