/** Every command, by its words. Each is loaded only when it is called for. */
import type { Command } from './command.ts';

type Load = () => Promise<Command>;

export const commands: Readonly<Record<string, Load>> = {
  serve: async () => (await import('./serve.ts')).serve,
  web: async () => (await import('./serve.ts')).web,
  worker: async () => (await import('./serve.ts')).worker,
  migrate: async () => (await import('./migrate.ts')).migrate,
  'keys create': async () => (await import('./keys.ts')).create,
  'keys list': async () => (await import('./keys.ts')).list,
  'keys revoke': async () => (await import('./keys.ts')).revoke,
  'keys rotate': async () => (await import('./keys.ts')).rotate,
  'tiers set': async () => (await import('./tiers.ts')).set,
  'tiers list': async () => (await import('./tiers.ts')).list,
  'deliveries list': async () => (await import('./deliveries.ts')).list,
  'deliveries replay': async () => (await import('./deliveries.ts')).replay,
  run: async () => (await import('./run.ts')).run,
  verify: async () => (await import('./verify.ts')).verify,
  seal: async () => (await import('./verify.ts')).seal,
  purge: async () => (await import('./retention.ts')).purge,
  detach: async () => (await import('./retention.ts')).detach,
  rebuild: async () => (await import('./rebuild.ts')).rebuild,
  states: async () => (await import('./states.ts')).states,
  doctor: async () => (await import('./doctor.ts')).doctor,
  config: async () => (await import('./config.ts')).config,
};
