/** Finds the output validator of a package: the program that becomes the checker or the interactor of the set. */
import type { Entry } from './entry_source.ts';
import { type Folder, pathIn } from './file_tree.ts';
import { PackageProblem } from './package_problem.ts';
import type { ProblemSettings } from './problem_settings.ts';
import { filesOfFile, filesOfFolder, isSource, type ProgramFiles } from './programs.ts';

export type Validator = ProgramFiles & {
  /** by which a group can refer to it */
  name: string;
};

/** Since 2023-07 the folder is the program. Before, it held programs. */
const ONE = 'output_validator';
const MANY = 'output_validators';

/** Null where the default validator judges. */
export function findValidator(
  root: Folder,
  problem: ProblemSettings,
  note: (path: string, note: string) => void,
): Validator | null {
  const one = root.folders.get(ONE);
  const many = root.folders.get(MANY);
  if (one !== undefined && many !== undefined)
    throw new PackageProblem(one.path, `there is ${MANY}, too`);
  const folder = one ?? many;
  const needed = problem.custom || problem.interactive || problem.passes > 1;
  if (folder === undefined) {
    if (!needed) return null;
    throw new PackageProblem(
      pathIn(root, problem.version === 'legacy' ? MANY : ONE),
      'it is missing',
    );
  }
  if (problem.custom === false && !needed) {
    note(folder.path, 'it is not used, because the default validator judges');
    return null;
  }
  if (problem.custom === false) {
    throw new PackageProblem(folder.path, 'problem.yaml says that the default validator judges');
  }
  const validator = folder === one ? programOf(folder) : onlyProgramIn(folder);
  for (const { path, entry } of validator.files) {
    if (path === 'build' || path === 'run') {
      throw new PackageProblem(
        entry.path,
        'build and run scripts are not supported; the sources alone have to say how they are built',
      );
    }
  }
  return validator;
}

function programOf(folder: Folder): Validator {
  const [inner, ...others] = folder.folders.values();
  if (folder.files.size > 0 || inner === undefined || others.length > 0) {
    return { ...filesOfFolder(folder), name: ONE };
  }
  return { ...filesOfFolder(inner), name: nameOf(inner.path) };
}

function onlyProgramIn(folder: Folder): Validator {
  const files = [...folder.files.values()];
  const sources = files.filter(isSource);
  const [program, other] = [...folder.folders.values(), ...sources];
  if (program === undefined)
    throw new PackageProblem(folder.path, 'it has no program in a supported language');
  if (other !== undefined) {
    throw new PackageProblem(
      other.path,
      `one output validator is supported, and ${program.path} is another`,
    );
  }
  // Only now: each program of a file has all headers of the folder, and there may be thousands of both.
  if ('open' in program) return validatorOfFile(program, files);
  return { ...filesOfFolder(program), name: nameOf(program.path) };
}

function validatorOfFile(source: Entry, files: readonly Entry[]): Validator {
  const others = files.filter((file) => !isSource(file));
  return { ...filesOfFile(source, others), name: nameOf(source.path).replace(/\.[^.]*$/, '') };
}

const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1);
