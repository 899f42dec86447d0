/** What the service says of itself: the answers of GET /api/health and GET /api/toolchains. */

export type Health = {
  /** degraded: no worker is alive, or one has weaker isolation, or a witness has another tree */
  status: 'ok' | 'degraded';
  queue: { pending: number; running: number; capacity: number };
  /** slots: programs that can run at once */
  workers: { alive: number; slots: number };
  isolation: { kinds: string[]; degraded: boolean; missing: string[] };
  languages: string[];
  log: {
    /** why the process that answered signs no checkpoints; null while it does */
    problem: string | null;
    unsealed: number;
    checkpoint_age_s: number | null;
    retention_problem: string | null;
    witnesses: {
      name: string;
      lag_leaves: number | null;
      lag_s: number | null;
      forked: boolean;
      problem: string | null;
    }[];
  };
};

export type Toolchain = {
  name: string;
  title: string;
  aliases: string[];
  /** more than one while live workers differ */
  versions: string[];
  runs_now: boolean;
};

export type Probe = { status: 'live' | 'ready' };
