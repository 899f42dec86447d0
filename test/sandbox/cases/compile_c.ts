/** C sources that attack while they are compiled. */
import type { CompileCase, CompileSide } from '../compile_case.ts';

const ROOT =
  'the compiler works in a box of its own, whose root has no file of the host but toolchains';
const LIMITS = 'compilers have limits of their own: time, memory, output, file size';

const HELLO: CompileSide = {
  code: '#include <stdio.h>\nint main(void) { puts("OK hello"); }\n',
  verdict: 'AC',
  says: /^OK hello$/m,
};

type Reading = Pick<CompileCase, 'name' | 'claim'> & { code: CompileSide['code'] };

const reading: readonly Reading[] = [
  {
    name: 'C: include of /etc/passwd',
    claim: 'a C source cannot show a user of the host by including /etc/passwd',
    code: '#include "/etc/passwd"\nint main(void) { return x; }\n',
  },
  {
    name: 'C: include of a file of the host',
    claim: 'a C source cannot show a file by including it',
    code: ({ secret_files: [file] }) => `#include "${file}"\nint main(void) {}\n`,
  },
  {
    name: 'C: incbin',
    claim: 'a C source cannot take a file into the program by .incbin',
    code: ({ secret_files: [file] }) =>
      `__asm__(".data\\nfrom: .incbin \\"${file}\\"\\n.byte 0\\n.text");\n#include <stdio.h>\nextern char from[];\nint main(void) { puts(from); }\n`,
  },
  {
    name: 'C: environment of the worker',
    claim: 'a C source cannot show the environment of the worker by including it',
    code: '#include "/proc/1/environ"\n#include "/proc/self/environ"\nint main(void) {}\n',
  },
];

const bombs: readonly Reading[] = [
  {
    name: 'C: endless include',
    claim: 'a C source cannot include itself for ever',
    code: '#include __FILE__\n#include __FILE__\nint main(void) {}\n',
  },
  {
    name: 'C: include of an endless device',
    claim: 'a C source cannot read /dev/zero for ever',
    code: '#include "/dev/zero"\nint main(void) {}\n',
  },
  {
    name: 'C: a huge program',
    claim: 'a C source cannot leave a program of gigabytes',
    code: 'char all[3000000000UL] = {1};\nint main(void) { return all[5]; }\n',
  },
];

export const compileC: readonly CompileCase[] = [
  ...reading.map(
    ({ name, claim, code }): CompileCase => ({
      ...{ name, claim, because: ROOT, language: 'c', honest: HELLO },
      // The box has an /etc/passwd of its own: what matters is that no line of the host's appears.
      hostile: { code, verdict: 'CE', evidence: namesNobody },
    }),
  ),
  ...bombs.map(
    ({ name, claim, code }): CompileCase => ({
      ...{ name, claim, because: LIMITS, language: 'c', honest: HELLO },
      hostile: { code, verdict: 'CE' },
    }),
  ),
];

function namesNobody({ stderr }: { stderr: Uint8Array }): string | null {
  const line = /^.*(daemon|nobody|www-data|sshd):x:.*$/m.exec(Buffer.from(stderr).toString());
  return line === null ? null : `the diagnostics quote the host: ${line[0]}`;
}
