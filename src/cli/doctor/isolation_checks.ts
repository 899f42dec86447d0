/**
 * Whether programs can run on this machine, found out by running them: the launcher starts a slot in the isolation that
 * is configured, and each language's first program is compiled and run.
 */
import { constants, existsSync } from 'node:fs';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Config, languageSwitches } from '../../config.ts';
import { bytesText } from '../../domain/units_text.ts';
import { BUILD_REMEDY, notBuilt, probeIsolation } from '../../executor/probe.ts';
import type { Isolation } from '../../executor/sandbox_options.ts';
import { Fault } from '../../fault.ts';
import type { ExecutionOutcome } from '../../judging/execution.ts';
import { BY_NAME } from '../../languages/common/registry.ts';
import { createLog } from '../../log.ts';
import { openExecutor } from '../../processes/open_executor.ts';
import { runsOwnCodeOnly } from '../../processes/own_code.ts';
import { launcherOf } from '../../processes/process.ts';
import { slotsOf } from '../../processes/slots_of.ts';
import type { Executor } from '../../queue/worker.ts';
import { type Check, type Finding, fail, ok, warn } from './finding.ts';

const EXPECTED = '42';

export const launcher: Check = {
  name: 'launcher',
  look: async ({ config }) => {
    const path = launcherOf(config);
    if (existsSync(path)) return [ok('launcher', path)];
    return [fail('launcher', notBuilt(path), BUILD_REMEDY)];
  },
};

export const isolation: Check = {
  name: 'isolation',
  look: async ({ config }) => {
    if (!existsSync(launcherOf(config))) return [];
    const probe = (kind: Config['isolation']) =>
      probeIsolation({ launcher: launcherOf(config), isolation: kind });
    const found = await probe(config.isolation);
    if ('isolation' in found) {
      const findings = await tryPrograms(config, config.isolation);
      return [isolationFinding(found.isolation), slotsFinding(config), ...findings];
    }
    const degraded = config.isolation === 'auto' ? await probe('rlimits') : found;
    if ('problem' in degraded) return [fail('isolation', 'none', degraded.problem)];
    const who = runsOwnCodeOnly(config)
      ? '`serve` runs your own code degraded, a `worker` does not start'
      : 'neither `serve` on this address nor a `worker` starts';
    const missing = degraded.isolation.missing ?? '';
    const findings = runsOwnCodeOnly(config) ? await tryPrograms(config, 'rlimits') : [];
    return [
      fail('isolation', `no full isolation: ${who}`, missing),
      slotsFinding(config),
      ...findings,
    ];
  },
};

function isolationFinding({ kind, degraded, missing }: Isolation): Finding {
  const full = `${kind}: control groups and namespaces`;
  if (!degraded && missing === null) return ok('isolation', full);
  if (!degraded) return warn('isolation', `${full}, without quotas of the processors`, missing!);
  return warn('isolation', 'degraded, as RUNLEDGER_ISOLATION=rlimits asks for', missing ?? '');
}

/** The memory that all slots together may use, against the memory that is free. */
function slotsFinding(config: Config): Finding {
  const slots = slotsOf(config);
  const free = process.availableMemory();
  const each = config.limits_memory_bytes;
  const found = `${slots}, with ${bytesText(free)} of memory free; ${bytesText(slots * each)} at the default limit`;
  if (slots * each <= free) return ok('slots', found);
  const fits = Math.floor(free / each);
  if (fits === 0) return fail('slots', found, 'free some memory, or lower RUNLEDGER_LIMITS_MEMORY');
  return warn('slots', found, `set RUNLEDGER_SLOTS=${fits}, or free some memory`);
}

/** Runs each language's first program, without the speed-ups, whose preparation would take longer. */
async function tryPrograms(config: Config, kind: Config['isolation']): Promise<Finding[]> {
  // On the worker's own disk, if this user may write there: it may be mounted so that nothing can be executed on it.
  const own_dir = resolve(config.state_dir);
  const parent = await access(own_dir, constants.W_OK).then(
    () => own_dir,
    () => tmpdir(),
  );
  const state_dir = await mkdtemp(join(parent, 'runledger-doctor-'));
  const off = Object.fromEntries(
    Object.keys(languageSwitches(config)).map((name) => [name, false]),
  );
  const log = createLog({ level: 'silent', process: 'doctor' });
  try {
    const own = { ...config, ...off, isolation: kind, slots: 1, state_dir };
    const executor = await openExecutor(own, log);
    try {
      const findings: Finding[] = [];
      for (const name of Object.keys(executor.toolchains())) {
        const failed = (error: Error) => fail(`${name} program`, error.message, 'see the message');
        findings.push(await tryProgram(executor, name).catch(failed));
      }
      return findings;
    } finally {
      await executor.close();
    }
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return [fail('first program', error.message, error.remedy)];
  } finally {
    await rm(state_dir, { recursive: true, force: true });
  }
}

async function tryProgram(executor: Executor, language: string): Promise<Finding> {
  const check = `${language} program`;
  const outcome = await executor.execute(
    {
      submission_id: 'doctor',
      attempt: 1,
      account_id: 'doctor',
      language,
      code: Buffer.from(BY_NAME.get(language)!.hello),
      stdin: new Uint8Array(),
      args: [],
      expected_output: Buffer.from(EXPECTED),
      compare: 'lenient',
      limits: {},
      judging: null,
    },
    new AbortController().signal,
  );
  if (outcome.verdict === 'AC') return ok(check, `ran: ${inTime(outcome)}`);
  const said = Buffer.from(outcome.stderr).toString().trim().split('\n', 1)[0];
  return fail(check, `${outcome.verdict}: ${said}`, `reinstall the toolchain of ${language}`);
}

function inTime({ compile, wall_time_us }: ExecutionOutcome): string {
  const ms = (us: number | null) => `${((us ?? 0) / 1_000).toFixed(0)} ms`;
  return compile
    ? `${ms(compile.wall_time_us)} to compile, ${ms(wall_time_us)} to run`
    : ms(wall_time_us);
}
