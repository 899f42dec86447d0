import { MiB, python, said, withSandbox } from './box.ts';

const { sandbox, close } = await withSandbox({ slots: 1, stream_slots: 0 });
const IS = '\nimport sys; print("decimal" in sys.modules)';
const programs: Record<string, string> = {
  hello: 'print(1)',
  touch: `
import ctypes
for line in open("/proc/self/maps"):
  p = line.split()
  if p[1] != "rw-p" or (len(p) > 5 and p[5].startswith("/")): continue
  a, b = (int(x, 16) for x in p[0].split("-"))
  if b - a > (64 << 20): continue
  for at in range(a, b, 4096):
    c = ctypes.c_char.from_address(at)
    c.value = c.value`,
  touch_sleep: `
import ctypes, time
for line in open("/proc/self/maps"):
  p = line.split()
  if p[1] != "rw-p" or (len(p) > 5 and p[5].startswith("/")): continue
  a, b = (int(x, 16) for x in p[0].split("-"))
  if b - a > (64 << 20): continue
  for at in range(a, b, 4096):
    c = ctypes.c_char.from_address(at)
    c.value = c.value
time.sleep(0.1)`,
  twenty: 'x = bytearray(20 << 20)',
  sort: 'import random\nx = sorted(random.random() for _ in range(200000))',
  dicts:
    'd = {}\nfor i in range(300000): d[i] = str(i)\nimport json; json.dumps(list(d.items())[:1000])',
  words:
    'import collections, re\nc = collections.Counter(re.findall(r"\\w+", "a b c d " * 50000))\nprint(c)',
};
async function warm(mem: number) {
  for (let i = 0; i < 300; i++) {
    if (
      said(
        await sandbox.run(
          python(IS, { zygote: { account: 'a' }, limits: { memory_bytes: mem } } as never),
        ),
      ) === 'True'
    )
      return true;
    await new Promise((r) => setTimeout(r, 20));
  }
  return false;
}
const mem = Number(process.argv[2] ?? 256) * MiB;
for (const [name, code] of Object.entries(programs)) {
  const limits = { memory_bytes: mem, wall_ms: 60000, cpu_ms: 30000 };
  await warm(mem);
  const w = await sandbox.run(python(code + IS, { zygote: { account: 'a' }, limits } as never));
  const p = await sandbox.run(python(code + IS, { limits }));
  console.log(
    name,
    said(w).split('\n').at(-1),
    `forked ${(w.memory_peak_bytes / MiB).toFixed(2)} plain ${(p.memory_peak_bytes / MiB).toFixed(2)} wall ${w.wall_us / 1e3} exit ${w.exit_code} ${p.exit_code} ${Buffer.from(w.stderr).toString().slice(0, 200)}`,
  );
}
await close();
