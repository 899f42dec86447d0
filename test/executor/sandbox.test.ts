import { existsSync, readdirSync, readFileSync, readlinkSync, truncateSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Unsendable } from '../../src/executor/launcher_wire.ts';
import { type Peek, SandboxFault } from '../../src/executor/sandbox.ts';
import { LIMITS, MiB, python, request, said, shell, text, withSandbox } from './box.ts';
import { saysWhyItCannotRun } from './no_program.ts';

const { sandbox, store, close } = await withSandbox();
t.teardown(close);

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => null,
    (error: unknown) => error,
  );

t.test('what a program says, and how it ends', async (t) => {
  const report = await sandbox.run(
    shell('read line; echo "$line and $LANG"; echo woe >&2; exit 3', { stdin: 'hello\n' }),
  );
  t.match(report, {
    exit_code: 3,
    signal: null,
    killed_for: null,
    limit_at_us: null,
    oom_kills: 0,
  });
  t.equal(text(report.stdout), 'hello and C.UTF-8\n');
  t.equal(text(report.stderr), 'woe\n');
  t.equal(report.stdout_seen_bytes, 18);
  t.match(await sandbox.run(shell('kill -SEGV $$')), {
    exit_code: null,
    signal: 11,
    killed_for: null,
  });
});

t.test('of standard error, the first bytes are kept, and of the others the last', async (t) => {
  const END = 64 * 1024;
  const cases = [
    [100, END],
    [100, 999],
    [3_000, 0],
    [4_000, END],
    [20_000, END],
    [20_000, 999],
  ] as const;
  for (const [count, stderr_bytes] of cases) {
    const all = Array.from({ length: count }, (_, n) => `line ${n} of many\n`).join('');
    const source = `import sys\nfor n in range(${count}): sys.stderr.write('line %d of many\\n' % n)`;
    const report = await sandbox.run(python(source, { limits: { stderr_bytes } }));
    const { stderr_end = new Uint8Array() } = report;
    t.equal(report.stderr_seen_bytes, all.length);
    t.equal(text(report.stderr), all.slice(0, stderr_bytes));
    t.equal(text(stderr_end), all.slice(stderr_bytes).slice(-END), `${count}, ${stderr_bytes}`);
  }
  const little = await sandbox.run(shell('echo woe >&2'));
  t.notOk('stderr_end' in little, 'nothing of a run before it');
});

t.test('a run whose output cannot be kept says nothing about its program', async (t) => {
  const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0 });
  t.teardown(close);
  const folder = `/proc/${sandbox.isolation.pid}/fd`;
  const output = readdirSync(folder)
    .map((name) => join(folder, name))
    .find((path) => readlinkSync(path).startsWith('/memfd:output'));
  // Now the kernel cannot write there.
  truncateSync(output!, 0);
  for (const script of ['echo fine', 'echo fine >&2'])
    t.match(await rejection(sandbox.run(shell(`${script}; sleep 1`))), { kind: 'out_of_memory' });
});

t.test('a signal to the process group of the worker does not reach the launcher', async (t) => {
  const { pid } = sandbox.isolation;
  const [, , group] = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/.*\) /, '').split(' ');
  t.equal(Number(group), pid);
});

t.test('input longer than a pipe holds, and input that nobody reads', async (t) => {
  const input = Buffer.alloc(3 * MiB, 'abcdefgh\n');
  t.equal(said(await sandbox.run(shell('wc -c', { stdin: input }))), `${input.length}`);
  t.match(await sandbox.run(request(['/bin/true'], { stdin: input })), { exit_code: 0 });
});

t.test('files, their modes, the working directory and the environment', async (t) => {
  const files = [
    { path: 'a/b/c.txt', bytes: Buffer.from('deep') },
    { path: 'plain', bytes: new Uint8Array(0), mode: 0o600 },
  ];
  const script = 'cat /box/a/b/c.txt; stat -c " %a %U %s" /box/plain; pwd; touch new && env | sort';
  const report = await sandbox.run(shell(script, { files, cwd: '/box/a', env: { A: '1' } }));
  t.equal(text(report.stderr), '');
  t.equal(said(report), 'deep 600 runner 0\n/box/a\nA=1\nPWD=/box/a');
});

