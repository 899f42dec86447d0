/**
 * Which variables each part is given. The worker sits beside hostile code: it must not hold what
 * would let an escape read webhook secrets, forge heads of the log, or act as the database's owner.
 */
import { variables } from './config/variables.ts';

export type Part = 'web' | 'worker';

/** Of what is secret a part is given this and nothing else, so that a new secret is nobody's at first. */
const SECRETS_FOR: Record<Part, readonly string[]> = {
  web: [
    'DATABASE_URL',
    'RUNLEDGER_WEB_DATABASE_URL',
    'RUNLEDGER_WEBHOOK_KEYS',
    'RUNLEDGER_DIGEST_KEY',
    'RUNLEDGER_SEAL_KEY',
  ],
  worker: ['DATABASE_URL', 'RUNLEDGER_WORKER_DATABASE_URL'],
};

const secrets = Object.values(variables).filter((variable) => variable.secret);
const notFor = (part: Part): readonly string[] =>
  secrets.map((variable) => variable.name).filter((name) => !SECRETS_FOR[part].includes(name));

/** What a process needs to be started at all, and what says how Node shall behave. */
const OF_THE_MACHINE = [
  ...[
    'PATH',
    'HOME',
    'LANG',
    'LC_ALL',
    'TZ',
    'TMPDIR',
    'NODE_ENV',
    'NODE_OPTIONS',
    'NODE_EXTRA_CA_CERTS',
  ],
  // By these an ordinary user finds the manager that delegates control groups.
  ...['XDG_RUNTIME_DIR', 'DBUS_SESSION_BUS_ADDRESS'],
  // The channel between a part and `serve`.
  ...['NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE', 'NODE_COMPILE_CACHE'],
];

export function environmentFor(part: Part, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names = [...OF_THE_MACHINE, ...Object.values(variables).map((variable) => variable.name)];
  const withheld = notFor(part);
  const allowed = names.filter((name) => env[name] !== undefined && !withheld.includes(name));
  const own = Object.fromEntries(allowed.map((name) => [name, env[name]]));
  const url = env[part === 'web' ? 'RUNLEDGER_WEB_DATABASE_URL' : 'RUNLEDGER_WORKER_DATABASE_URL'];
  // With a login of its own the part has no use for the owner's.
  return url ? { ...own, DATABASE_URL: url } : own;
}

/** Does the environment hold what this part must not have? */
export function holdsForeign(part: Part, env: NodeJS.ProcessEnv): boolean {
  const own = environmentFor(part, env);
  return notFor(part).some((name) => env[name]) || own['DATABASE_URL'] !== env['DATABASE_URL'];
}
