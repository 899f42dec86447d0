/** From the environment to one frozen, validated object. The variables are in config/variables.ts. */
import * as v from 'valibot';
import { tlsRefusalOf } from './config/database_url.ts';
import { switches } from './config/executor_variables.ts';
import type { Variable } from './config/variable.ts';
import { variables } from './config/variables.ts';
import { LIMITS, REQUEST_LIMITS } from './domain/limits.ts';

type Variables = typeof variables;
type ValueOf<V> = V extends Variable<infer T> ? T : never;

export type Config = { readonly [K in keyof Variables]: ValueOf<Variables[K]> };
export type Role = 'owner' | 'web' | 'worker' | 'auditor';
type Environment = Readonly<Record<string, string | undefined>>;

/** The environment has mistakes: one line for each, beginning with its variable. */
export class ConfigError extends Error {
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

export function loadConfig(env: Environment = process.env): Config {
  const { config, problems } = soundConfig(env);
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}

/** With the defaults in the place of mistakes, for who looks at what else is wrong. Nothing may run with them. */
export function soundConfig(env: Environment = process.env): {
  config: Config;
  problems: readonly string[];
} {
  const problems = unknownNames(env);
  const values: Record<string, unknown> = {};
  for (const [field, variable] of Object.entries(variables)) {
    const parsed = parseOne(variable, env[variable.name]);
    if ('problem' in parsed) problems.push(parsed.problem);
    const sound = 'problem' in parsed ? parseOne(variable, undefined) : parsed;
    if ('value' in sound) values[field] = sound.value;
  }
  const config = Object.freeze(values as Config);
  if (problems.length === 0) problems.push(...contradictions(config));
  return { config, problems };
}

/** A misspelt variable would silently leave its default in force. */
function unknownNames(env: Environment): string[] {
  const known = new Set(Object.values(variables).map((variable) => variable.name));
  return Object.keys(env)
    .filter((name) => name.startsWith('RUNLEDGER_') && !name.startsWith('RUNLEDGER_TEST_'))
    .filter((name) => !known.has(name))
    .map((name) => `${name}: no such variable (\`./runledger config\` prints them all)`);
}

type Parsed = { value: unknown } | { problem: string };

function parseOne(variable: Variable<unknown>, given: string | undefined): Parsed {
  // Empty counts as not set: compose files and CI systems pass empty values.
  const word = given?.trim() || variable.default;
  if (word === null) return { value: null };
  const result = v.safeParse(variable.parse, word);
  if (result.success) return { value: deepFreeze(result.output) };
  const [{ message, path, input }] = result.issues;
  // Of a list, the item that is wrong.
  const wrong = path && typeof input === 'string' ? input : word;
  const shown = variable.secret ? '' : `, not "${wrong}"`;
  return { problem: `${variable.name}: ${message}${shown}` };
}

function deepFreeze(value: unknown): unknown {
  if (Array.isArray(value)) {
    for (const item of value) deepFreeze(item);
    return Object.freeze(value);
  }
  // Typed arrays cannot be frozen.
  const plain = typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);
  return plain ? Object.freeze(value) : value;
}

const LOOPBACK = new Set(['localhost', '::1', '[::1]']);
export const isLoopback = (host: string) => LOOPBACK.has(host) || /^127(\.\d{1,3}){3}$/.test(host);

const DATABASE_URLS = [
  'database_url',
  'web_database_url',
  'read_database_url',
  'worker_database_url',
] as const;

/** Mistakes that take two variables. */
function contradictions(config: Config): string[] {
  const found: string[] = [];
  if (config.tls === 'off' && !isLoopback(listenHost(config))) {
    found.push(
      `HOST: ${config.host} can be reached from outside, and RUNLEDGER_TLS=off would send keys in clear text; set RUNLEDGER_TLS=native or proxy`,
    );
  }
  if (config.tls === 'native' && !config.tls_cert_file) {
    found.push('RUNLEDGER_TLS_CERT_FILE: must be set with RUNLEDGER_TLS=native');
  }
  if (config.tls === 'native' && !config.tls_key_file) {
    found.push('RUNLEDGER_TLS_KEY_FILE: must be set with RUNLEDGER_TLS=native');
  }
  for (const field of DATABASE_URLS) {
    const url = config[field];
    const refusal = url === null || config.database_tls !== 'auto' ? null : tlsRefusalOf(url);
    if (refusal !== null) found.push(`${variables[field].name}: ${refusal}`);
  }
  for (const { field } of REQUEST_LIMITS) {
    const { variable } = LIMITS[field];
    if (config[`limits_${field}`] > config[`limits_max_${field}`]) {
      found.push(`${variable}: must not be over ${variable}_MAX`);
    }
  }
  return found;
}

/** What is valid, and yet hardly what was meant. */
export function doubtsOf(config: Config): { found: string; remedy: string }[] {
  const { cpu_ms, wall_ms } = LIMITS;
  if (config.limits_max_cpu_ms <= config.limits_max_wall_ms) return [];
  const ends = `a program with one thread ends after ${config.limits_max_wall_ms / 1000} s`;
  return [
    {
      found: `${cpu_ms.variable}_MAX: over ${wall_ms.variable}_MAX: ${ends}`,
      remedy: `raise ${wall_ms.variable}_MAX with it, to twice as much`,
    },
  ];
}

/** Which speed-ups are on, by name. */
export function languageSwitches(config: Config): Record<string, boolean> {
  const values = config as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.keys(switches).map((name) => [name, values[name] === true]));
}

export function listenHost(config: Config): string {
  return config.host ?? (config.tls === 'off' ? '127.0.0.1' : '::');
}

/** The role's own address where there is one, else the address for all roles. */
export function databaseUrl(config: Config, role: Role): string | null {
  const own = {
    owner: null,
    web: config.web_database_url,
    worker: config.worker_database_url,
    auditor: null,
  }[role];
  return own ?? config.database_url;
}

export type DescribedVariable = {
  name: string;
  value: string | null;
  default: string | null;
  unit: string;
  reason: string;
};

/** Every variable as `./runledger config` shows it; secrets as "(set)". */
export function describeConfig(env: Environment = process.env): DescribedVariable[] {
  return Object.values(variables).map((variable) => {
    const given = env[variable.name]?.trim() || null;
    const value = given !== null && variable.secret ? '(set)' : (given ?? variable.default);
    const { name, unit, reason } = variable;
    return { name, value, default: variable.default, unit, reason };
  });
}
