/** The replica of a web process, with its metrics and its lines in the log. */
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { createReplica, type Replica, type ReplicaOptions } from '../store/replica.ts';

type Options = Omit<ReplicaOptions, 'onAnswer' | 'onChange'> & { log: Log; metrics: Metrics };

export function observedReplica({ log, metrics, ...options }: Options): Replica {
  const reads = metrics.counter(
    'runledger_replica_reads_total',
    'Reads that the replica may answer, by call and by outcome: replica, it answered; else the primary was asked, because the answer was not final (not_final), the replica was not in use (not_used), or it failed.',
    ['call', 'outcome'],
  );
  const replica = createReplica({
    ...options,
    onAnswer: (call, outcome) => reads.add({ call, outcome }),
    onChange: (problem) => {
      if (problem === null) log.info('the replica answers reads');
      else log.warn({ problem }, 'the primary answers the reads of the replica');
    },
  });
  metrics.gauge('runledger_replica_used', '1 while the replica answers reads; else 0.', () =>
    Number(replica.isUsed()),
  );
  metrics.gauge(
    'runledger_replica_behind_seconds',
    'How old the data of the replica is at most.',
    () => {
      const behind_ms = replica.behind_ms();
      return behind_ms === null ? null : behind_ms / 1e3;
    },
  );
  return replica;
}
