/**
 * Which limit of ours ended a compile, and the line that says so to the user.
 *
 * The launcher's evidence comes first: the timer that fired, the output that it counted, the kernel's count of processes
 * that it killed for memory. What the launcher cannot see (a full work folder, heap or stack) the language reads from how
 * its tools failed. The verdict is CE in every case: this file only finds the words.
 */
import type { RunLimits } from '../domain/limits.ts';
import { spellBytes, spellTime } from '../domain/units.ts';
import { compileRejects } from '../domain/verdict.ts';
import type { Compiler, LimitMet } from '../languages/common/language.ts';
import type { RunReport } from './launcher_wire.ts';

const MiB = 1024 * 1024;
/** The launcher copies a program in one turn of its loop, and every other run waits for it. */
export const PROGRAM_BYTES = 64 * MiB;

export type Diagnostics = {
  /** cut at the limit of a compile's output */
  said: Uint8Array;
  said_truncated: boolean;
  /** which limit of ours the compile or its program exceeds; the last line of the diagnostics */
  limit_line: string | null;
};

/** The compiler's diagnostics, and the limit that ended it, if one did. */
export function diagnosticsOf(
  report: RunReport,
  compiler: Compiler,
  limits: RunLimits,
): Diagnostics {
  const { stdout, stderr, stderr_end = NOTHING, stdout_seen_bytes, stderr_seen_bytes } = report;
  if (!compileRejects(report)) {
    const said_truncated = stderr_seen_bytes > stderr.length;
    return { said: stderr, said_truncated, limit_line: null };
  }
  const said = Buffer.concat([stdout, stderr]);
  const said_truncated = stdout_seen_bytes + stderr_seen_bytes > said.length;
  const words = Buffer.concat([said, stderr_end]).toString('latin1');
  const met = compiler.limitMet?.(report.exit_code, words) ?? null;
  const exceeded = launcherSaw(report, limits) ?? toolsSaw(met, limits);
  if (exceeded === null) return { said, said_truncated, limit_line: null };
  const limit_line = `The compiler exceeded its limit of ${exceeded}.\n`;
  return { said: said.subarray(0, met?.said_until), said_truncated, limit_line };
}

function launcherSaw({ killed_for, oom_kills }: RunReport, limits: RunLimits): string | null {
  if (killed_for === 'cpu') return `${spellTime(limits.cpu_ms, ' ')} of CPU time`;
  if (killed_for === 'wall') return `${spellTime(limits.wall_ms, ' ')} of elapsed time`;
  if (killed_for === 'output') return `${spellBytes(limits.stdout_bytes, ' ')} of output`;
  return oom_kills > 0 ? `${spellBytes(limits.memory_bytes, ' ')} of memory` : null;
}

function toolsSaw(met: LimitMet | null, limits: RunLimits): string | null {
  if (met === null) return null;
  const { disk_bytes: files, memory_bytes: memory, stack_bytes: stack } = limits;
  const ofBox = { files, memory, stack };
  return `${spellBytes(met.bytes ?? ofBox[met.limit], ' ')} of ${met.limit}`;
}

const NOTHING = new Uint8Array();
const LINE_FEED = 0x0a;

/** At most `most` bytes of them. The line that names the limit is never cut off for the sake of the others. */
export function cutDiagnostics({ said, said_truncated, limit_line }: Diagnostics, most: number) {
  if (limit_line === null) {
    return { bytes: said.subarray(0, most), truncated: said_truncated || said.length > most };
  }
  const kept = said.subarray(0, Math.max(most - limit_line.length - 1, 0));
  const gap = kept.length > 0 && kept.at(-1) !== LINE_FEED ? '\n' : '';
  const bytes = Buffer.concat([kept, Buffer.from(gap + limit_line)]).subarray(0, most);
  return { bytes, truncated: said_truncated || kept.length < said.length };
}
