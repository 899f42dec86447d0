/** Every variable that the service reads. To add one, add a row: the type of `Config` follows. */
import { executor, limits, switches } from './executor_variables.ts';
import {
  choice,
  duration,
  durations,
  list,
  namedKeys,
  onOff,
  port,
  postgresUrl,
  secret,
  text,
  whole,
} from './parsers.ts';
import { DAY, HOUR, MINUTE, optional, path, row, SECOND } from './variable.ts';

const database = {
  database_url: optional('DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason:
      'the PostgreSQL that holds everything; without it an own one is kept in the state directory',
    secret: true,
  }),
  web_database_url: optional('RUNLEDGER_WEB_DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason:
      "the web role's own address, so that web can do no more than it must; else DATABASE_URL",
    secret: true,
  }),
  worker_database_url: optional('RUNLEDGER_WORKER_DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason: "the worker role's own address: it sits beside hostile code; else DATABASE_URL",
    secret: true,
  }),
  auditor_database_url: optional('RUNLEDGER_AUDITOR_DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason: "the read-only auditor's own address, for doctor to check what that role may see",
    secret: true,
  }),
  database_tls: row('RUNLEDGER_DATABASE_TLS', choice('auto', 'disable', 'require', 'verify-full'), {
    default: 'auto',
    unit: 'word',
    reason:
      'auto: what sslmode in the address says, else none to this machine and require to any other; require encrypts without checking the certificate, as hosted databases sign their own',
  }),
  database_ca_file: optional('RUNLEDGER_DATABASE_CA_FILE', path, {
    unit: 'file',
    reason: 'PEM certificates that the database is checked against; with it the check is full',
  }),
  database_pool: row('RUNLEDGER_DATABASE_POOL', whole(3, 100), {
    default: '10',
    unit: 'connections',
    reason: 'at most this many per process; small hosted databases allow 20 in all',
  }),
  state_dir: row('RUNLEDGER_STATE_DIR', path, {
    default: '.data',
    unit: 'folder',
    reason: 'what this machine keeps: the embedded PostgreSQL, its secrets, caches',
  }),
  postgres_uid: optional('RUNLEDGER_POSTGRES_UID', whole(1, 4_294_967_294), {
    unit: 'user id',
    reason: 'who the embedded PostgreSQL runs as when started by root; else one of its own',
  }),
};

const http = {
  host: optional('HOST', text(/^[^\s/]+$/, 'must be an address to listen on'), {
    unit: 'address',
    reason: 'where to listen; 127.0.0.1 with RUNLEDGER_TLS=off, else all addresses',
  }),
  port: row('PORT', port, {
    default: '8080',
    unit: 'port',
    reason: 'where to listen; 0 takes a free one',
  }),
  tls: row('RUNLEDGER_TLS', choice('native', 'proxy', 'off'), {
    default: 'off',
    unit: 'word',
    reason:
      'native: own certificate; proxy: a trusted router in front sends X-Forwarded-Proto; off: loopback only',
  }),
  tls_cert_file: optional('RUNLEDGER_TLS_CERT_FILE', path, {
    unit: 'file',
    reason: 'PEM certificate chain, for RUNLEDGER_TLS=native',
  }),
  tls_key_file: optional('RUNLEDGER_TLS_KEY_FILE', path, {
    unit: 'file',
    reason: 'PEM private key, for RUNLEDGER_TLS=native',
  }),
  key_prefix: row(
    'RUNLEDGER_KEY_PREFIX',
    text(/^[a-z][a-z0-9]{0,15}$/, 'must be 1 to 16 of a-z and 0-9, a letter first'),
    {
      default: 'rl',
      unit: 'word',
      reason: 'what new keys begin with, so that secret scanners can tell whose they are',
    },
  ),
  wait_cap_ms: row('RUNLEDGER_WAIT_CAP', duration(SECOND, 30 * SECOND), {
    default: '30s',
    unit: 'time',
    reason: 'longest hold of wait=true; 25s behind a router that cuts at 30 s',
  }),
  digest_key: optional('RUNLEDGER_DIGEST_KEY', secret, {
    unit: '32 bytes',
    reason:
      'keys the digest by which a repeated Idempotency-Key is compared; every web process needs the same',
    secret: true,
  }),
  metrics_host: row('RUNLEDGER_METRICS_HOST', text(/^[^\s/]+$/, 'must be an address'), {
    default: '127.0.0.1',
    unit: 'address',
    reason: 'where /metrics listens; it names tenants, so not in public',
  }),
  metrics_port: optional('RUNLEDGER_METRICS_PORT', port, {
    unit: 'port',
    reason: 'where /metrics listens; not set: nowhere; under `serve` the worker takes the next one',
  }),
  connections_max: row('RUNLEDGER_CONNECTIONS_MAX', whole(1, 1_000_000), {
    default: '20000',
    unit: 'connections',
    reason: 'open at once on one web process, held requests among them; what is over it is closed',
  }),
  request_timeout_ms: row('RUNLEDGER_REQUEST_TIMEOUT', duration(SECOND, HOUR), {
    default: '30s',
    unit: 'time',
    reason: 'a request that has not arrived whole by then has its socket closed; 2 MiB at 70 KB/s',
  }),
  keep_alive_ms: row('RUNLEDGER_KEEP_ALIVE', duration(SECOND, HOUR), {
    default: '95s',
    unit: 'time',
    reason:
      'an idle connection is kept for so long; longer than the router in front keeps it (60 to 90 s), so that it never sends into one that we are closing',
  }),
  forbidden_fields: optional(
    'RUNLEDGER_FORBIDDEN_FIELDS',
    list('limits', 'expected_output', 'compare', 'args', 'stdin_base64', 'webhook_url'),
    { unit: 'words', reason: 'optional fields of a submission that this deployment does not take' },
  ),
};

