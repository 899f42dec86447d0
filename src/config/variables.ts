/** Every variable that the service reads. A new variable is one row; the type of `Config` derives from the rows. */
import { LEAST_POOL } from './connections.ts';
import { executor, switches } from './executor_variables.ts';
import { limits } from './limit_variables.ts';
import {
  bytes,
  choice,
  duration,
  durations,
  list,
  logOrigin,
  namedKeys,
  onOff,
  port,
  postgresUrl,
  secret,
  serverAddress,
  text,
  verifierKeys,
  whole,
  witnesses,
} from './parsers.ts';
import { DAY, GiB, HOUR, KiB, MINUTE, optional, path, row, SECOND } from './variable.ts';

const database = {
  database_url: optional('DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason: 'the PostgreSQL of the service; where not set, `serve` runs one in the state directory',
    secret: true,
  }),
  web_database_url: optional('RUNLEDGER_WEB_DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason:
      "the address for web's role, which has only the rights that web needs; else DATABASE_URL",
    secret: true,
  }),
  read_database_url: optional('RUNLEDGER_READ_DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason:
      "a streaming replica, with web's role: it answers for the primary what no lag can make wrong; where not set, the primary answers all",
    secret: true,
  }),
  worker_database_url: optional('RUNLEDGER_WORKER_DATABASE_URL', postgresUrl, {
    unit: 'address',
    reason: "the address for the worker's role: a worker is beside hostile code; else DATABASE_URL",
    secret: true,
  }),
  database_tls: row('RUNLEDGER_DATABASE_TLS', choice('auto', 'disable', 'require', 'verify-full'), {
    default: 'auto',
    unit: 'word',
    reason:
      'auto: sslmode of the address, else no TLS to this machine and require to any other; require encrypts without checking the certificate, because hosted databases sign their own',
  }),
  database_ca_file: optional('RUNLEDGER_DATABASE_CA_FILE', path, {
    unit: 'file',
    reason: 'PEM certificates to check the database against; turns the full check on',
  }),
  database_pool: row('RUNLEDGER_DATABASE_POOL', whole(LEAST_POOL, 100), {
    default: '16',
    unit: 'connections',
    reason:
      'the most that one web or worker process holds to one server, for all purposes; small hosted databases allow 20 in all',
  }),
  state_dir: row('RUNLEDGER_STATE_DIR', path, {
    default: '.data',
    unit: 'folder',
    reason: 'state of this machine: the embedded PostgreSQL, secrets, caches',
  }),
  postgres_uid: optional('RUNLEDGER_POSTGRES_UID', whole(1, 4_294_967_294), {
    unit: 'user id',
    reason: 'the user of the embedded PostgreSQL when root starts it; else an unused id',
  }),
};

const OPTIONAL_FIELDS = [
  'limits',
  'expected_output',
  'compare',
  'args',
  'stdin_base64',
  'webhook_url',
  'files',
  'tests',
  'test_set',
  'checker',
  'interactor',
  'outputs',
] as const;

