/** How an output is compared with an answer that has no checker. */
export type Compare =
  | 'lines'
  | 'exact'
  | {
      by: 'tokens';
      case_sensitive: boolean;
      /** Two tokens that are both numbers are equal if either tolerance allows their difference. */
      absolute: number | null;
      relative: number | null;
    };
