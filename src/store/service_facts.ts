/** What metrics say of the service as a whole: the queue, the workers by language, the log, retention and the database. */
import type { Db } from '../db.ts';
import { allNumbers, type QueueFacts } from './queue_facts.ts';
import type { RetentionFacts } from './retention.ts';

export type DatabaseFacts = {
  size_bytes: number;
  /** To all databases of the server, and to this one. */
  connections: number;
  connections_here: number;
  /** The most that it allows to logins that are no superusers. */
  connections_max: number;
};

export type ServiceFacts = QueueFacts &
  DatabaseFacts & {
    languages: { language: string; workers: number; slots: number }[];
    retention: RetentionFacts;
  };

export async function serviceFacts(db: Db): Promise<ServiceFacts> {
  const [row] = await db<Pick<ServiceFacts, 'languages' | 'retention'>[]>`
    select q.*, d.*, (select coalesce(jsonb_agg(l), '[]') from runledger.alive_languages() l) as languages,
      (select to_jsonb(r) from runledger.retention_facts() r) as retention
    from runledger.queue_facts() q, runledger.database_facts() d`;
  const { languages, retention, ...numbers } = row!;
  return { ...(allNumbers(numbers) as QueueFacts & DatabaseFacts), languages, retention };
}

export async function databaseFacts(db: Db): Promise<DatabaseFacts> {
  const [row] = await db`select * from runledger.database_facts()`;
  return allNumbers(row!) as DatabaseFacts;
}