t.test('a program has the priority of its worker, and not that of the launcher', async (t) => {
  t.equal(said(await sandbox.run(shell('nice'))), `${getPriority()}`);
});

t.test('each limit ends its program, and says so', async (t) => {
  const limits = { cpu_ms: 150, wall_ms: 60_000 };
  const spin = await sandbox.run(shell('while :; do :; done', { limits }));
  t.match(spin, { killed_for: 'cpu', exit_code: null, signal: 9 });
  t.ok(spin.cpu_us >= 150_000 && spin.cpu_us < 1_000_000, `${spin.cpu_us}`);
  const sleep = await sandbox.run(shell('sleep 60', { limits: { wall_ms: 100 } }));
  t.match(sleep, { killed_for: 'wall', signal: 9 });
  t.ok(sleep.wall_us >= 100_000 && sleep.wall_us < 30_000_000, `${sleep.wall_us}`);
  const flood = await sandbox.run(
    shell('exec cat /dev/zero', { limits: { stdout_bytes: 10_000 } }),
  );
  t.match(flood, { killed_for: 'output', signal: 9 });
  t.equal(flood.stdout.length, 10_000);
  t.ok(flood.stdout_seen_bytes > 10_000);
  const noisy = await sandbox.run(
    shell('head -c 3000000 /dev/zero >&2; echo fine', { limits: { stderr_bytes: 1_000 } }),
  );
  t.match(noisy, { killed_for: null, exit_code: 0, stderr_seen_bytes: 3_000_000 });
  t.equal(noisy.stderr.length, 1_000);
  const eater = await sandbox.run(
    python('x = bytearray(400 << 20)', { limits: { memory_bytes: 64 * MiB } }),
  );
  t.match(eater, { signal: 9, killed_for: null });
  t.ok(eater.oom_kills >= 1);
  t.ok(Math.abs(eater.memory_peak_bytes - 64 * MiB) < 3 * MiB, `${eater.memory_peak_bytes}`);
});

t.test('processes, disk, inodes, descriptors: refused to the program, and it lives', async (t) => {
  const forks = await sandbox.run(
    python(
      'import os\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: os.read(0, 1) or os._exit(0)\n    n += 1\nexcept OSError as e: print(n, e.errno)',
      { limits: { processes: 10 }, stdin: '' },
    ),
  );
  t.equal(said(forks), '9 11');
  t.ok(forks.pids_limit_hits >= 1);
  const disk = await sandbox.run(
    shell('head -c 9000000 /dev/zero > f; stat -c %s f', { limits: { disk_bytes: 4 * MiB } }),
  );
  t.equal(said(disk), `${4 * MiB}`);
  const inodes = await sandbox.run(
    shell('i=0; while : > /tmp/$i; do i=$((i+1)); done; echo $i', { limits: { inodes: 50 } }),
  );
  t.match(inodes, { exit_code: 2 });
  t.match(text(inodes.stderr), /\/tmp\/50/);
  const files = await sandbox.run(
    python('import os\nn=0\ntry:\n  while True: os.dup(0); n+=1\nexcept OSError: print(n)'),
  );
  t.ok(Number(said(files)) <= LIMITS.files - 3);
});

t.test('orphans die with the run, and cost it', async (t) => {
  const started = process.hrtime.bigint();
  const report = await sandbox.run(
    shell('(trap "" TERM HUP; sleep 600) & (setsid sleep 600 >/dev/null) & echo out', {
      limits: { wall_ms: 300_000 },
    }),
  );
  t.match(report, { exit_code: 0 });
  t.equal(said(report), 'out');
  t.ok(Number(process.hrtime.bigint() - started) < 120e9);
});

