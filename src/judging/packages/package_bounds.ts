const KiB = 1024;
const MiB = 1024 * KiB;

/** The most that reading a package may cost. A package that needs more is rejected. */
export type PackageBounds = Readonly<{
  /** all files of the package together, unpacked */
  unpacked_bytes: number;
  files: number;
  /** the directory of an archive: names, and fields that nothing here needs but that are read into memory */
  directory_bytes: number;
  /** one path, in UTF-8 */
  path_bytes: number;
  /** names in one path */
  depth: number;
  /** unpacked bytes for each byte of the archive, once the package unpacks to more than UNSUSPICIOUS_BYTES */
  ratio: number;
  /** one YAML file, and all of them together: they are parsed in memory */
  yaml_bytes: number;
  all_yaml_bytes: number;
  /** the names and arguments of all groups and tests together: arguments are inherited, so a short file can stand for many */
  set_text_bytes: number;
  /** the names in the require_pass of all groups together: they are looked up whenever a test is rejected */
  required_names: number;
  /** the files of one program together: their number, and their bytes */
  program_files: number;
  program_bytes: number;
}>;

export const DEFAULT_PACKAGE_BOUNDS: PackageBounds = {
  unpacked_bytes: 256 * MiB,
  files: 10_000,
  directory_bytes: 8 * MiB,
  path_bytes: 512,
  depth: 16,
  ratio: 500,
  yaml_bytes: 64 * KiB,
  all_yaml_bytes: 2 * MiB,
  set_text_bytes: 4 * MiB,
  required_names: 10_000,
  program_files: 64,
  program_bytes: 1 * MiB,
};

/** An honest test can be one long run of the same character. */
export const UNSUSPICIOUS_BYTES = 16 * MiB;

/** One name in a path: the limit of every file system that a package comes from. */
export const NAME_BYTES = 255;
