/** Where a package's files come from: an archive or a folder. */
export type EntrySource = {
  /** hidden files are left out */
  readonly files: readonly Entry[];
  /** the folder's own name; null for an archive, whose file may have any name */
  readonly name: string | null;
  close(): Promise<void>;
};

export type Entry = {
  /** its path in the archive or folder */
  readonly path: string;
  readonly size: number;
  /**
   * Its bytes, which are checked while they are read: exactly `size`, and of the archive's checksum. Can be called
   * again.
   */
  open(): AsyncIterable<Uint8Array>;
};
