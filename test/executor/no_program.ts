/**
 * A compiled program that the kernel cannot execute ends by itself: its source chose the interpreter or the format. A file
 * that is not there is the service's failure.
 */
import type { Test } from 'tap';
import { MiB, request, shell, text, type withSandbox } from './box.ts';

type Sandbox = Awaited<ReturnType<typeof withSandbox>>['sandbox'];

export async function saysWhyItCannotRun(t: Test, sandbox: Sandbox): Promise<void> {
  const programs = [
    ['no format', 'printf "\\177ELF nothing" > prog'],
    ['a missing interpreter', 'printf "#!/nowhere\\n" > prog'],
  ] as const;
  for (const [key, makes] of programs) {
    const name = key.replaceAll(' ', '_');
    const save = { key: name, paths: ['prog'], max_bytes: MiB, max_files: 2 };
    t.match(await sandbox.run(shell(`${makes}; chmod 755 prog`, { save })), {
      saved: { files: 1 },
    });
    const load = [{ key: name, at: '/load' }];
    const ran = await sandbox.run(request(['/load/prog'], { load }));
    t.match(ran, { exit_code: 126, signal: null }, key);
    t.match(text(ran.stderr), /^cannot execute \/load\/prog: /);
    const rejected = (program: string) =>
      sandbox.run(request([program], { load })).then(String, (error: unknown) => error);
    t.match(await rejected('/load/missing'), {
      kind: 'missing',
      message: /cannot execute \/load\/missing/,
    });
    t.match(await rejected('/nowhere'), {
      kind: 'rejected',
      message: /cannot execute \/nowhere/,
    });
  }
}
