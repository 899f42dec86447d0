/** The floor of a submission in the database: the same SQL function from pgbench, one submission in each batch. Each client has a key, as ours have. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { secretDigest } from '../../src/access/secret.ts';

type Given = {
  url: string;
  keys: readonly string[];
  clients: number;
  capacity: string;
  seconds: number;
};

/** Submissions a second; null if pgbench is not installed, or if none finished in time. */
export async function pgbenchSubmit(given: Given): Promise<number | null> {
  const { url, keys, clients, capacity, seconds } = given;
  if (!hasPgbench()) return null;
  const folder = mkdtempSync(join(tmpdir(), 'runledger-pgbench-'));
  const script = join(folder, 'submit.sql');
  const digests = keys.map((key) => `'${Buffer.from(secretDigest(key)).toString('hex')}'`);
  writeFileSync(
    script,
    // One that was not accepted is a division by zero.
    `select 1 / count(*) from runledger.submit_many(jsonb_build_array(jsonb_build_object('digest',
      (array[${digests}])[:client_id % ${keys.length} + 1], 'id',
      (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
        || '8' || substr(md5(random()::text), 1, 15))::uuid, 'language', 'python', 'args', '[]'::jsonb, 'compare', 'lenient',
      'limits', '{}'::jsonb, 'request_digest', '00')), array['print(6 * 7)'::bytea], array['1 2'::bytea], array[null::bytea], ${capacity}) where outcome = 'accepted';`.replace(
      /\s+/g,
      ' ',
    ),
  );
  const args = ['-n', '-f', script, '-c', String(clients), '-j', '2', '-T', String(seconds), url];
  const { stdout, stderr } = await promisify(execFile)('pgbench', args);
  rmSync(folder, { recursive: true });
  if (stderr.includes('error')) throw new Error(stderr);
  // pgbench prints no rate if no transaction finished.
  const tps = /tps = ([\d.]+)/.exec(stdout)?.[1];
  return tps === undefined ? null : Number(tps);
}

function hasPgbench(): boolean {
  try {
    execFileSync('pgbench', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
