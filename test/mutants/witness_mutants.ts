/** Mutants of witnesses: what one cosigns, what it keeps, and what web concludes from its answers. */
import { inFile, type Mutant } from './mutant.ts';

export const witnessMutants: readonly Mutant[] = [
  ...inFile(
    'src/config/parsers.ts',
    'test/config/config.test.ts',
    ['the key of a log is no witness', 'key.type === WITNESS_KEY ?', 'key ?'],
    [
      'the address of a witness has no secret',
      'url.username || url.password || url.search || url.hash',
      'url.search || url.hash',
    ],
    [
      'a key is named once',
      "new Set(all.map(({ key }) => key.public_key.toString('hex'))).size === all.length",
      'all.length > 0',
    ],
  ),
  ...inFile(
    'src/proof/addition.ts',
    'test/witness/conformance.test.ts',
    ['an unknown origin is 404', 'if (own.length === 0)', 'if (false)'],
    [
      'a signature that does not verify spoils the note',
      'signed.includes(false) || signed.every((each) => each === null)',
      'signed.every((each) => !each)',
    ],
    [
      'one signature of the log is needed',
      'signed.includes(false) || signed.every((each) => each === null)',
      'signed.includes(false)',
    ],
    ['the old size is not over the new one', 'old_size > checkpoint.size', 'false'],
    ['the old size is the one that was cosigned', 'old_size !== last.size', 'false'],
    [
      'another tree of the same size is a conflict',
      'checkpoint.size === last.size && !checkpoint.root.equals(last.root)',
      'false',
    ],
    [
      'the proof must verify',
      '!provesConsistency({ old_size, old_root: last.root, size, root, proof })',
      'false',
    ],
    ['a proof has at most 63 hashes', 'proof.length > MOST_HASHES || ', ''],
    ['a request is UTF-8', 'fatal: true', 'fatal: false'],
    ['a byte order mark is no part of a request', 'ignoreBOM: true', 'ignoreBOM: false'],
  ),
  ...inFile(
    'src/witness/witness_server.ts',
    'test/witness/conformance.test.ts',
    [
      'requests of an origin are decided one at a time',
      'return inTurn(addition.checkpoint.origin, async () => (isGone() ? null : decide(addition)));',
      'return decide(addition);',
    ],
    ['a body is bounded', 'if (bytes > MOST_ADDITION_BYTES) return null;', ''],
    ['the answer 409 has its type', 'type: SIZE_TYPE, body', 'body'],
  ),
  ...inFile(
    'src/witness/witness_server.ts',
    'test/witness/witness_folder.test.ts',
    [
      'a note is stored before the cosignature is sent',
      'await folder.put(origin',
      'void folder.put(origin',
    ],
    ['a tree is written once', 'if (!kept || !isTree(kept, checkpoint))', 'if (true)'],
    [
      'a write that failed is no write',
      'stored.delete(origin);',
      'stored.set(origin, checkpoint);',
    ],
    ['a request that is gone loses its turn', 'isGone() ? null : decide', 'decide'],
    ['a connection has one request in line', 'if (in_line.has(socket)) return ONE_AT_A_TIME;', ''],
  ),
  ...inFile('src/witness/witness_server.ts', 'test/_first/witness_kills.test.ts', [
    'the answer waits until the note is on disk',
    'await folder.put(origin, cosigned);',
    'setTimeout(() => void folder.put(origin, cosigned), 3);',
  ]),
  ...inFile(
    'src/witness/witness_folder.ts',
    'test/witness/witness_folder.test.ts',
    ['one process uses a folder', "lock.exec('begin exclusive');", ''],
    [
      'a note must have the cosignature of the witness',
      'if (signatureBy(note, this.signer.verifier)) return',
      'return',
    ],
    [
      'the file of an origin has a note of this origin',
      'if (checkpoint.origin !== origin) throw this.#damaged(fileOf(origin));',
      '',
    ],
    ['a note is on disk before it has its name', 'await handle.sync();', ''],
    ['its name waits for its bytes', 'await handle.sync();', 'void handle.sync();'],
    ['its name is on disk', 'await folderHandle.sync();', ''],
    ['the answer waits for its name', 'await folderHandle.sync();', 'void folderHandle.sync();'],
    ['only the owner reads the files', "open(made, 'w', 0o600)", "open(made, 'w', 0o644)"],
    ['a key keeps its name', 'if (name !== null && name !== own)', 'if (false)'],
  ),
  ...inFile(
    'src/queue/cosign.ts',
    ['test/queue/cosigning.test.ts', 'test/queue/forked_log.test.ts'],
    [
      'the signature of the answer is checked',
      'if (!cosignature) return failed',
      'if (false) return failed',
    ],
    [
      'a larger tree that is not ours is a fork',
      'if (size > checkpoint.size) return await larger(asked, size);',
      "if (size > checkpoint.size) return { kind: 'outrun' };",
    ],
    [
      'a tree that another process signed is no fork',
      "if (newest?.origin === checkpoint.origin && newest.size >= size) return { kind: 'outrun' };",
      '',
    ],
    ['422 is a fork', 'return forked(`does not begin', 'return failed(`does not begin'],
    ['a 409 for equal sizes is a fork', 'return size === checkpoint.size', 'return size < 0'],
    ['a witness that has gone back is not led on', 'if (lost !== null) return failed(lost);', ''],
    [
      'what it cosigned while it was asked does not count',
      'wentBack(last,',
      'wentBack(await readLastCosigned(asked.db, checkpoint.origin, asked.key),',
    ],
    [
      'damaged tiles are no fork',
      'if (!tiles.rootOf(now).equals(root) || !provesConsistency(claim))',
      'if (provesConsistency(claim) === null)',
    ],
    [
      'a 409 has its type',
      'answer.type === SIZE_TYPE ? parseSize(answer.body) : null',
      'parseSize(answer.body)',
    ],
    ['the clock of a witness is not far ahead', 'if (wrong !== null) return failed(wrong);', ''],
  ),
  ...inFile(
    'src/queue/cosigning.ts',
    ['test/queue/cosigning.test.ts', 'test/queue/forked_log.test.ts'],
    ['a fork stops sealing', 'sealer.stop(fork ? forkReason(fork) : null);', 'sealer.stop(null);'],
    ['a start asks every witness', 'if (asked && cosigned?.behind', 'if (cosigned?.behind'],
    ['a cause that is gone is not named', 'failed = false;\n        onChange();', 'onChange();'],
    ['a failure takes no fork back', "if (outcome.kind === 'failed' && state.forked) return;", ''],
    ['a witness that fails is not asked at once', 'performance.now() < next_ms', 'false'],
    ['each pause is longer than the one before', 'Math.max(pause_ms * 2, every_ms)', 'every_ms'],
  ),
  ...inFile(
    'src/witness/ask_witness.ts',
    'test/queue/cosigning.test.ts',
    ['an answer is bounded', 'if (bytes > MOST_ANSWER_BYTES)', 'if (bytes > 2 ** 40)'],
    ['redirects are not followed', "redirect: 'manual'", "redirect: 'follow'"],
  ),
];