t.test('artefacts: saved on success, loaded read-only, regular files only', async (t) => {
  const save = { key: 'acc.k1', paths: ['bin/prog', 'dir'], max_bytes: MiB, max_files: 10 };
  const script =
    'mkdir -p bin dir/sub; printf "#!/bin/sh\\necho ran\\n" > bin/prog; chmod 755 bin/prog; echo x > dir/sub/x; ' +
    'ln -s /etc/passwd dir/link; echo h > dir/h; ln dir/h dir/h2; mkfifo dir/fifo';
  const made = await sandbox.run(shell(script, { save }));
  t.match(made, { exit_code: 0, saved: { files: 2 } });
  t.same(readdirSync(join(store, 'acc.k1/dir')).sort(), ['sub']);
  t.equal(readFileSync(join(store, 'acc.k1/dir/sub/x'), 'utf8'), 'x\n');
  const load = [{ key: 'acc.k1', at: '/box/got' }];
  const ran = await sandbox.run(shell('/box/got/bin/prog; echo >> /box/got/bin/prog', { load }));
  t.equal(said(ran), 'ran');
  t.match(text(ran.stderr), /Read-only file system|Permission denied/);
  t.match(
    await sandbox.run(request(['/load/bin/prog'], { load: [{ key: 'acc.k1', at: '/load' }] })),
    {
      exit_code: 0,
    },
  );
  const failed = await sandbox.run(
    shell('echo > out; exit 1', { save: { ...save, key: 'k2', paths: ['out'] } }),
  );
  t.equal(failed.saved, undefined);
  t.notOk(existsSync(join(store, 'k2')));
  const refused = async (script: string, part: object) => {
    const report = await sandbox.run(
      shell(script, { save: { ...save, key: 'k3', paths: ['out'], ...part } }),
    );
    t.equal(report.saved, undefined);
    t.type(report.save_refused, 'string');
  };
  await refused('true', {});
  await refused('ln -s /etc/passwd out', {});
  await refused('mkdir d; ln -s d out', { paths: ['out/x'] });
  await refused('head -c 2000 /dev/zero > out', { max_bytes: 1_999 });
  await refused('mkdir out; touch out/1 out/2 out/3', { max_files: 3 });
  t.same(readdirSync(store), ['acc.k1']);
  const missing = await rejection(
    sandbox.run(shell('true', { load: [{ key: 'none', at: '/load' }] })),
  );
  t.match(missing, { kind: 'missing', message: /artefact/ });
});

t.test('more runs than slots: all are answered, each with its own answer', async (t) => {
  const runs = Array.from({ length: 40 }, (_, i) => sandbox.run(shell(`echo ${i}`)));
  const answers = (await Promise.all(runs)).map(said);
  t.same(
    answers,
    Array.from({ length: 40 }, (_, i) => `${i}`),
  );
});

t.test('a request that cannot be obeyed is a fault, and harms nobody', async (t) => {
  t.match(await rejection(sandbox.run(request(['/no/such/program']))), {
    kind: 'rejected',
    message: /No such file/,
  });
  t.match(await rejection(sandbox.run(request(['relative']))), {
    kind: 'rejected',
    message: /absolute/,
  });
  t.match(await rejection(sandbox.run(shell('true', { profile: 'other' }))), {
    message: /no profile/,
  });
  t.match(
    await rejection(sandbox.run(shell('true', { files: [{ path: '../x', bytes: Buffer.of() }] }))),
    {
      kind: 'rejected',
    },
  );
  t.match(
    await rejection(
      sandbox.run(
        shell('true', {
          limits: { disk_bytes: 4096 },
          files: [{ path: 'x', bytes: Buffer.alloc(MiB) }],
        }),
      ),
    ),
    {
      kind: 'rejected',
      message: /write the file x/,
    },
  );
  t.ok((await rejection(sandbox.run(shell('a\0b')))) instanceof Unsendable);
  t.match(await sandbox.run(shell('exit 4')), { exit_code: 4 });
});