const http = {
  host: optional('HOST', text(/^[^\s/]+$/, 'must be an address to listen on'), {
    unit: 'address',
    reason: 'the address to listen on; 127.0.0.1 with RUNLEDGER_TLS=off, else all addresses',
  }),
  port: row('PORT', port, {
    default: '8080',
    unit: 'port',
    reason: 'the port to listen on; 0 picks a free one',
  }),
  tls: row('RUNLEDGER_TLS', choice('native', 'proxy', 'off'), {
    default: 'off',
    unit: 'word',
    reason:
      'native: a certificate of its own; proxy: a trusted router in front sends X-Forwarded-Proto; off: loopback only',
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
      reason: 'the prefix of new keys, so that secret scanners can tell whose they are',
    },
  ),
  wait_cap_ms: row('RUNLEDGER_WAIT_CAP', duration(SECOND, 30 * SECOND), {
    default: '30s',
    unit: 'time',
    reason: 'the longest wait of wait=true; 25s behind a router that cuts at 30 s',
  }),
  digest_key: optional('RUNLEDGER_DIGEST_KEY', secret, {
    unit: '32 bytes',
    reason:
      'the key of the digests that compare requests with a repeated Idempotency-Key; the same for every web process',
    secret: true,
  }),
  metrics_host: row('RUNLEDGER_METRICS_HOST', text(/^[^\s/]+$/, 'must be an address'), {
    default: '127.0.0.1',
    unit: 'address',
    reason: 'the address of /metrics; it counts all tenants, so keep it private',
  }),
  metrics_port: optional('RUNLEDGER_METRICS_PORT', port, {
    unit: 'port',
    reason:
      'the port of /metrics; no metrics where not set; a process that finds it in use takes the next free one of 20, and logs which; under `serve` the worker uses the next port',
  }),
  connections_max: row('RUNLEDGER_CONNECTIONS_MAX', whole(1, 1_000_000), {
    default: '20000',
    unit: 'connections',
    reason: 'the most open at once on one web process, waiting requests included; more are closed',
  }),
  request_timeout_ms: row('RUNLEDGER_REQUEST_TIMEOUT', duration(SECOND, HOUR), {
    default: '30s',
    unit: 'time',
    reason:
      'the socket of a request that has not arrived whole by then is closed (2 MiB need 70 KB/s); an upload of a test set may take longer, if each such time brings 64 KiB for each of its seconds',
  }),
  keep_alive_ms: row('RUNLEDGER_KEEP_ALIVE', duration(SECOND, HOUR), {
    default: '95s',
    unit: 'time',
    reason:
      'how long an idle connection is kept; longer than a router in front keeps it (60 to 90 s), so that the router never sends on a connection that is being closed',
  }),
  test_set_bytes: row('RUNLEDGER_TEST_SET_BYTES', bytes(KiB, GiB), {
    default: '256MiB',
    unit: 'bytes',
    reason:
      'the most of one test set, both as an archive and unpacked; more is rejected; at most 1 GiB, which can be stored and compared in time',
  }),
  account_test_sets: row('RUNLEDGER_ACCOUNT_TEST_SETS', whole(0, 1_000_000), {
    default: '1000',
    unit: 'sets',
    reason: 'an account that has as many test sets can store no more; 0: no account can store any',
  }),
  account_test_set_bytes: row('RUNLEDGER_ACCOUNT_TEST_SET_BYTES', bytes(0, 1024 * GiB), {
    default: '10GiB',
    unit: 'bytes',
    reason:
      'an account whose test sets have as many bytes together, the lists of their files included, can store no more',
  }),
  forbidden_fields: optional('RUNLEDGER_FORBIDDEN_FIELDS', list(OPTIONAL_FIELDS), {
    unit: 'words',
    reason: `optional fields of a submission that this deployment does not accept, of ${OPTIONAL_FIELDS.join(', ')}`,
  }),
};

const client = {
  server: row('RUNLEDGER_SERVER', serverAddress, {
    default: 'http://127.0.0.1:8080',
    unit: 'address',
    reason: 'for the commands that call the API, such as `./runledger run`: the service',
  }),
  api_key: optional('RUNLEDGER_API_KEY', text(/^[!-~]+$/, 'must be a key'), {
    unit: 'key',
    reason: 'for the commands that call the API, such as `./runledger run`: the key',
    secret: true,
  }),
};

