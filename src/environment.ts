/**
 * Which environment variables each process gets. A worker runs beside hostile code. It must not hold a secret with
 * which an escaped program could read webhook secrets, forge heads of the log, or act as the owner of the database.
 */
import { variables } from './config/variables.ts';

export type ProcessName = 'web' | 'worker';

/** An allow list: a new secret reaches no process until it is added here. */
const SECRETS_FOR: Record<ProcessName, readonly string[]> = {
  web: [
    'DATABASE_URL',
    'RUNLEDGER_WEB_DATABASE_URL',
    'RUNLEDGER_READ_DATABASE_URL',
    'RUNLEDGER_WEBHOOK_KEYS',
    'RUNLEDGER_DIGEST_KEY',
    'RUNLEDGER_SEAL_KEY',
  ],
  worker: ['DATABASE_URL', 'RUNLEDGER_WORKER_DATABASE_URL'],
};

/** Variables of the system and of Node that a process needs. */
const SYSTEM_VARIABLES = [
  'PATH',
  'HOME',
  'LANG',
  'LC_ALL',
  'TZ',
  'TMPDIR',
  'NODE_ENV',
  'NODE_OPTIONS',
  'NODE_EXTRA_CA_CERTS',
  // An ordinary user's worker finds systemd's user manager by these, which delegates control groups.
  'XDG_RUNTIME_DIR',
  'DBUS_SESSION_BUS_ADDRESS',
  // The IPC channel between `serve` and its child processes.
  'NODE_CHANNEL_FD',
  'NODE_CHANNEL_SERIALIZATION_MODE',
  'NODE_COMPILE_CACHE',
  // From ./runledger: see stop_request.ts.
  'SIGHUP_IS_IGNORED',
];

const secrets = Object.values(variables).filter((variable) => variable.secret);
const withheldFrom = (name: ProcessName): readonly string[] =>
  secrets.map((secret) => secret.name).filter((secret) => !SECRETS_FOR[name].includes(secret));

export function environmentFor(name: ProcessName, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const known = [...SYSTEM_VARIABLES, ...Object.values(variables).map((variable) => variable.name)];
  const withheld = withheldFrom(name);
  const allowed = known.filter((each) => env[each] !== undefined && !withheld.includes(each));
  const own = Object.fromEntries(allowed.map((each) => [each, env[each]]));
  const url = env[name === 'web' ? 'RUNLEDGER_WEB_DATABASE_URL' : 'RUNLEDGER_WORKER_DATABASE_URL'];
  // A process that has its own login does not need the owner's.
  return url ? { ...own, DATABASE_URL: url } : own;
}

/** True if the environment holds a secret that this process must not have. */
export function hasForeignSecrets(name: ProcessName, env: NodeJS.ProcessEnv): boolean {
  const own = environmentFor(name, env);
  return (
    withheldFrom(name).some((each) => env[each]) || own['DATABASE_URL'] !== env['DATABASE_URL']
  );
}