const client = {
  server: row('RUNLEDGER_SERVER', text(/^https?:\/\/\S+$/, 'must be an address'), {
    default: 'http://127.0.0.1:8080',
    unit: 'address',
    reason: 'for `runledger run`: the service to send to',
  }),
  api_key: optional('RUNLEDGER_API_KEY', text(/^\S+$/, 'must be a key'), {
    unit: 'key',
    reason: 'for `runledger run`: the key to send with',
    secret: true,
  }),
};

const queue = {
  queue_capacity: row('RUNLEDGER_QUEUE_CAPACITY', whole(1, 10_000_000), {
    default: '10000',
    unit: 'submissions',
    reason: 'most that may be pending; beyond it 503, so that waiting stays short',
  }),
  pending_max_age_ms: row('RUNLEDGER_PENDING_MAX_AGE', duration(SECOND, 365 * DAY), {
    default: '24h',
    unit: 'time',
    reason: 'a submission that no worker could take for so long ends in error',
  }),
  shutdown_grace_ms: row('RUNLEDGER_SHUTDOWN_GRACE', duration(0, 10 * MINUTE), {
    default: '5s',
    unit: 'time',
    reason: 'after SIGTERM running work may finish for so long; platforms kill after 10 to 30 s',
  }),
};

const webhooks = {
  webhook_keys: optional('RUNLEDGER_WEBHOOK_KEYS', namedKeys, {
    unit: 'id:base64,...',
    reason:
      'seal webhook secrets at rest, the first new ones; for web alone; without it webhooks are refused',
    secret: true,
  }),
  webhook_schedule_ms: row('RUNLEDGER_WEBHOOK_SCHEDULE', durations, {
    default: '5s,5min,30min,2h,5h,10h,14h,20h,24h',
    unit: 'times',
    reason: 'waits between the attempts of a delivery, each from the failure before',
  }),
  webhook_timeout_ms: row('RUNLEDGER_WEBHOOK_TIMEOUT', duration(100, 60 * SECOND), {
    default: '15s',
    unit: 'time',
    reason: 'an attempt that takes longer has failed',
  }),
  webhook_allow_loopback: row('RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK', onOff, {
    default: 'off',
    unit: 'on/off',
    reason: 'development only: deliver to this machine too',
  }),
};

const operation = {
  seal_key: optional('RUNLEDGER_SEAL_KEY', secret, {
    unit: '32 bytes',
    reason: 'Ed25519 seed that signs the heads of the log; it is not in PostgreSQL, so heads prove',
    secret: true,
  }),
  log_level: row(
    'RUNLEDGER_LOG_LEVEL',
    choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    { default: 'info', unit: 'word', reason: 'least that is logged' },
  ),
};

export const variables = {
  ...database,
  ...http,
  ...client,
  ...queue,
  ...webhooks,
  ...executor,
  ...switches,
  ...limits,
  ...operation,
};