const queue = {
  queue_capacity: row('RUNLEDGER_QUEUE_CAPACITY', whole(1, 10_000_000), {
    default: '10000',
    unit: 'submissions',
    reason: 'the most that may be pending; more get a 503, so that waiting stays short',
  }),
  pending_max_age_ms: row('RUNLEDGER_PENDING_MAX_AGE', duration(SECOND, 365 * DAY), {
    default: '24h',
    unit: 'time',
    reason: 'a submission that is still pending at this age ends in error',
  }),
  shutdown_grace_ms: row('RUNLEDGER_SHUTDOWN_GRACE', duration(0, 10 * MINUTE), {
    default: '5s',
    unit: 'time',
    reason: 'time to finish running work after SIGTERM; platforms kill after 10 to 30 s',
  }),
  shutdown_drain_ms: row('RUNLEDGER_SHUTDOWN_DRAIN', duration(0, 10 * MINUTE), {
    default: '0s',
    unit: 'time',
    reason:
      'after SIGTERM web serves for this long, with a 503 at /readyz, so that routers that ask there send no more; then it stops',
  }),
};

const webhooks = {
  webhook_keys: optional('RUNLEDGER_WEBHOOK_KEYS', namedKeys, {
    unit: 'id:base64,...',
    reason:
      'encrypt webhook secrets at rest, the first key new ones; for web and `deliveries replay`; where not set, webhooks are rejected',
    secret: true,
  }),
  webhook_schedule_ms: row('RUNLEDGER_WEBHOOK_SCHEDULE', durations, {
    default: '5s,5min,30min,2h,5h,10h,14h,20h,24h',
    unit: 'times',
    reason:
      'waits between the attempts of a delivery, each after the failure before; at most 20, of at most 7 days each',
  }),
  webhook_timeout_ms: row('RUNLEDGER_WEBHOOK_TIMEOUT', duration(100, 60 * SECOND), {
    default: '15s',
    unit: 'time',
    reason: 'the longest time of one attempt',
  }),
  webhook_allow_loopback: row('RUNLEDGER_WEBHOOK_ALLOW_LOOPBACK', onOff, {
    default: 'off',
    unit: 'on/off',
    reason: 'development only: deliver to this machine, too',
  }),
};

export const LONGEST_RETENTION = 36_500 * DAY;

const operation = {
  seal_key: optional('RUNLEDGER_SEAL_KEY', secret, {
    unit: '32 bytes',
    reason:
      'Ed25519 seed that signs the checkpoints of the log, for web and the commands; PostgreSQL does not have it, so a checkpoint is a proof; where not set, nothing is sealed',
    secret: true,
  }),
  seal_keys_before: optional('RUNLEDGER_SEAL_KEYS_BEFORE', verifierKeys, {
    unit: 'verifier keys',
    reason:
      'NAME+ID+KEY of each earlier key or name of this log, from `./runledger policy`; the log goes on from a checkpoint that one of them signed',
  }),
  log_origin: optional('RUNLEDGER_LOG_ORIGIN', logOrigin, {
    unit: 'name',
    reason:
      "the log's name, which no other log may have; where not set, runledger/ and the first 16 hex digits of the SHA-256 of the seal key's public key",
  }),
  witnesses: optional('RUNLEDGER_WITNESSES', witnesses, {
    unit: 'NAME+ID+KEY=URL ...',
    reason:
      'the witnesses that web asks to cosign each checkpoint: the verifier key and the address of each; where one knows another tree, nothing more is sealed',
  }),
  keep_bytes_ms: optional('RUNLEDGER_KEEP_BYTES', duration(DAY, LONGEST_RETENTION), {
    unit: 'time',
    reason:
      'code, input and output of submissions that ended longer ago are removed by themselves; `migrate` stores it; where not set, they are kept',
  }),
  keep_events_ms: optional('RUNLEDGER_KEEP_EVENTS', duration(DAY, LONGEST_RETENTION), {
    unit: 'time',
    reason:
      'months of the log that ended longer ago are taken out and dropped by themselves, with all that belongs to their submissions; `migrate` stores it; where not set, they are kept',
  }),
  log_level: row(
    'RUNLEDGER_LOG_LEVEL',
    choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    {
      default: 'info',
      unit: 'word',
      reason:
        'the lowest level that is logged; where not set, `serve` starts its processes with warn',
    },
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
