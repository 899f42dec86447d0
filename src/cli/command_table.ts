/** Every command by its words, in the order of the overview. A command's file is loaded when it is called or listed. */
import type { Command } from './command.ts';

type Load = () => Promise<{ readonly command: Command }>;

export const commands: Readonly<Record<string, Load>> = {
  serve: () => import('./commands/serve_command.ts'),
  web: () => import('./commands/web_command.ts'),
  worker: () => import('./commands/worker_command.ts'),
  migrate: () => import('./commands/migrate_command.ts'),
  'keys create': () => import('./commands/keys_create_command.ts'),
  'keys list': () => import('./commands/keys_list_command.ts'),
  'keys revoke': () => import('./commands/keys_revoke_command.ts'),
  'keys rotate': () => import('./commands/keys_rotate_command.ts'),
  'tiers set': () => import('./commands/tiers_set_command.ts'),
  'tiers list': () => import('./commands/tiers_list_command.ts'),
  'operator create': () => import('./commands/operator_create_command.ts'),
  'operator list': () => import('./commands/operator_list_command.ts'),
  'operator revoke': () => import('./commands/operator_revoke_command.ts'),
  'deliveries list': () => import('./commands/deliveries_list_command.ts'),
  'deliveries replay': () => import('./commands/deliveries_replay_command.ts'),
  run: () => import('./commands/run_command.ts'),
  judge: () => import('./commands/judge_command.ts'),
  'problem check': () => import('./commands/problem_check_command.ts'),
  mcp: () => import('./commands/mcp_command.ts'),
  receipt: () => import('./commands/receipt_command.ts'),
  'check-receipt': () => import('./commands/check_receipt_command.ts'),
  verify: () => import('./commands/verify_command.ts'),
  seal: () => import('./commands/seal_command.ts'),
  witness: () => import('./commands/witness_command.ts'),
  policy: () => import('./commands/policy_command.ts'),
  repair: () => import('./commands/repair_command.ts'),
  purge: () => import('./commands/purge_command.ts'),
  forget: () => import('./commands/forget_command.ts'),
  detach: () => import('./commands/detach_command.ts'),
  rerun: () => import('./commands/rerun_command.ts'),
  backup: () => import('./commands/backup_command.ts'),
  restore: () => import('./commands/restore_command.ts'),
  'upgrade-database': () => import('./commands/upgrade_database_command.ts'),
  rebuild: () => import('./commands/rebuild_command.ts'),
  states: () => import('./commands/states_command.ts'),
  capacity: () => import('./commands/capacity_command.ts'),
  status: () => import('./commands/status_command.ts'),
  doctor: () => import('./commands/doctor_command.ts'),
  config: () => import('./commands/config_command.ts'),
};

/** The first words of commands that have two: `keys` for `keys create`. */
export const isGroup = (word: string): boolean =>
  Object.keys(commands).some((name) => name.startsWith(`${word} `));

export const commandsOf = (group: string): string[] =>
  Object.keys(commands).filter((name) => name.startsWith(`${group} `));
