/** Reads the archives whose paths are its arguments, and prints for each what is wrong with it, in a line of JSON. */
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { PackageProblem } from '../../src/judging/packages/package_problem.ts';
import { readPackage } from '../../src/judging/packages/read_package.ts';

for (const path of process.argv.slice(2)) {
  const problem = await readPackage(path, DEFAULT_PACKAGE_BOUNDS, async () => {}).then(
    () => 'none',
    (error: unknown) => {
      if (!(error instanceof PackageProblem)) throw error;
      return error.message;
    },
  );
  console.log(JSON.stringify(problem));
}
