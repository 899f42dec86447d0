/** A session that is lost, or a statement that fails, leaves nothing to the next statement. */
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import t, { type Test } from 'tap';
import { codeOf, connect, createSockets, type Db, type DbOptions, isAway } from '../src/db.ts';
import { freshDatabase } from './support/database.ts';
import { issue, makeAuthority } from './webhooks/certificate.ts';

const authority = makeAuthority();
const certificate = issue(authority, { hosts: ['localhost'] });
const REQUEST_BYTES = 8;

/** A network between the statements and PostgreSQL, with TLS or without. */
async function network(t: Test, to: URL) {
  const open = new Set<Socket>();
  const taking = new Set<Socket>();
  const own = {
    connections: 0,
    /** Those that began with something else than a request for TLS or for a session. */
    strange: 0,
    /** After so many bytes of answers, the session is cut. */
    cut_at: Number.POSITIVE_INFINITY,
    reset() {
      for (const each of open) each.resetAndDestroy();
    },
    end() {
      for (const each of open) each.end();
    },
    /** Takes nothing more of what is sent to it. */
    stall() {
      for (const each of taking) each.unpipe().pause();
    },
    port: 0,
  };
  const lead = (client: Socket, inner: Socket) => {
    const server = dial(Number(to.port), to.hostname);
    for (const each of [client, inner, server]) each.on('error', () => {});
    open.add(client);
    taking.add(inner);
    client.once('close', () => {
      open.delete(client);
      taking.delete(inner);
      server.destroy();
    });
    server.once('close', () => inner.destroySoon());
    inner.pipe(server);
    server.on('data', (bytes: Buffer) => {
      inner.write(bytes.subarray(0, own.cut_at));
      own.cut_at -= bytes.length;
      if (own.cut_at <= 0) {
        own.cut_at = Number.POSITIVE_INFINITY;
        client.destroySoon();
      }
    });
  };
  const server = createServer((client) => {
    own.connections += 1;
    client.on('error', () => {});
    client.once('readable', () => {
      // A request for TLS is the first thing that a client says, and all that it says until it is answered.
      const first = client.read() as Buffer | null;
      if (first === null) return;
      if (first.readInt32BE(0) !== first.length) own.strange += 1;
      if (first.length !== REQUEST_BYTES) {
        client.unshift(first);
        return lead(client, client);
      }
      client.write('S');
      lead(client, new TLSSocket(client, { isServer: true, ...certificate }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    own.reset();
    server.close();
  });
  own.port = (server.address() as AddressInfo).port;
  return own;
}

const database = await freshDatabase(t);
const KINDS = { 'without TLS': false, 'with TLS': { ca: authority.pem } };

/** The rows, or the code of the error. Only a statement that hangs takes so long. */
const answerOf = (statement: PromiseLike<unknown>) =>
  Promise.race([
    Promise.resolve(statement).catch((error: unknown) => codeOf(error)),
    wait(60_000, 'it waits', { ref: false }),
  ]);

type Tx = Parameters<Parameters<Db['begin']>[1]>[0];

const rowsOf = (db: Db, count: number) =>
  answerOf(db`select n from generate_series(1, ${count}) n`);
const ONE = [{ n: 1 }];
const TWO = [...ONE, { n: 2 }];

/** It has its own rows, or the database was away. */
const isAnswered = (answer: unknown, rows: object[]) =>
  JSON.stringify(answer) === JSON.stringify(rows) || isAway({ code: answer });

for (const [kind, tls] of Object.entries(KINDS)) {
  t.test(kind, async (t) => {
    const to = new URL(database.urls.owner);
    const between = await network(t, new URL(to));
    to.hostname = 'localhost';
    to.port = String(between.port);
    const open = (t: Test, options: Partial<DbOptions> = {}) => {
      const address = { url: to.href, tls: tls as false };
      const db = connect(address, { name: 'test', max: 1, ...options });
      t.teardown(() => db.end({ timeout: 0 }));
      return db;
    };

    t.test('a result that breaks off with an error', async (t) => {
      const db = open(t);
      t.equal(await answerOf(db`select 1 / (3 - n) from generate_series(1, 5) n`), '22012');
      t.same(await rowsOf(db, 2), TWO);
    });

    t.test('a result that breaks off with its session', async (t) => {
      const db = open(t);
      t.same(await rowsOf(db, 2), TWO);
      between.cut_at = 2_500;
      const cut = await answerOf(db`select repeat('x', 1000) as x from generate_series(1, 5)`);
      t.equal(cut, 'CONNECTION_CLOSED');
      t.same(await rowsOf(db, 2), TWO);
      t.same(await rowsOf(db, 1), ONE);
    });

    t.test('a session that is reset, and statements at once', async (t) => {
      const db = open(t);
      t.same(await rowsOf(db, 2), TWO);
      const sleeps = answerOf(db`select pg_sleep(60)`.then(null, () => rowsOf(db, 1)));
      await wait(200);
      between.reset();
      t.ok(isAnswered(await sleeps, ONE), 'the next one fails, or is answered');
      t.same(await rowsOf(db, 2), TWO);
      t.same(await rowsOf(db, 1), ONE);
    });

    for (const loss of ['reset', 'end'] as const) {
      const shapes: Record<string, (tx: Tx) => Promise<unknown>> = {
        plain: (tx) => tx`select pg_sleep(60)`,
        'with a savepoint': (tx) => tx.savepoint((inner) => inner`select pg_sleep(60)`),
        'that goes on': (tx) => tx`select pg_sleep(60)`.catch(() => tx`create table late ()`),
        'that was busy with something else': async (tx) => {
          await wait(1_000);
          await tx`create table late ()`;
        },
      };
      for (const [shape, work] of Object.entries(shapes)) {
        t.test(`a transaction ${shape}, lost by ${loss}`, async (t) => {
          const db = open(t);
          const lost = answerOf(
            db.begin(async (tx) => {
              await tx`select 1`;
              setTimeout(between[loss], 200);
              await work(tx);
            }),
          );
          t.ok(isAway({ code: await lost }));
          t.ok(isAnswered(await rowsOf(db, 2), TWO));
          await wait(1_000);
          t.same(await rowsOf(db, 2), TWO);
          t.same(await rowsOf(db, 1), ONE);
          const tables = await db`select from pg_class where relname = 'late'`;
          t.equal(tables.length, 0, 'nothing of it counts on its own');
        });
      }
    }

    t.test('a session that nobody answers, with bytes that wait to be sent', async (t) => {
      const sockets = createSockets();
      const db = open(t, { sockets });
      t.same(await rowsOf(db, 2), TWO);
      between.stall();
      // Its text is sent at once, and a parameter only when PostgreSQL has described it.
      const large = () => db.unsafe(`select length('${'x'.repeat(20_000_000)}')`);
      const sent = answerOf(sockets.unlessSilent(large, 1_000));
      const behind = [rowsOf(db, 1), rowsOf(db, 2)];
      t.ok(isAway({ code: await sent }));
      const [one, two] = await Promise.all(behind);
      t.ok(isAnswered(one, ONE) && isAnswered(two, TWO));
      t.same(await rowsOf(db, 2), TWO, 'the next session is not failed for it');
      t.same(await rowsOf(db, 1), ONE);
    });

    t.test('a cursor whose session ends within its second page', async (t) => {
      const db = open(t);
      let pages = 0;
      const reading = async () => {
        const rows = db`select n, case n when 3 then pg_terminate_backend(pg_backend_pid()) end from generate_series(1, 5) n`;
        for await (const _ of rows.cursor(2)) pages += 1;
      };
      t.ok(isAway({ code: await answerOf(reading()) }));
      t.equal(pages, 1);
      t.same(await rowsOf(db, 2), TWO);
      t.same(await rowsOf(db, 1), ONE);
    });

    t.test('transactions behind any number of statements', async (t) => {
      for (const max of [1, 2]) {
        const db = open(t, { max });
        for (let before = 0; before <= 10; before += 1) {
          // Without `execute`, they would be sent behind the transaction.
          const asked = Array.from({ length: before }, () => db`select 1 as n`.execute());
          const begun = answerOf(db.begin('read only', async (tx) => rowsOf(tx as never, 2)));
          t.same(await begun, TWO, `${before} before it, at most ${max} connections`);
          t.same(await answerOf(Promise.all(asked)), new Array(before).fill(ONE));
          const states = await answerOf(
            Promise.all(Array.from({ length: 4 }, () => db`show transaction_read_only`)),
          );
          t.same(
            states,
            new Array(4).fill([{ transaction_read_only: 'off' }]),
            'none is left open',
          );
        }
      }
    });

    t.test('a session that PostgreSQL ends', async (t) => {
      const db = open(t);
      t.equal(
        await answerOf(db`select pg_terminate_backend(pg_backend_pid())`),
        'CONNECTION_CLOSED',
      );
      t.same(await rowsOf(db, 2), TWO, 'its last word is not the answer to the next statement');
      t.same(await rowsOf(db, 1), ONE);
    });

    t.test('a new session that is refused after a loss', async (t) => {
      const db = open(t);
      const admin = connect(database.superuser_url, { name: 'admin', max: 1 });
      t.teardown(() => admin.end({ timeout: 1 }));
      const name = admin(to.pathname.slice(1));
      t.same(await rowsOf(db, 2), TWO);
      await admin`alter database ${name} connection limit 0`;
      t.teardown(() => admin`alter database ${name} connection limit -1`);
      const sleeps = answerOf(db`select pg_sleep(60)`);
      await wait(200);
      between.end();
      t.equal(await sleeps, 'CONNECTION_CLOSED');
      const before = between.connections;
      for (const which of ['the next statement', 'and the one after it'])
        t.ok(isAway({ code: await rowsOf(db, 1) }), `${which} fails`);
      t.ok(between.connections - before <= 2, `${between.connections - before} connections`);
      await admin`alter database ${name} connection limit -1`;
      t.same(await rowsOf(db, 2), TWO);
    });

    t.test('statements in each turn while a session ends', async (t) => {
      const db = open(t);
      for (let turn = 1; turn <= 8; turn += 1) {
        t.same(await rowsOf(db, 1), ONE);
        between.end();
        const asked: Promise<unknown>[] = [];
        for (let n = 0; n < 400 && asked.length < 2; n += 1) {
          await new Promise((wake) => setImmediate(wake));
          if (n % 8 === turn - 1) asked.push(rowsOf(db, 1));
        }
        for (const answer of await Promise.all(asked))
          t.ok(answer !== 'CONNECT_TIMEOUT' && isAnswered(answer, ONE), `turn ${turn}: ${answer}`);
      }
      t.equal(between.strange, 0, 'nothing of it is sent to the next session');
      t.same(await rowsOf(db, 2), TWO);
    });
  });
}
