/** A sandbox on this machine, and requests for it; the launcher is the built one. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type BoxRequest,
  openSandbox,
  type Profile,
  type RunReport,
  type Sandbox,
  type SandboxOptions,
} from '../../src/executor/sandbox.ts';
import { BASE_ENVIRONMENT } from '../../src/languages/common/box.ts';

export const LAUNCHER =
  process.env['RUNLEDGER_TEST_LAUNCHER'] ?? join(import.meta.dirname, '../../build/launcher');
export const MiB = 1024 * 1024;

const merged = (name: string) => existsSync(`/usr/${name}`);

export const ROOT: Profile = {
  mounts: [{ from: '/usr', to: '/usr' }],
  copies: existsSync('/etc/ld.so.cache')
    ? [{ from: '/etc/ld.so.cache', to: '/etc/ld.so.cache' }]
    : [],
  links: ['bin', 'lib', 'lib64', 'sbin']
    .filter(merged)
    .map((name) => ({ target: `usr/${name}`, at: `/${name}` })),
};

/** Under an emulator everything takes ten times as long, and more. */
const SLOWNESS = process.env['RUNLEDGER_GUEST'] ? 10 : 1;

export const LIMITS = {
  cpu_ms: 5_000 * SLOWNESS,
  wall_ms: 10_000 * SLOWNESS,
  memory_bytes: 256 * MiB,
  stack_bytes: 256 * MiB,
  processes: 64,
  stdout_bytes: MiB,
  stderr_bytes: 64 * 1024,
  disk_bytes: 64 * MiB,
  inodes: 4_096,
  files: 64,
};

type Parts = Partial<Omit<BoxRequest, 'limits' | 'stdin'>> & {
  limits?: Partial<BoxRequest['limits']>;
  stdin?: string | Uint8Array;
};

export function request(argv: string[], parts: Parts = {}): BoxRequest {
  const { limits, stdin, ...rest } = parts;
  return {
    argv,
    env: BASE_ENVIRONMENT,
    files: [],
    profile: 'base',
    ...rest,
    stdin: Buffer.from(stdin ?? ''),
    limits: { ...LIMITS, ...limits },
  };
}

export const shell = (script: string, parts?: Parts) => request(['/bin/sh', '-c', script], parts);

export function python(source: string, parts: Parts = {}): BoxRequest {
  const files = [{ path: 'main.py', bytes: Buffer.from(source) }, ...(parts.files ?? [])];
  return request(['/usr/bin/python3', '-I', '/box/main.py'], { ...parts, files });
}

export const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('utf8');
export const said = (report: RunReport) => text(report.stdout).trim();

/** A sandbox whose store is a disk of 1 MiB. Root is needed. */
export async function withSmallDisk(options: Partial<SandboxOptions> = {}): Promise<{
  sandbox: Sandbox;
  /** the store, as this process reaches it: only the launcher sees the mount */
  store: string;
  close: () => Promise<void>;
}> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-full-'));
  const store_dir = join(folder, 'store');
  const launcher = join(folder, 'launcher');
  await mkdir(store_dir);
  const small = `mount -t tmpfs -o size=1m none ${store_dir} && exec ${LAUNCHER} "$@"`;
  const script = `#!/bin/sh\nexec unshare --mount /bin/sh -c '${small}' sh "$@"\n`;
  await writeFile(launcher, script, { mode: 0o755 });
  const zygote = null;
  const small_disk = { slots: 1, zygote, launcher, store_dir };
  const { sandbox, close } = await withSandbox({ ...options, ...small_disk });
  return {
    sandbox,
    store: `/proc/${sandbox.isolation.pid}/root${store_dir}`,
    async close() {
      await close();
      await rm(folder, { recursive: true });
    },
  };
}

/** A sandbox with a store of its own; both are gone when `close` has settled. */
export async function withSandbox(
  options: Partial<SandboxOptions> = {},
): Promise<{ sandbox: Sandbox; store: string; close: () => Promise<void> }> {
  const store = await mkdtemp(join(tmpdir(), 'runledger-store-'));
  const sandbox = await openSandbox({
    launcher: LAUNCHER,
    slots: 2,
    stream_slots: 1,
    profiles: { base: ROOT },
    store_dir: store,
    ...options,
  });
  const close = async () => {
    await sandbox.close();
    await rm(store, { recursive: true, force: true });
  };
  return { sandbox, store, close };
}
