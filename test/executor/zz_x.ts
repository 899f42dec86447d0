import { chmodSync, copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { MiB, request, withSandbox } from './box.ts';

const { sandbox, store, close } = await withSandbox({ slots: 1, stream_slots: 0 });
mkdirSync(`${store}/x`);
copyFileSync('/tmp/rest_x/x', `${store}/x/x`);
chmodSync(`${store}/x/x`, 0o555);
const launcherUs = () =>
  Number(readFileSync(`/proc/${sandbox.isolation.pid}/schedstat`, 'utf8').split(' ')[0]) / 1000;
const lists = process.argv.slice(2);
for (const one of lists) {
  const [name, n, ...rest] = one.split(':');
  const limits = Object.fromEntries(
    rest.map((r) => {
      const [k, v] = r.split('=');
      return [k, Number(v)];
    }),
  );
  const before = launcherUs();
  const began = performance.now();
  const r = await sandbox.run(
    request(['/box/x/x', name!, n!], {
      load: [{ key: 'x', at: '/box/x' }],
      limits: { stdout_bytes: 8 * MiB, ...limits },
    } as never),
  );
  const took = performance.now() - began;
  console.log(
    one,
    `exit ${r.exit_code} ${r.killed_for} cpu ${(r.cpu_us / 1e3).toFixed(1)} wall ${(r.wall_us / 1e3).toFixed(1)} at ${r.limit_at_us} took ${took.toFixed(0)} launcher ${((launcherUs() - before) / 1e3).toFixed(1)} ms seen ${r.stderr_seen_bytes + r.stdout_seen_bytes} procs ${r.processes_peak}`,
  );
}
await close();