t.test('cancelling: before it has a slot, and while it runs', async (t) => {
  const running = new AbortController();
  const blockers = Array.from({ length: 4 }, () =>
    sandbox.run(shell('sleep 60'), { signal: running.signal }),
  );
  const ends = Promise.all(blockers.map(rejection));
  const early = new AbortController();
  const late = rejection(sandbox.run(shell('true'), { signal: early.signal }));
  early.abort('changed my mind');
  t.match(await late, { kind: 'cancelled', cause: 'changed my mind' });
  running.abort();
  for (const end of await ends) t.match(end, SandboxFault, 'cancelled');
  t.match(await rejection(sandbox.run(shell('true'), { signal: AbortSignal.abort() })), {
    kind: 'cancelled',
  });
  t.match(await sandbox.run(shell('exit 5')), { exit_code: 5 });
});

t.test('a box that stays open', async (t) => {
  const stream = await sandbox.open(
    python(
      'import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)\nprint("bye", flush=True)\nsys.exit(6)',
    ),
  );
  const lines: string[] = [];
  const heard = (count: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (lines.join('').split('\n').length <= count) return;
        stream.off('data', add);
        resolve();
      };
      const add = (chunk: Buffer) => {
        lines.push(chunk.toString());
        look();
      };
      stream.on('data', add);
      look();
    });
  stream.write('abc\n');
  await heard(1);
  const usage = await stream.usage();
  t.ok(
    usage !== null && usage.cpu_us > 1_000 && usage.memory_bytes > 100_000,
    'its usage can be read while it runs',
  );
  stream.end('def\n');
  await heard(3);
  t.equal(lines.join(''), 'cba\nfed\nbye\n');
  t.match(await stream.ended, { exit_code: 6, killed_for: null });
  t.equal(await stream.usage(), null);
  const other = await sandbox.open(shell('cat'));
  other.kill();
  t.match(await other.ended, { killed_for: 'cancelled', signal: 9 });
});

t.test('what a program has written can be read while it runs, and only then', async (t) => {
  let peek!: Peek;
  const cancelling = new AbortController();
  const running = rejection(
    sandbox.run(shell('printf abcdef; printf oops >&2; sleep 60'), {
      signal: cancelling.signal,
      onRun: (given) => {
        peek = given;
      },
    }),
  );
  const texts = async (stdout: number, stderr: number, most: number) => {
    const found = await peek({ stdout, stderr }, most);
    return found && [text(found.stdout), text(found.stderr)];
  };
  while ((await texts(0, 0, 100))?.join() !== 'abcdef,oops');
  t.same(await texts(2, 1, 100), ['cdef', 'ops']);
  t.same(await texts(2, 1, 5), ['cdef', 'o'], 'as much as was asked for');
  t.same(await texts(6, 4, 100), ['', '']);
  t.same(await texts(7, 2 ** 52, 100), ['', ''], 'nothing is behind the end');
  cancelling.abort();
  t.match(await running, { kind: 'cancelled' });
  t.equal(await texts(0, 0, 100), null);
  // The next run in the same slots does not show the bytes of the last one.
  const others = Array.from({ length: 2 }, () =>
    sandbox.run(shell('sleep 0.1'), {
      onRun: (given) => {
        peek = given;
      },
    }),
  );
  for (let found = await texts(0, 0, 100); found; found = await texts(0, 0, 100))
    t.same(found, ['', '']);
  await Promise.all(others);
});

t.test('after the deadline nothing runs, until it is moved', async (t) => {
  sandbox.extendDeadline(150);
  t.match(await rejection(sandbox.run(shell('sleep 60'))), { kind: 'deadline' });
  t.match(await rejection(sandbox.run(shell('true'))), { kind: 'deadline' });
  sandbox.extendDeadline(60_000);
  t.match(await sandbox.run(shell('exit 7')), { exit_code: 7 });
  sandbox.extendDeadline(0);
});

t.test('a compiled program that cannot be executed is no failure of the service', (t) =>
  saysWhyItCannotRun(t, sandbox),
);
