/** Signed notes against the example that Go's documentation publishes, and against notes with one thing wrong. */
import t from 'tap';
import { checkpointText, parseCheckpoint } from '../../src/proof/checkpoint.ts';
import { inclusionText, parseInclusion } from '../../src/proof/inclusion_file.ts';
import { EMPTY_ROOT } from '../../src/proof/merkle.ts';
import {
  BadNote,
  cosignedAt,
  keyText,
  LOG_KEY,
  NoteSigner,
  noteText,
  parseKey,
  parseNote,
  signatureBy,
  WITNESS_KEY,
} from '../../src/proof/note.ts';
import { throwsA } from './throws.ts';

const KEY = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const TEXT =
  "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const LINE =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n';

t.test('a note that another implementation signed', async (t) => {
  const key = parseKey(KEY);
  t.equal(keyText(key), KEY);
  const note = parseNote(`${TEXT}\n${LINE}`);
  t.equal(noteText(note), `${TEXT}\n${LINE}`);
  t.ok(signatureBy(note, key));
  t.equal(signatureBy({ ...note, text: TEXT.replace('answer', 'question') }, key), false);
  const other = new NoteSigner('PeterNeumann', LOG_KEY, Buffer.alloc(32, 7)).verifier;
  t.equal(signatureBy(note, other), null, 'a key of the same name');
});

const ROOT = EMPTY_ROOT;
const text = checkpointText({ origin: 'example.org/log', size: 7, root: ROOT });

t.test('a checkpoint with its log’s signature and a cosignature', async (t) => {
  const log = new NoteSigner('example.org/log', LOG_KEY, Buffer.alloc(32, 1));
  const witness = new NoteSigner('witness.example.org', WITNESS_KEY, Buffer.alloc(32, 2));
  const note = parseNote(
    noteText({ text, signatures: [log.sign(text), witness.sign(text, 1_700_000_000)] }),
  );
  t.same(parseCheckpoint(note.text), { origin: 'example.org/log', size: 7, root: ROOT });
  t.ok(signatureBy(note, log.verifier));
  const cosignature = signatureBy(note, parseKey(keyText(witness.verifier)));
  t.equal(cosignature && cosignedAt(cosignature).getTime(), 1_700_000_000_000);
  const [, cosigned] = note.signatures;
  cosigned!.bytes.writeBigUInt64BE(1_700_000_001n);
  t.equal(signatureBy(note, witness.verifier), false, 'the time is signed');
  t.equal(
    signatureBy({ text, signatures: [{ ...cosigned!, bytes: Buffer.alloc(3) }] }, witness.verifier),
    false,
  );
});

t.test('malformed notes, keys, checkpoints and proofs', async (t) => {
  for (const bad of [
    '',
    'text\n',
    'text\n\n',
    'text\n\nno signature\n',
    `a\tb\n\n${LINE}`,
    `${TEXT}\n${LINE}`.slice(0, -1),
    `${TEXT}\n${LINE.repeat(65)}`,
    `${'x'.repeat(70_000)}\n\n${LINE}`,
  ])
    throwsA(t, BadNote, () => parseNote(bad), JSON.stringify(bad.slice(0, 30)));
  for (const bad of [
    '',
    'a+b',
    KEY.replace('c74f20a3', 'c74f20a4'),
    KEY.replace('+AR', '+BR'),
    `${KEY}=`,
    ` ${KEY}`,
    KEY.replace('PeterNeumann', 'Peter Neumann'),
  ])
    throwsA(t, BadNote, () => parseKey(bad), bad);
  const good = text;
  t.doesNotThrow(() => parseCheckpoint(`${good}a further line\n`));
  for (const bad of [
    '',
    good.slice(0, -1),
    good.replace('7', '07'),
    good.replace('7', '-7'),
    good.replace('\n7', '\n'),
    good.replace('=', ''),
    `${good}\n`,
    good.replace('7', '9007199254740993'),
  ])
    throwsA(t, BadNote, () => parseCheckpoint(bad), JSON.stringify(bad));
  const proof = inclusionText({ index: 3, hashes: [ROOT, ROOT], checkpoint: `${TEXT}\n${LINE}` });
  t.same(parseInclusion(proof), { index: 3, hashes: [ROOT, ROOT], checkpoint: `${TEXT}\n${LINE}` });
  t.equal(parseInclusion(proof.replace('index', 'extra AAAA\nindex')).index, 3);
  for (const bad of [
    '',
    proof.replace('@v1', '@v2'),
    proof.replace('index 3', 'index 03'),
    proof.replace('index 3\n', ''),
    proof.replace(/^(index 3\n.)./m, '$1*'),
  ])
    throwsA(t, BadNote, () => parseInclusion(bad), JSON.stringify(bad.slice(0, 60)));
});
