/**
 * The versions of the problem package format. `2023-07` was a draft for two years and became `2025-09`, so the newest
 * document describes both; what only the draft had is accepted in it, and marked where it is read.
 */
export const FORMAT_VERSIONS = {
  legacy: 'legacy',
  'legacy-icpc': 'legacy',
  '2023-07-draft': '2023-07',
  '2023-07': '2023-07',
  '2025-09-draft': '2025-09',
  '2025-09': '2025-09',
} as const;

export type FormatVersion = (typeof FORMAT_VERSIONS)[keyof typeof FORMAT_VERSIONS];
export type VersionName = keyof typeof FORMAT_VERSIONS;

export const VERSION_NAMES = Object.keys(FORMAT_VERSIONS) as VersionName[];
