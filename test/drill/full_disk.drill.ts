/** A disk that is full: of web, of a worker, of the database. Nothing that was answered is lost, and each recovers. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { call } from '../http/support/call.ts';
import { zipOf } from '../judging/zip_writer.ts';
import { eventually } from '../support/eventually.ts';
import type { Drill, Stage } from './drill.ts';
import {
  CPP,
  copyOfTree,
  judges,
  judgesOne,
  MOUNTS,
  needsRoot,
  noTrace,
  PYTHON,
  resultOf,
  seenBy,
  startTrial,
  type Trial,
  unshared,
} from './trial.ts';

type Disk = { trial: Trial; state: string; fill(): Promise<void>; free(): Promise<void> };

/** The service with a small disk of its own for a folder. */
async function onSmallDisk(stage: Stage, folder: string, size: string): Promise<Disk> {
  needsRoot('mount');
  const tree = await copyOfTree(stage);
  const state = join(stage.folder, 'state');
  await rm(state, { recursive: true, force: true });
  const disk = join(state, folder);
  mkdirSync(disk, { recursive: true, mode: 0o700 });
  const mount = `mount -t tmpfs -o size=${size},mode=0700 tmpfs "${disk}" && mkdir -p "${disk}/tmp" || exit`;
  const trial = await startTrial(stage, tree, {
    within: unshared(MOUNTS, mount),
    env: { RUNLEDGER_STATE_DIR: state, TMPDIR: join(disk, 'tmp') },
  });
  const ballast = seenBy(trial, join(disk, 'ballast'));
  return {
    ...{ trial, state },
    fill: () => fill(ballast),
    free: () => rm(ballast, { force: true }),
  };
}

/** To the last byte. */
async function fill(path: string): Promise<void> {
  const file = await open(path, 'a');
  const piece = Buffer.alloc(64 * 1024);
  for (let bytes = piece.length; bytes >= 1; ) {
    const written = await file.write(piece, 0, bytes).then(
      ({ bytesWritten }) => bytesWritten,
      (error: NodeJS.ErrnoException) => {
        assert.equal(error.code, 'ENOSPC');
        return 0;
      },
    );
    if (written === 0) bytes = Math.floor(bytes / 2);
  }
  await file.close();
}

const WEB: Drill = {
  shows: "web's disk is full: an upload is a 503 with Retry-After, the rest works, and it recovers",
  async run(stage) {
    const { trial, ...disk } = await onSmallDisk(stage, 'uploads', '16m');
    const upload = (name: string) =>
      call(trial.origin, {
        path: '/api/test-sets',
        key: trial.key,
        headers: { 'content-type': 'application/zip' },
        body: zipOf([
          { name: `${name}.in`, data: name.repeat(100_000) },
          { name: `${name}.ans`, data: '1\n' },
        ]),
      });
    const first = await upload('a');
    assert.equal(first.status, 201, first.text);
    await disk.fill();
    const refused = await upload('b');
    assert.equal(refused.status, 503, refused.text);
    assert.ok(Number(refused.headers['retry-after']) > 0, 'Retry-After');
    await judges(trial);
    await disk.free();
    const again = await upload('b');
    assert.equal(again.status, 201, again.text);
    const kept = await trial.ask({ path: new URL(first.headers.location!, trial.origin).pathname });
    assert.equal(kept.status, 200, 'what was stored before is there');
    await end(stage, trial);
  },
};

/** Its program takes 4 MB. */
const LARGE = { ...CPP, code: `${CPP.code}\nint large[1 << 20] = {1};\n` };

const WORKER: Drill = {
  shows:
    "a worker's disk is full: programs get the same verdicts as before, or wait until there is room",
  async run(stage) {
    const { trial, ...disk } = await onSmallDisk(stage, 'compiled', '400m');
    await judges(trial);
    await disk.fill();
    await stage.step('verdicts on a full disk', async () => {
      await judges(trial);
      await judgesOne(trial, { ...PYTHON, code: `${PYTHON.code}\n# never seen\n` });
    });
    const { verdict, stdout, ...body } = LARGE;
    const { status, json, text } = await trial.ask({ path: '/api/submit', body });
    assert.equal(status, 202, text);
    const path = `/api/result/${json.id}`;
    const said = () => trial.lines.some((line) => line.includes('this worker has no room'));
    assert.ok(await eventually(said), 'the log says so');
    assert.match((await trial.ask({ path })).text, /"status":"(pending|running)"/);
    await judgesOne(trial, PYTHON);
    await disk.free();
    await stage.step('the one that waited', async () => {
      const { json: ended, text } = await resultOf(trial, json.id);
      assert.deepEqual([ended.verdict, ended.stdout], [verdict, stdout], text);
    });
    await judges(trial);
    await end(stage, trial);
  },
};

const DATABASE: Drill = {
  shows: "the database's disk is full: 503 with Retry-After, nothing answered is lost, it recovers",
  async run(stage) {
    const { trial, ...disk } = await onSmallDisk(stage, '.', '500m');
    await judges(trial);
    const accepted: string[] = [];
    /** Large, so that it needs pages that are not there. */
    const submit = async (n: number) => {
      const code = `print(${n})\n# ${Buffer.alloc(200_000).map((_, at) => 48 + ((at * n) % 75))}`;
      const body = { language: 'python', code: code.slice(0, 60_000) };
      const reply = await trial.ask({ path: '/api/submit', body });
      if (reply.status === 202) accepted.push(reply.json.id);
      return reply;
    };
    for (let n = 0; n < 5; n += 1) assert.equal((await submit(n)).status, 202);
    await disk.fill();
    let refused = 0;
    for (let n = 10; n < 2_000 && refused < 20; n += 1) {
      const reply = await submit(n);
      if (reply.status === 202) continue;
      assert.equal(reply.status, 503, reply.text);
      assert.ok(Number(reply.headers['retry-after']) > 0, 'Retry-After');
      if (refused === 0) stage.say(`${accepted.length} accepted, then: ${reply.json.message}`);
      refused += 1;
      await wait(200);
    }
    assert.equal(refused, 20, 'the disk was never full');
    const ready = await trial.ask({ path: '/readyz' });
    assert.equal(ready.status, 503, ready.text);
    stage.say(`/readyz: ${ready.text}`);
    await disk.free();
    await stage.step('accepted again', async () => {
      while ((await submit(5_000)).status !== 202) await wait(200);
    });
    for (const id of accepted) {
      const { json, text } = await resultOf(trial, id);
      assert.equal(json.verdict, 'AC', text);
    }
    await judges(trial);
    await end(stage, trial);
  },
};

async function end(stage: Stage, trial: Trial): Promise<void> {
  const { status, output } = await trial.command('verify');
  assert.equal(status, 0, output);
  noTrace(output.split('\n'));
  await stage.step('stop', () => trial.stop());
}

export const drills: Readonly<Record<string, Drill>> = {
  'full-disk-web': WEB,
  'full-disk-worker': WORKER,
  'full-disk-database': DATABASE,
};
