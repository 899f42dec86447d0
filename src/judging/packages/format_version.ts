/**
 * The versions of the problem package format. `2023-07` was a draft for two years and became `2025-09`, so the newest
 * document describes both. Keys that only the draft had are accepted in both; comments mark them as `of the draft`.
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
